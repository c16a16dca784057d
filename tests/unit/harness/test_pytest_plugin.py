"""Which cluster the pytest plugin starts, attaches to, or refuses, with fakes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.model.errors_and_exit_codes import BadInput
from harness.persistent import commands, lifecycle
from harness.run import test

pytest_plugins = ["pytester"]

TESTS = """
def test_one(harness_run, kafka_cluster):
    harness_run(acks="all")
    assert kafka_cluster.bootstrap == "127.0.0.1:9"

def test_two(harness_run, kafka_cluster):
    harness_run(acks="1")
"""


@dataclass
class Calls:
    """The recorded calls to named clusters and runs."""

    started: list[tuple[str, Any]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    looked: list[tuple[str, str]] = field(default_factory=list)
    plans: list[Any] = field(default_factory=list)


@dataclass
class Outcome:
    folder: Path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calls:
    calls = Calls()

    def run(plan: Any, *rest: Any, **more: Any) -> Outcome:
        calls.plans.append(plan)
        return Outcome(tmp_path)

    def status(name: str, kind: str) -> list[dict[str, Any]]:
        calls.looked.append((name, kind))
        if name == "gone":
            raise BadInput("no local cluster gone is up (none is): start it: harness cluster up gone")
        return [{"outside_bootstrap": "127.0.0.1:9"}]

    monkeypatch.setattr(lifecycle, "start", lambda name, plan, say: calls.started.append((name, plan)))
    monkeypatch.setattr(lifecycle, "stop", lambda name, force, say: calls.stopped.append(name))
    monkeypatch.setattr(commands, "status", status)
    monkeypatch.setattr(test, "run", run)
    return calls


def _run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(TESTS)
    return pytester.runpytest_inprocess("-p", "harness.pytest_plugin", "-p", "no:cacheprovider", *arguments)


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_a_cluster_of_the_session_is_started_once_and_stopped(
    pytester: pytest.Pytester, calls: Calls, kind: str
) -> None:
    _run(pytester, "--harness-cluster", kind).assert_outcomes(passed=2)
    ((name, plan),) = calls.started
    assert calls.stopped == [name] and plan.cluster == kind
    assert {(one.cluster, one.cluster_name) for one in calls.plans} == {(kind, name)}


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_a_cluster_that_is_up_is_used_and_left_alone(pytester: pytest.Pytester, calls: Calls, kind: str) -> None:
    _run(pytester, "--harness-cluster", f"{kind}:mine", "--harness-seed", "5").assert_outcomes(passed=2)
    assert (calls.started, calls.stopped, calls.looked) == ([], [], [("mine", kind)])
    assert [(one.cluster, one.cluster_name, one.acks, one.seed) for one in calls.plans] == [
        (kind, "mine", "all", 5),
        (kind, "mine", "1", 5),
    ]


def test_runs_attach_without_the_fixture_of_the_cluster_too(pytester: pytest.Pytester, calls: Calls) -> None:
    pytester.makepyfile(test_plain="def test_it(harness_run):\n    harness_run()\n")
    ended = pytester.runpytest_inprocess(
        "-p", "harness.pytest_plugin", "--harness-cluster", "local:mine", "--harness-kafka-version", "4.0.0"
    )
    ended.assert_outcomes(passed=1)
    (plan,) = calls.plans
    assert (plan.cluster, plan.cluster_name, plan.kafka_version) == ("local", "mine", "4.0.0")
    assert calls.started == calls.stopped == []


def test_a_cluster_that_is_not_up_is_reported(pytester: pytest.Pytester, calls: Calls) -> None:
    ended = _run(pytester, "--harness-cluster", "local:gone")
    ended.assert_outcomes(errors=2)
    assert "--harness-cluster local:gone: no local cluster gone is up" in ended.stdout.str()
    assert calls.started == calls.stopped == calls.plans == []


@pytest.mark.parametrize("chosen", ["ssh", "ssh:lab", "mock:x", "local:"])
def test_what_cannot_be_used_is_refused_with_what_can(pytester: pytest.Pytester, calls: Calls, chosen: str) -> None:
    ended = _run(pytester, "--harness-cluster", chosen)
    output = ended.stdout.str() + ended.stderr.str()
    assert f"--harness-cluster {chosen}: " in output and "or local:NAME or docker:NAME" in output
    assert calls.plans == calls.started == []
