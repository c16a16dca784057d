"""Upgrades of real clusters under load: each neighbouring pair of versions, and planted faults that must be found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from harness.cluster.distribution.upgrade_pairs import neighbours
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.model.check_result import Result
from harness.model.fault_and_generator_protocols import Env, Fault
from harness.plan.make_plan import make
from harness.run import test as run_test
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.shared.admin_fault import Requested
from nemesis.shared.effects import wait_for
from nemesis.shared.upgrade_fault import step_fault
from nemesis.verb import Verb
from tests.e2e.harness_command import Ran, footprint, left_behind, run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

UNDER = ("--concurrency", "4", "--rate", "40", "--acks", "all", "--seed", "7", "--nemesis-interval", "4")
NEWEST = ("kraft", "4.3", "4.4")


def steps(ran: Ran, f: str) -> list[dict[str, Any]]:
    return [op["value"] for op in ran.nemesis if op["f"] == f and op["extra"]["phase"] == "complete"]


def upgraded(ran: Ran) -> None:
    """Every server was restarted with the new version, the upgrade was finalized, and nothing was lost."""
    assert ran.code == 0, ran.out + ran.err
    last = [value for value in steps(ran, "upgrade") if value["took_effect"]][-1]
    assert last["complete"] and len(set(last["versions"].values())) == 1, last
    assert steps(ran, "finalize")[-1]["complete"]
    assert ran.anomalies == set()


@pytest.mark.long
def test_the_newest_pair(tmp_path: Path) -> None:
    before = footprint()
    _, old, new = NEWEST
    ran = run(
        tmp_path, "--kafka-version", old, "--upgrade-to", new, "--nemesis", "upgrade,finalize", "--time-limit", "100",
        *UNDER, timeout_s=330,
    )  # fmt: skip
    upgraded(ran)
    assert [value["nodes"] for value in steps(ran, "upgrade") if value["nodes"]] == [["n1"], ["n2"], ["n3"]]
    assert steps(ran, "finalize")[-1]["levels"]["metadata.version"] > 0
    page = (ran.folder / "report.html").read_text()
    assert "n1, n2: 4.4.0, n3: 4.3.1" in page and "metadata.version" in page
    assert left_behind(before) == {}


@pytest.mark.nightly
@pytest.mark.parametrize(("mode", "old", "new"), [pytest.param(*pair, id="-".join(pair)) for pair in neighbours()])
def test_every_pair_under_leader_kill(tmp_path: Path, mode: str, old: str, new: str) -> None:
    ran = run(
        tmp_path, "--kafka-version", old, "--upgrade-to", new, "--metadata", mode, "--txn",
        "--nemesis", "upgrade,finalize,leader-kill", "--time-limit", "240" if mode == "zookeeper" else "160", *UNDER,
        timeout_s=380,
    )  # fmt: skip
    upgraded(ran)
    assert any(kill["took_effect"] for kill in steps(ran, "kill"))


@pytest.mark.nightly
def test_roll_back_half_way_and_the_answer_to_a_downgrade(tmp_path: Path) -> None:
    ran = run(
        tmp_path, "--kafka-version", "3.9", "--upgrade-to", "4.1", "--time-limit", "130", "--txn",
        "--client", "confluent,java", "--nemesis", "upgrade,roll-back,finalize,downgrade", *UNDER, timeout_s=380,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    assert steps(ran, "roll-back")[-1]["versions"] == dict.fromkeys(("n1", "n2", "n3"), "3.9.2")
    (answer, *_) = steps(ran, "downgrade")
    assert "INVALID_UPDATE_VERSION" in answer["refused"], answer


@pytest.mark.nightly
def test_a_downgrade_that_kafka_accepts(tmp_path: Path) -> None:
    """No metadata version between those of 4.1 and 4.2 changes the metadata records.

    The old version starts only from a snapshot that was written after the downgrade (docs/findings/kafka-downgrade), so
    the servers write one after each batch.
    """
    ran = run(
        tmp_path, "--kafka-version", "4.1", "--upgrade-to", "4.2", "--time-limit", "130", "--txn",
        "--broker-config", "metadata.log.max.record.bytes.between.snapshots=100",
        "--nemesis", "upgrade,finalize,downgrade", *UNDER, timeout_s=380,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    asked, *restarts = steps(ran, "downgrade")
    assert not asked.get("refused") and asked["levels"]["metadata.version"] < asked["levels_before"]["metadata.version"]
    assert restarts[-1]["versions"] == dict.fromkeys(("n1", "n2", "n3"), "4.1.2")


# --- planted faults -----------------------------------------------------------------------------------

Plant = Callable[[LoopbackCluster, Env], None]
METADATA = "__cluster_metadata-0"


class Planted:
    """A fault that acts between the steps of an upgrade: `before` once at the start, `after` once it is finalized."""

    def __init__(self, before: Plant, after: Plant) -> None:
        self._before, self._after = before, after
        self._done: set[str] = set()

    def act(self, env: Env) -> dict[str, Any]:
        cluster = env.cluster
        assert isinstance(cluster, LoopbackCluster)
        levels = env.admin("features", 10.0) if env.admin else {}
        final = levels.get("metadata.version") == cluster.new_levels(cluster.upgrade_path().new)["metadata.version"]
        name, act = ("after", self._after) if final else ("before", self._before)
        if name in self._done:
            return {"nodes": [], "took_effect": True}
        self._done.add(name)
        act(cluster, env)
        return {"nodes": list(cluster.nodes), "took_effect": True}


def nothing(cluster: LoopbackCluster, env: Env) -> None:
    """Plants nothing yet."""


def while_down(cluster: LoopbackCluster, env: Env, act: Callable[[Path], None]) -> None:
    """Stops the only node, lets `act` change its data folder, and starts the node again."""
    cluster.stop("n1")
    act(cluster.work_dir.absolute() / "nodes" / "n1" / "data")
    cluster.start("n1")
    assert wait_for(lambda: not env.roles.unhealthy(), 40.0)


def planted(runs: Path, monkeypatch: pytest.MonkeyPatch, plant: Planted) -> Result:
    """Upgrades one node from 4.3 to 4.4 with a planted fault; returns the result of the run."""

    def fault(target: str, timing: Timing) -> Fault:
        return step_fault("plant", target, timing, Requested("plant", plant.act))

    verb = Verb("plant a fault", fault, nodes=False, named={"one": "One."})
    monkeypatch.setattr(table, "VERBS", {**table.VERBS, "plant": verb})
    plan = make({
        "nodes": 1, "kafka_version": "4.3", "upgrade_to": "4.4", "network": "loopback", "time_limit_s": 45.0,
        "nemesis": ("upgrade", "finalize", "plant:one"), "nemesis_first_s": 2.0, "nemesis_interval_s": 3.0,
        "concurrency": 2, "rate_hz": 20.0, "seed": 7, "acks": "all",
    })  # fmt: skip
    outcome = run_test.run(plan, runs, lambda text: None, spark_master="none", quiet=True, plots=False)
    return outcome.result


def found(result: Result) -> set[str]:
    return {anomaly.name for anomaly in result.anomalies if anomaly.bad}


@pytest.mark.nightly
def test_a_node_that_comes_back_with_older_features_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its metadata log is replaced by one from before the upgrade was finalized."""
    kept = tmp_path / "metadata"

    def keep(data: Path) -> None:
        shutil.copytree(data / METADATA, kept)

    def put_back(data: Path) -> None:
        shutil.rmtree(data / METADATA)
        shutil.copytree(kept, data / METADATA)

    plant = Planted(
        lambda cluster, env: while_down(cluster, env, keep), lambda cluster, env: while_down(cluster, env, put_back)
    )
    result = planted(tmp_path / "runs", monkeypatch, plant)
    assert result.valid == "invalid" and "feature-regression" in found(result), result


@pytest.mark.nightly
def test_a_segment_that_is_replaced_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only segment of one partition gets the content of another partition's segment."""

    def swap(data: Path) -> None:
        folders = sorted(path for path in data.glob("2*-0-[0-9]") if any(path.glob("*.log")))
        segments = [min(folder.glob("*.log")) for folder in folders]
        (largest, second) = sorted(segments, key=lambda path: path.stat().st_size, reverse=True)[:2]
        shutil.copyfile(second, largest)
        for name in ("*.index", "*.timeindex", "*.snapshot"):
            for path in largest.parent.glob(name):
                path.unlink()

    plant = Planted(nothing, lambda cluster, env: while_down(cluster, env, swap))
    result = planted(tmp_path / "runs", monkeypatch, plant)
    assert result.valid == "invalid" and found(result) & {"inconsistent-offsets", "lost-write", "unseen"}, result


@pytest.mark.nightly
def test_a_groups_offsets_that_are_reset_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(cluster: LoopbackCluster, env: Env) -> None:
        topic = f"upgrade-{env.roles.topic_prefix().rstrip('-')}"
        consumer = ck.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"{topic}-group"})
        consumer.commit(offsets=[ck.TopicPartition(topic, 0, 0)], asynchronous=False)
        consumer.close()

    result = planted(tmp_path / "runs", monkeypatch, Planted(nothing, reset))
    assert result.valid == "invalid" and found(result) == {"offset-not-kept"}, result


# --- from ZooKeeper to KRaft --------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("faults", "mode", "seconds"),
    [
        ("migrate-to-kraft", "kraft", "130"),
        ("migrate-to-kraft,leader-kill", "kraft", "230"),
        ("migrate-to-kraft,migrate-back", "zookeeper", "180"),
        pytest.param("migrate-to-kraft,migrate-back,leader-kill", "zookeeper", "340", marks=pytest.mark.timeout(600)),
    ],
)
def test_a_migration_from_zookeeper(tmp_path: Path, faults: str, mode: str, seconds: str) -> None:
    before = footprint()
    ran = run(tmp_path, "--nemesis", faults, "--time-limit", seconds, "--txn", *UNDER, timeout_s=580)
    assert ran.code == 0, ran.out + ran.err
    last = steps(ran, "migrate")[-1]
    assert last["complete"] and {last["modes"][node] for node in ("n1", "n2", "n3")} == {mode}, last
    assert any(value.get("dual_write") for value in steps(ran, "migrate"))
    assert (mode == "kraft") == any(value.get("retired") for value in steps(ran, "migrate"))
    assert left_behind(before) == {}
