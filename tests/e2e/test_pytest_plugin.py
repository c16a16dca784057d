"""The pytest plugin, in a separate pytest: on the simulated log, and on a cluster for two tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import load
from harness.cluster.distribution import download_cache
from harness.cluster.persistent import client
from harness.pytest_plugin import assert_valid
from harness.sim.queue.run import simulate
from tests.unit.report.folders import judged, recorded

pytest_plugins = ["pytester"]

CACHE = str(download_cache.root())  # before pytester changes the home directory of the tests
OPTIONS = "time_limit=2, final_time_limit=30, rate=100, concurrency=3, key_count=3"
TESTS = f"""
def test_an_honest_log(harness_run, kafka_cluster, assert_valid):
    run = harness_run({OPTIONS})
    assert kafka_cluster.kind == run.plan["cluster"] == "sim"
    assert run.plan["seed"] == 7 and run.ops.num_rows > 0
    assert_valid(run)

def test_something_else(harness_run):
    run = harness_run({OPTIONS}, acks="1", sim_bugs="lose-acked")
    assert run.results.valid == "unknown"

def test_a_mistake(harness_run):
    harness_run(nemesis="kill:leader")
"""


LOAD = "time_limit=5, rate=100, concurrency=3, key_count=3"
ON_ONE_CLUSTER = f"""
import pathlib

from harness.stored import fault_spans

seen = []

def test_first(harness_run, kafka_cluster, assert_valid):
    run = harness_run({LOAD}, acks="all")
    seen.append((kafka_cluster, run.plan["run"]))
    assert (run.plan["cluster"], run.plan["cluster_name"]) == ("local", kafka_cluster.name)
    assert kafka_cluster.bootstrap
    pathlib.Path("name").write_text(kafka_cluster.name)
    assert_valid(run)

def test_second(harness_run, kafka_cluster, assert_valid):
    run = harness_run({LOAD}, acks="all", nemesis="leader-kill", nemesis_first=1, nemesis_interval=4)
    assert [held for held, _ in seen] == [kafka_cluster] and seen[0][1] != run.plan["run"]
    assert any(span.took_effect for span in fault_spans.of_run(run.path))
    assert_valid(run)
"""


def _run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        "-p", "harness.pytest_plugin", "-p", "no:cacheprovider", *arguments, timeout=200
    )


@pytest.mark.long
@pytest.mark.spark
def test_runs_are_made_and_a_failing_test_tells_of_them(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    ended = _run(pytester, "--harness-cluster", "sim", "--harness-seed", "7")
    ended.assert_outcomes(passed=1, failed=2)
    output = ended.stdout.str()
    assert output.count("INVALID: lost-write") == 1, output
    assert "open: " in output and "harness run " in output
    assert "--cluster sim has no processes to inject faults into" in output
    assert "Traceback" not in output


def test_a_run_that_is_not_valid_fails_with_its_summary(tmp_path: Path) -> None:
    folder = recorded(tmp_path, "lossy", simulate(1, txn=False, bugs=frozenset({"lose-acked"})))
    judged(folder)
    with pytest.raises(pytest.fail.Exception, match="INVALID: lost-write") as failed:
        assert_valid(load(folder))
    assert f"open: {folder}" in str(failed.value)
    honest = recorded(tmp_path, "honest", simulate(1, txn=False))
    judged(honest)
    assert_valid(load(honest))


def test_an_invalid_cluster_is_refused_and_the_options_exist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(harness_run):\n    pass\n")
    ended = _run(pytester, "--harness-cluster", "cloud")
    printed = ended.stdout.str() + ended.stderr.str()
    assert "--harness-cluster cloud: no such cluster; choose one of local, docker" in printed
    help_text = _run(pytester, "--help").stdout.str()
    assert all(f"--harness-{name}" in help_text for name in ("cluster", "kafka-version", "seed", "runs"))


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.timeout(400)
def test_two_tests_share_one_cluster_which_is_removed_afterwards(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", CACHE)
    pytester.makepyfile(ON_ONE_CLUSTER)
    ended = pytester.runpytest_subprocess(
        "-p", "harness.pytest_plugin", "-p", "no:cacheprovider", "--harness-cluster", "local",
        "--harness-seed", "7", timeout=380,
    )  # fmt: skip
    ended.assert_outcomes(passed=2)
    assert (pytester.path / "name").read_text() not in client.names()
