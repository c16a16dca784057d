"""Watches the metadata quorum (KRaft) during a run, and copies the servers' metadata logs at its end.

    runs/<id>/events/quorum.jsonl   what servers said during the run, one JSON object per line, in order of time:
        {"time_ns", "node", "leader", "epoch", "high_watermark", "voters"}  a leader's answer to DescribeQuorum
        {"time_ns", "leaders": [[topic, partition, leader id, leader epoch], ...]}  a broker's answers to Metadata, as
                                    far as no broker had given the same answer before
    runs/<id>/metadata/<node>/      a server's metadata log: see `harness.cluster.local.copy_metadata`

The event `metadata-log` of events/harness.jsonl says that a run is watched, and at its end, whether the logs were
copied and which topics the cluster acknowledged to have created. The check `metadata` judges all of this.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from harness import history_writer
from harness.model.capabilities import Cluster, MetadataLogs, offers, servers
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.plan import derived
from harness.plan.test_plan import TestPlan
from harness.run.roles import Viewed

EVENT: Final = "metadata-log"
WATCHED: Final = "watched"
KEPT: Final = "copied"
NOT_KEPT: Final = "not copied"
FOLDER: Final = "metadata"
ANSWERS: Final = "events/quorum.jsonl"
PERIOD_S: Final = 1.0
MOST_BYTES: Final = 256 << 20
END_S: Final = 15.0  # time that the last answers of servers that do not answer may take
log = logging.getLogger("harness")


class Watch:
    """Asks the voters for the state of the quorum, and brokers for the leaders of partitions, once in PERIOD_S."""

    def __init__(self, folder: Path, cluster: Cluster, zero_ns: int) -> None:
        self._path, self._cluster, self._zero_ns = folder / ANSWERS, cluster, zero_ns
        self._said: set[tuple[str, int, int, int]] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="quorum-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks for the last time, and ends. Returns after at most 2 * END_S."""
        self._stop.set()
        self._thread.join(END_S)
        if not self._thread.is_alive():
            self._ask()

    def _loop(self) -> None:
        while not self._stop.is_set():
            self._ask()
            self._stop.wait(PERIOD_S)

    def _ask(self) -> None:
        """Appends the new answers to the file. A cluster that cannot be asked gives none."""
        lines: list[Mapping[str, Any]] = []
        try:
            assert isinstance(self._cluster, MetadataLogs)
            lines += self._cluster.quorum()
            if offers(self._cluster, Viewed):
                lines += self._leaders(self._cluster)
        except (ClusterTrouble, OSError) as error:
            log.info("the metadata quorum could not be asked: %s", error)
        now_ns = time.monotonic_ns() - self._zero_ns
        with self._path.open("ab") as file:
            for line in lines:
                file.write(orjson.dumps({"time_ns": now_ns, **line}, option=orjson.OPT_APPEND_NEWLINE))

    def _leaders(self, cluster: Viewed) -> list[dict[str, Any]]:
        said = {
            (topic, number, view.leader, view.epoch)
            for answer in cluster.views()
            for (topic, number), view in answer.partitions.items()
            if view.leader is not None
        }
        new = said - self._said
        self._said |= new
        return [{"leaders": sorted(new)}] if new else []


def watch(folder: Path, plan: TestPlan, cluster: Cluster, zero_ns: int, events: history_writer.Events) -> Watch | None:
    """Returns the watch of a run, not yet started. Returns None if the cluster has no metadata log that can be read."""
    if not offers(cluster, MetadataLogs) or not derived.metadata_judged(plan):
        return None
    events.write(EVENT, WATCHED)
    return Watch(folder, cluster, zero_ns)


def finish(folder: Path, cluster: Cluster, topics: Mapping[str, Any], events: history_writer.Events) -> None:
    """Copies the servers' metadata logs into the run folder, and records whether that succeeded.

    topics  the topics that the cluster acknowledged to have created, as `harness.run.topics.Topics.created` returns
            them
    """
    began, nodes = time.monotonic(), servers(cluster)
    try:
        assert isinstance(cluster, MetadataLogs)
        done = cluster.keep_metadata(str((folder / FOLDER).absolute()), MOST_BYTES)
    except (ClusterTrouble, OSError, ValueError) as error:
        log.warning("the metadata logs were not copied: %s", error)
        events.write(EVENT, NOT_KEPT, why=str(error), nodes=nodes, topics=topics)
        return
    seconds = round(time.monotonic() - began, 3)
    events.write(EVENT, KEPT, nodes=nodes, topics=topics, bytes=done["bytes"], seconds=seconds)
