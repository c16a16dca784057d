"""Decodes and compares the brokers' data that a run kept, or any data folders of brokers, for `harness inspect`.

For a run, the history is used to determine why records are missing. No broker is started. Nothing is written, except
the run's tables if it has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from checker.disk import contents, data_folder, missing_record_causes, truncations
from checker.disk.comparison import Comparison, compare
from checker.disk.missing_record_causes import Finding, Log, Read, Sent
from checker.disk.truncations import Truncation
from checker.tables import join_segments, make_tables, read_tables
from checker.tables.coding import BASE
from checker.tables.schema import OK
from harness.clients import payload
from harness.history_writer import is_run
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import plan_file
from harness.plan.test_plan import TestPlan
from harness.stored.broker_data import FOLDER

SERVER_LOG: Final = "server.log"
_Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of an inspection.

    nodes       node -> data folder
    partitions  the comparison of the replicas of each partition
    findings    partition -> records that are missing or at a wrong offset; empty if there is no history
    judged      whether there is a history, so that missing records could be looked for
    missing     keys of the history for which there is no data
    """

    place: Path
    nodes: Mapping[str, Path]
    partitions: tuple[Comparison, ...]
    findings: Mapping[_Partition, tuple[Finding, ...]]
    judged: bool
    missing: tuple[int, ...]

    @property
    def well(self) -> bool:
        """Whether all replicas are complete and identical, and no record is missing or at a wrong offset."""
        whole = all(
            comparison.same and not comparison.flaws and not comparison.behind for comparison in self.partitions
        )
        return whole and not self.missing and not any(self.findings.values())


def inspect(place: Path, topic: str = "") -> Inspection:
    """Inspects a run folder, a broker's data folder, or a folder with the data folders of several brokers.

    Raises BadInput and BadHistory.

    topic  the topic to inspect; empty: all topics (for a run: all topics of this run)
    """
    run = place if is_run(place) else None
    nodes = data_folder.nodes(place / FOLDER if run else place)
    if not nodes:
        raise BadInput(_nothing(place, run))
    plan = plan_file.load(place / "plan.yaml") if run and (place / "plan.yaml").exists() else None
    named = sorted({partition for data in nodes.values() for partition in data_folder.partitions(data)})
    wanted = [partition for partition in named if partition[0] == topic or (not topic and _is_own(partition[0], plan))]
    if not wanted:
        known_topics = ", ".join(dict.fromkeys(name for name, _ in named)) or "none"
        raise BadInput(f"{place}: no data of {topic or 'a topic'}; the existing topics are {known_topics}")
    history = _History(place, plan) if run and plan else None
    marks = history.ends() if history else {}
    comparisons = tuple(compare(nodes, *partition, high_watermark=marks.get(partition)) for partition in wanted)
    if history is None:
        return Inspection(place, nodes, comparisons, {}, False, ())
    truncated = _truncations(place, nodes)
    findings = {
        (comparison.topic, comparison.partition): tuple(history.findings(nodes, comparison, truncated))
        for comparison in comparisons
        if history.key_of((comparison.topic, comparison.partition)) is not None
    }
    missing = () if topic else tuple(key for key in history.keys if history.place(key) not in set(named))
    return Inspection(place, nodes, comparisons, findings, True, missing)


def _nothing(place: Path, run: Path | None) -> str:
    if run:
        return f"{place}: this run did not keep its brokers' data; run it again with --keep-data"
    return (
        f"{place}: no data of Kafka brokers; choose a run, a broker's data folder (see log.dirs), "
        "or a folder that contains one for each node"
    )


def _is_own(topic: str, plan: TestPlan | None) -> bool:
    return plan is None or topic.startswith(f"{plan.run}-")


def _truncations(run: Path, nodes: Mapping[str, Path]) -> Mapping[_Partition, Sequence[Truncation]]:
    found: defaultdict[_Partition, list[Truncation]] = defaultdict(list)
    for node in nodes:
        path = run / "logs" / node / SERVER_LOG
        if path.is_file():
            with path.open(errors="replace") as lines:
                for truncation in truncations.read(node, lines):
                    found[truncation.topic, truncation.partition].append(truncation)
    return found


@lru_cache(maxsize=4)  # keys of the same bucket are read in succession
def _columns(folder: Path, kind: str, bucket: int, *names: str) -> Any:
    return read_tables.bucket_columns(folder, kind, bucket, *names)


class _History:
    """The sends and polls of a run, by key. They are read from the run's tables, one bucket of keys at a time."""

    def __init__(self, run: Path, plan: TestPlan) -> None:
        self._plan, self._folder = plan, run / "tables"
        meta = make_tables.ready(run, self._folder, None)
        meta = meta or join_segments.make(run, self._folder, None, lambda text: None, None)
        self._bucket: dict[int, int] = {}
        self.keys: list[int] = []
        for bucket in range(meta["buckets"]):
            keys = read_tables.bucket_columns(self._folder, "sends", bucket, "key").column("key").to_numpy()
            for key in np.unique(keys).tolist():
                if 0 <= key < BASE:
                    self._bucket[key] = bucket
        self.keys = sorted(self._bucket)

    def place(self, key: int) -> _Partition:
        """Returns the partition of a key; docs/understand/architecture.md explains the rule."""
        topic, partition = divmod(key, self._plan.partitions_per_topic)
        return f"{self._plan.run}-{topic}", partition

    def key_of(self, place: _Partition) -> int | None:
        """Returns the key that stands for a partition; None if the history contains no such key."""
        number = place[0].removeprefix(f"{self._plan.run}-")
        if not number.isdecimal():
            return None
        key = int(number) * self._plan.partitions_per_topic + place[1]
        return key if key in self._bucket and self.place(key) == place else None

    def ends(self) -> dict[_Partition, int]:
        """Returns partition -> the highest offset that a successful poll returned, plus one.

        This is a lower bound of the high watermark.
        """
        found: dict[_Partition, int] = {}
        for key in self.keys:
            offsets = [read.offset for read in self._reads(key)]
            if offsets:
                found[self.place(key)] = max(offsets) + 1
        return found

    def findings(
        self,
        nodes: Mapping[str, Path],
        comparison: Comparison,
        truncated: Mapping[_Partition, Sequence[Truncation]],
    ) -> Iterator[Finding]:
        """Yields the records of a partition that are missing or at a wrong offset, with the causes.

        truncated  partition -> the truncations of its log that the brokers' logs report
        """
        at = comparison.topic, comparison.partition
        key = self.key_of(at)
        best = comparison.replicas.get(comparison.reference)
        if key is None or best is None:
            return
        decode = partial(payload.decode, run=self._plan.run, key=key)
        replicas = contents.replicas(nodes, *at)
        log = Log(
            contents.read(replicas[best.node], decode),
            best.log_start,
            best.end,
            comparison.high_watermark,
            best.compacted,
            {epoch.epoch: epoch.start for epoch in best.epochs},
            truncated.get(at, ()),
        )
        committed = self._plan.isolation_level == "read_committed"
        suspects = missing_record_causes.suspects(self._sends(key), self._reads(key), log, committed)
        values = {suspect.value for suspect in suspects}
        seen: defaultdict[int, list[contents.Seen]] = defaultdict(list)
        if values:
            for node, replica in replicas.items():
                for value, where in contents.look(node, replica, values, decode):
                    seen[value].append(where)
        yield from missing_record_causes.explain(key, suspects, log, seen)

    def _sends(self, key: int) -> Iterator[Sent]:
        names = ("value", "offset", "type", "op", "txn")
        for row in self._of(key, "sends", names):
            yield Sent(*row)

    def _reads(self, key: int) -> Iterator[Read]:
        for value, offset, kind, op in self._of(key, "polls", ("value", "offset", "type", "op")):
            if kind == OK and abs(value) < BASE:
                yield Read(value, offset, op)

    def _of(self, key: int, kind: str, names: Sequence[str]) -> list[Sequence[Any]]:
        """Returns the rows of one key from a table, reduced to some columns.

        kind   the table: sends or polls
        names  the columns
        """
        table = _columns(self._folder, kind, self._bucket[key], "key", *names)
        mine = table.filter(np.asarray(table.column("key").to_numpy() == key))
        columns = [mine.column(name).to_pylist() for name in names]
        return list(zip(*columns, strict=True))
