"""The replicas of a partition beside each other: the same bytes up to the high watermark, or where not.

Every replica is compared with the one that an election would prefer: the highest last leader epoch, then the
longest log (KIP-101). Below the high watermark all that are in sync must hold the same batches, byte by byte;
what lies above it may differ until the next truncation. Cleaners work on each replica by itself: of a
compacted partition, records that both hold are compared instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checker.disk import data_folder, replica_batches
from checker.disk.survey import Survey, survey
from harness.protocol import records
from harness.protocol.flaws import Flaw, Unreadable
from harness.protocol.record_batch import Batch


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a replica is not what the reference is.

    offset   where
    has, should  what the replica and the reference hold there, in words
    committed  whether that is below the high watermark; None when nobody says where that is
    """

    node: str
    reference: str
    offset: int
    has: str
    should: str
    committed: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A partition's replicas.

    replicas    by node, each as it was found
    absent      nodes that hold nothing of the partition
    reference   the node that the others were compared with; "" where nobody holds anything
    high_watermark  the highest that a checkpoint knows, or that the caller gave; None: nobody says
    compared    (from, to) offsets that at least two replicas hold and that were compared
    differences one for each node that differs
    behind      nodes whose log ends below the high watermark, and where it ends
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
        """Whether all that are there hold the same bytes up to the high watermark, as far as each reaches.

        Without a high watermark: as far as they overlap.
        """
        return not any(one.committed is not False for one in self.differences)

    @property
    def flaws(self) -> tuple[tuple[str, Flaw], ...]:
        """(node, what is wrong with one of its files), of all replicas."""
        return tuple((node, flaw) for node, one in self.replicas.items() for flaw in one.flaws)


def compare(
    nodes: Mapping[str, Path],
    topic: str,
    partition: int,
    high_watermark: int | None = None,
    deep: bool = True,
) -> Comparison:
    """Compare what nodes hold of a partition. Nothing that a file holds makes it raise.

    nodes           data folders (what log.dirs names) by node; read only, best when no server writes there
    high_watermark  at least this, where the caller knows better than checkpoints of some seconds ago
    deep            decode the records of every batch too, rather than heads and checksums only
    """
    found = {node: survey(node, data, topic, partition, deep) for node, data in nodes.items()}
    surveys = {node: one for node, one in found.items() if one is not None}
    absent = tuple(node for node, one in found.items() if one is None)
    if not surveys:
        return Comparison(topic, partition, {}, absent, "", high_watermark, (0, 0), (), {})
    known = [high_watermark, *(one.high_watermark for one in surveys.values())]
    mark = max((offset for offset in known if offset is not None), default=None)
    best = max(surveys.values(), key=lambda one: (_last_epoch(one), one.end, -one.unsound))
    differences, spans = [], []
    for node, one in surveys.items():
        if node == best.node:
            continue
        begin, end = max(one.log_start, best.log_start), min(one.end, best.end)
        if begin < end:
            spans.append((begin, end))
        compacted = one.compacted or best.compacted
        difference = _first_difference(nodes, one, best, begin, end, compacted, mark)
        if difference is not None:
            differences.append(difference)
    behind = {} if mark is None else {node: one.end for node, one in surveys.items() if one.end < mark}
    span = (min(b for b, _ in spans), max(e for _, e in spans)) if spans else (best.end, best.end)
    return Comparison(topic, partition, surveys, absent, best.node, mark, span, tuple(differences), behind)


def _last_epoch(one: Survey) -> int:
    return one.epochs[-1].epoch if one.epochs else -1


def _first_difference(
    nodes: Mapping[str, Path],
    one: Survey,
    best: Survey,
    begin: int,
    end: int,
    compacted: bool,
    mark: int | None,
) -> Difference | None:
    mine, other = (data_folder.replica(nodes[each.node], each.topic, each.partition) for each in (one, best))
    if mine is None or other is None or begin >= end:
        return None
    rows = _records if compacted else _batches
    left, right = rows(replica_batches.between(mine, begin, end)), rows(replica_batches.between(other, begin, end))
    found = _merged(left, right, begin, end, both=compacted)
    if found is None:
        return None
    offset, has, should = found
    committed = None if mark is None else offset < mark
    return Difference(one.node, best.node, offset, has, should, committed)


# Offset, last offset, what is compared, and it in words.
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
    sound = "" if batch.sound else ", its checksum does not hold"
    return f"{sort} of {span}, epoch {batch.epoch}{whose}, {batch.size} bytes{sound}"


def _merged(
    left: Iterator[_Row], right: Iterator[_Row], begin: int, end: int, both: bool
) -> tuple[int, str, str] | None:
    """(offset, left's, right's) of the first difference; both: what one lacks is none."""
    one, other = next(left, None), next(right, None)
    while one is not None or other is not None:
        if one is not None and other is not None and one[:3] == other[:3]:
            one, other = next(left, None), next(right, None)
            continue
        if one is not None and other is not None and one[0] == other[0]:
            has, should = one[3], other[3]
            if has == should:
                has, should = f"{has}, other bytes", f"{should}, other bytes"
            return max(one[0], begin), has, should
        if other is None or (one is not None and one[0] < other[0]):
            assert one is not None
            if not both:
                return max(one[0], begin), one[3], "nothing"
            one = next(left, None)
        else:
            if not both:
                return max(other[0], begin), "nothing", other[3]
            other = next(right, None)
    return None
