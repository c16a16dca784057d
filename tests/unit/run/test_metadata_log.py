"""The watch on the metadata quorum: what it writes, and what the run records about the copied logs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import history_writer
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.plan.test_plan import TestPlan
from harness.protocol.brokers_metadata_views import PartitionView, View
from harness.run import metadata_log

ANSWER = {"node": "n1", "leader": 1, "epoch": 2, "high_watermark": 7, "voters": [1]}
TOPICS = {"names": ["r-0"], "partitions": 4, "replication": 1, "config": {}}


@dataclass
class FakeCluster:
    """Satisfies Cluster, MetadataLogs and Viewed."""

    nodes: tuple[str, ...] = ("n1",)
    bootstrap: str = "nowhere:1"
    trouble: bool = False
    asked: list[str] = field(default_factory=list)

    def up(self, progress: object) -> None: ...
    def down(self) -> None: ...
    def run(self, node: str, argv: object, timeout_s: float) -> Any: ...
    def controller(self) -> int | None:
        return 1

    def quorum(self) -> list[dict[str, Any]]:
        self.asked.append("quorum")
        if self.trouble:
            raise ClusterTrouble("the supervisor has ended")
        return [ANSWER]

    def views(self) -> list[View]:
        led, leaderless = PartitionView(1, 3, frozenset({1})), PartitionView(None, 4, frozenset({1}))
        return [View(frozenset({1}), {("r-0", 0): led, ("r-0", 1): leaderless})]

    def keep_metadata(self, folder: str, most_bytes: int) -> dict[str, Any]:
        if self.trouble:
            raise ClusterTrouble("no space")
        Path(folder).mkdir()
        return {"bytes": 9}


def watched(folder: Path, cluster: FakeCluster) -> list[dict[str, Any]]:
    """Watches a run until its end, and returns the events `metadata-log`."""
    (folder / "events").mkdir()
    events = history_writer.Events(folder, 0)
    watch = metadata_log.watch(folder, TestPlan(), cluster, 0, events)  # type: ignore[arg-type]
    assert watch is not None
    watch.start()
    watch.stop()
    metadata_log.finish(folder, cluster, TOPICS, events)  # type: ignore[arg-type]
    return [json.loads(line) for line in (folder / "events" / "harness.jsonl").read_text().splitlines()]


def test_new_answers_are_written_and_the_logs_copied(tmp_path: Path) -> None:
    cluster = FakeCluster()
    first, last = watched(tmp_path, cluster)
    assert len(cluster.asked) >= 2
    lines = [json.loads(line) for line in (tmp_path / metadata_log.ANSWERS).read_text().splitlines()]
    assert [{**line, "time_ns": 0} for line in lines if "node" in line] == [{"time_ns": 0, **ANSWER}] * len(
        cluster.asked
    )
    assert [line["leaders"] for line in lines if "leaders" in line] == [[["r-0", 0, 1, 3]]]
    assert (first["event"], first["detail"]) == ("metadata-log", "watched")
    assert (last["detail"], last["nodes"], last["topics"], last["bytes"]) == ("copied", ["n1"], TOPICS, 9)


def test_trouble_does_not_end_the_run(tmp_path: Path) -> None:
    _, last = watched(tmp_path, FakeCluster(trouble=True))
    assert (last["detail"], last["why"]) == ("not copied", "no space")
    assert (tmp_path / metadata_log.ANSWERS).read_text() == ""


def test_runs_without_a_metadata_log_are_not_watched(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    events = history_writer.Events(tmp_path, 0)
    for plan in (TestPlan(metadata="zookeeper", kafka_version="3.4"), TestPlan(cluster="mock")):
        assert metadata_log.watch(tmp_path, plan, FakeCluster(), 0, events) is None  # type: ignore[arg-type]
