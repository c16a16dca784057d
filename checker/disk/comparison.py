"""Compares the replicas of a partition: are they equal byte by byte up to the high watermark, and where do they differ?

Every replica is compared with one of them, the *reference*: the replica whose last leader epoch is the highest or, if
several have that epoch, the one with the longest log. An election would prefer this replica (KIP-101).

Below the high watermark, all in-sync replicas must have the same batches, byte by byte. Above it, replicas may differ
until the next truncation. The log cleaner of each broker works independently of the others, so if a partition is
compacted, only the records that both replicas have are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checker.disk import data_folder, replica_batches
from checker.disk.replica_survey import Survey, survey
from harness.protocol import records
from harness.protocol.flaws import Flaw, Unreadable
from harness.protocol.record_batch import Batch


@dataclass(frozen=True, slots=True)
class Difference:
    """The first offset at which a replica differs from the reference.

    node       the node of the replica
    reference  the node of the reference, which is the replica that the others are compared with
    offset     the first offset at which they differ
    has        description of what the replica contains at this offset
    should     description of what the reference contains at this offset
    committed  whether the offset is below the high watermark; None if the high watermark is unknown
    """

    node: str
    reference: str
    offset: int
    has: str
    should: str
    committed: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing a partition's replicas.

    replicas        node -> survey of its replica
    absent          nodes without the partition
    reference       the node whose replica the others were compared with; "" if no node has the partition
    high_watermark  the highest of the caller's value and the values in the nodes' checkpoints; None: unknown
    compared        the range of offsets that was compared: (first offset, offset after the last one)
    differences     for each replica that differs from the reference: the first difference
    behind          node -> log end offset, for the nodes whose log ends below the high watermark
    """

    topic: str
    partition: int
    replicas: Mapping[str, Survey]
    absent: tuple[str, ...]
    reference: str
    high_watermark: int | None
    compared: tuple[int, int]
    differences: tuple[Difference, ...]
    behind: Mapping[str, int]

    @property
    def same(self) -> bool:
        """Whether no replica differs from the reference below the high watermark.

        A replica that ends below the high watermark is compared up to its end. If the high watermark is unknown,
        replicas are compared as far as they overlap.
        """
        return not any(difference.committed is not False for difference in self.differences)

    @property
    def flaws(self) -> tuple[tuple[str, Flaw], ...]:
        """The flaws in the files of all replicas, as (node, flaw)."""
        return tuple((node, flaw) for node, replica in self.replicas.items() for flaw in replica.flaws)


def compare(
    nodes: Mapping[str, Path],
    topic: str,
    partition: int,
    high_watermark: int | None = None,
    deep: bool = True,
) -> Comparison:
    """Compares the nodes' replicas of a partition. A damaged file raises no exception; it is reported as a flaw.

    nodes           node -> data folder (log.dirs). The folder is only read; ideally no server writes to it meanwhile
    high_watermark  the high watermark, if the caller knows it; the nodes' checkpoints may have an outdated one
    deep            whether to decode the records of every batch as well, besides checking its header and checksum
    """
    by_node = {node: survey(node, data, topic, partition, deep) for node, data in nodes.items()}
    surveys = {node: replica for node, replica in by_node.items() if replica is not None}
    absent = tuple(node for node, replica in by_node.items() if replica is None)
    if not surveys:
        return Comparison(topic, partition, {}, absent, "", high_watermark, (0, 0), (), {})
    marks = [high_watermark, *(replica.high_watermark for replica in surveys.values())]
    mark = max((offset for offset in marks if offset is not None), default=None)
    best = max(surveys.values(), key=lambda replica: (_last_epoch(replica), replica.end, -replica.unsound))
    differences, spans = [], []
    for node, replica in surveys.items():
        if node == best.node:
            continue
        begin, end = max(replica.log_start, best.log_start), min(replica.end, best.end)
        if begin < end:
            spans.append((begin, end))
        compacted = replica.compacted or best.compacted
        difference = _first_difference(nodes, replica, best, begin, end, compacted, mark)
        if difference is not None:
            differences.append(difference)
    behind = {} if mark is None else {node: replica.end for node, replica in surveys.items() if replica.end < mark}
    span = (min(b for b, _ in spans), max(e for _, e in spans)) if spans else (best.end, best.end)
    return Comparison(topic, partition, surveys, absent, best.node, mark, span, tuple(differences), behind)


def _last_epoch(replica: Survey) -> int:
    return replica.epochs[-1].epoch if replica.epochs else -1


def _first_difference(
    nodes: Mapping[str, Path],
    replica: Survey,
    best: Survey,
    begin: int,
    end: int,
    compacted: bool,
    mark: int | None,
) -> Difference | None:
    own_folder, best_folder = (
        data_folder.replica(nodes[each.node], each.topic, each.partition) for each in (replica, best)
    )
    if own_folder is None or best_folder is None or begin >= end:
        return None
    rows = _records if compacted else _batches
    left = rows(replica_batches.between(own_folder, begin, end))
    right = rows(replica_batches.between(best_folder, begin, end))
    found = _merged(left, right, begin, end, both=compacted)
    if found is None:
        return None
    offset, has, should = found
    committed = None if mark is None else offset < mark
    return Difference(replica.node, best.node, offset, has, should, committed)


# (first offset, last offset, content to compare, description)
_Row = tuple[int, int, Any, str]


def _batches(batches: Iterator[Batch]) -> Iterator[_Row]:
    for batch in batches:
        yield batch.base, batch.last, batch.content, _described(batch)


def _records(batches: Iterator[Batch]) -> Iterator[_Row]:
    for batch in batches:
        if not batch.sound:
            yield batch.base, batch.last, batch.content, _described(batch)
            continue
        try:
            for record in records.records(batch):
                yield record.offset, record.offset, (record.key, record.value), "another record"
        except Unreadable:
            yield batch.base, batch.last, batch.content, _described(batch)


def _described(batch: Batch) -> str:
    span = str(batch.base) if batch.base == batch.last else f"{batch.base} to {batch.last}"
    sort = "marker" if batch.control else "batch"
    whose = "" if batch.producer_id < 0 else f", producer {batch.producer_id}"
    sound = "" if batch.sound else ", bad checksum"
    return f"{sort} of {span}, epoch {batch.epoch}{whose}, {batch.size} bytes{sound}"


def _merged(
    left: Iterator[_Row], right: Iterator[_Row], begin: int, end: int, both: bool
) -> tuple[int, str, str] | None:
    """Returns (offset, description of left, description of right) at the first difference; None if there is none.

    left, right  the rows of two replicas
    begin, end   the range of offsets that is compared
    both         whether to ignore offsets that only one side has
    """
    left_row, right_row = next(left, None), next(right, None)
    while left_row is not None or right_row is not None:
        if left_row is not None and right_row is not None and left_row[:3] == right_row[:3]:
            left_row, right_row = next(left, None), next(right, None)
            continue
        if left_row is not None and right_row is not None and left_row[0] == right_row[0]:
            has, should = left_row[3], right_row[3]
            if has == should:
                has, should = f"{has}, different bytes", f"{should}, different bytes"
            return max(left_row[0], begin), has, should
        if right_row is None or (left_row is not None and left_row[0] < right_row[0]):
            assert left_row is not None
            if not both:
                return max(left_row[0], begin), left_row[3], "nothing"
            left_row = next(left, None)
        else:
            if not both:
                return max(right_row[0], begin), "nothing", right_row[3]
            right_row = next(right, None)
    return None
