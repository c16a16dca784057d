"""Checks that the files next to a log agree with the log: indexes, producer snapshots, leader epochs."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from checker.disk import checkpoints, data_folder, indexes, snapshots
from checker.disk.checkpoints import Epoch
from checker.disk.data_folder import Replica, Segment
from harness.protocol.flaws import Flaw
from harness.protocol.record_batch import Batch

SNAPSHOT: Final = ".snapshot"
Flags = npt.NDArray[np.bool_]
# Upper bounds of a plausible entry: records that compress to almost nothing, and the year 2286.
_OFFSETS_A_BYTE: Final = 150
_MS_MAX: Final = 10**13


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Places:
    """The batches of one segment, as columns of equal length.

    at      position of each batch in the file
    base    first offset of each batch
    last    last offset of each batch
    latest  highest timestamp of each batch
    """

    at: array[int] = field(default_factory=_column)
    base: array[int] = field(default_factory=_column)
    last: array[int] = field(default_factory=_column)
    latest: array[int] = field(default_factory=_column)

    def add(self, batch: Batch) -> None:
        self.at.append(batch.at)
        self.base.append(batch.base)
        self.last.append(batch.last)
        self.latest.append(batch.max_timestamp)


# --- indexes --------------------------------------------------------------------------------------------


def index_flaws(replica: Replica, segment: Segment, places: Places, written: bool) -> list[Flaw]:
    """Returns what is wrong with the offset index and the time index of a segment whose batches are all sound.

    places   the batches of the segment
    written  whether the segment may still be written to; its indexes may then end with outdated entries, which were
             written before a truncation of the log, and which are no flaw
    """
    found: list[Flaw] = []
    at, base, last, latest = (
        np.frombuffer(column, np.int64) if column else np.zeros(0, np.int64)
        for column in (places.at, places.base, places.last, places.latest)
    )
    content, name = _content(replica, segment, ".index", found)
    if content is not None:
        index = indexes.offset_index(content, segment.base, name)
        place = np.searchsorted(at, index.others)
        good = place < len(at)
        row = place[good]
        good[good] = (at[row] == index.others[good]) & (base[row] <= index.offsets[good])
        stale = (index.offsets - segment.base <= _OFFSETS_A_BYTE * (index.others + 1)) & (index.others >= 0)
        what = "position", "no batch with this offset starts there"
        found += [*index.flaws, *_first_wrong(name, good, index, 8, what, stale, segment, written)]
    content, name = _content(replica, segment, ".timeindex", found)
    if content is not None:
        index = indexes.time_index(content, segment.base, name)
        until = np.maximum.accumulate(latest) if len(latest) else latest
        place = np.searchsorted(last, index.offsets)
        good = place < len(at)
        row = place[good]
        before = np.where(row > 0, until[row - 1], -1) if len(at) else row
        good[good] = (index.others[good] <= until[row]) & (index.others[good] >= before)
        stale = (index.others >= 0) & (index.others < _MS_MAX)
        what = "timestamp", "it does not match the records"
        found += [*index.flaws, *_first_wrong(name, good, index, 12, what, stale, segment, written)]
    return found


def _first_wrong(
    name: str,
    good: Flags,
    index: indexes.Index,
    size: int,
    what: tuple[str, str],
    stale: Flags,
    segment: Segment,
    written: bool,
) -> list[Flaw]:
    """Returns the first wrong entry of an index, as a list of one flaw. Returns an empty list if all entries are right.

    good     for each entry: whether it agrees with the batches of the segment
    size     bytes per entry
    what     two texts for the message: what an entry contains besides the offset, and what is wrong with it
    stale    for each entry: whether the broker may have written it before it truncated the log
    written  whether such entries are allowed at the end of the index
    """
    good[index.rising :] = False
    wrong = np.flatnonzero(~good)
    if len(wrong) == 0:
        return []
    first = int(wrong[0])
    if written and bool((stale[first:] & (index.offsets[first:] >= segment.base)).all()):
        return []
    entry = f"{what[0]} {index.others[first]} for offset {index.offsets[first]}"
    others = f" (entry {first} of {len(good)})" if len(good) > 1 else ""
    return [Flaw(name, first * size, f"{entry}: {what[1]}{others}")]


def _content(replica: Replica, segment: Segment, kind: str, found: list[Flaw]) -> tuple[bytes | None, str]:
    path = segment.sibling(kind)
    name = replica.named(path)
    content = data_folder.small(path)
    if content is None:
        found.append(Flaw(name, None, "it is missing or far too large"))
    return content, name


def aborted_flaws(replica: Replica, segment: Segment, aborted: Sequence[tuple[int, int, int]]) -> list[Flaw]:
    """Returns what is wrong with the transaction index of a segment.

    aborted  (producer id, first offset, offset of the marker) of each transaction whose abort marker is in the segment
    """
    path = segment.sibling(".txnindex")
    name = replica.named(path)
    content = data_folder.small(path)
    entries, flaws = indexes.transaction_index(content or b"", name)
    listed = {(entry.producer_id, entry.first, entry.last) for entry in entries}
    missing = [transaction for transaction in aborted if transaction not in listed]
    if flaws or not missing:
        return list(flaws)
    producer, first, last = missing[0]
    others = f" ({len(missing)} such transactions)" if len(missing) > 1 else ""
    what = f"the transaction of producer {producer} from offset {first}, aborted at {last}, is missing{others}"
    return [Flaw(name, None, what)]


# --- producers ------------------------------------------------------------------------------------------


class Snapshots:
    """The producer snapshots of a replica, compared with the batches that they refer to."""

    def __init__(self, replica: Replica) -> None:
        self._found: list[tuple[int, str, snapshots.Producer]] = []
        self._flaws: list[Flaw] = []
        self._files: list[tuple[int, str]] = []
        for offset, path in replica.others(SNAPSHOT) if replica.folder.is_dir() else ():
            name = replica.named(path)
            producers, flaws = snapshots.snapshot(data_folder.small(path) or b"", name)
            self._files.append((offset, name))
            self._flaws += flaws
            self._found += [(offset, name, producer) for producer in producers]
        self._wanted = {producer.last_offset for _, _, producer in self._found}
        self._batches: dict[int, tuple[int, int]] = {}  # last offset -> producer, last sequence number

    def see(self, batch: Batch) -> None:
        if batch.last in self._wanted and not batch.control:
            self._batches[batch.last] = (batch.producer_id, batch.last_sequence)

    def flaws(self, end: int, compacted: bool) -> list[Flaw]:
        """Returns what is wrong with the snapshots.

        end        the log end offset
        compacted  whether the log cleaner has cleaned the log; sequence numbers are then not compared
        """
        found = list(self._flaws)
        for offset, name in self._files:
            if offset > end:
                found.append(Flaw(name, None, f"the snapshot is for offset {offset}, but the log ends at {end}"))
        for _, name, producer in self._found:
            seen = self._batches.get(producer.last_offset)
            if seen is not None and not compacted and seen != (producer.id, producer.last_sequence):
                what = (
                    f"the snapshot has sequence number {producer.last_sequence} of producer {producer.id} at offset "
                    f"{producer.last_offset}"
                )
                found.append(
                    Flaw(name, None, f"{what}; the log has sequence number {seen[1]} of producer {seen[0]} there")
                )
        return found


# --- leader epochs --------------------------------------------------------------------------------------


def checkpoint_epochs(replica: Replica) -> tuple[tuple[Epoch, ...], tuple[Flaw, ...]]:
    """Returns (the leader epochs in the replica's leader-epoch-checkpoint, the flaws of this file).

    Both are empty if the file does not exist.
    """
    path = replica.folder / checkpoints.EPOCHS
    content = data_folder.small(path)
    return ((), ()) if content is None else checkpoints.epochs(content, replica.named(path))


def epoch_at(epochs: Sequence[Epoch], offset: int) -> int | None:
    """Returns the leader epoch in which an offset was written; None if it precedes all of `epochs`."""
    place = bisect_right(epochs, offset, key=lambda epoch: epoch.start)
    return epochs[place - 1].epoch if place else None


def partition_flaws(replica: Replica) -> list[Flaw]:
    """Returns what is wrong with the replica's file partition.metadata."""
    path = replica.folder / checkpoints.PARTITION
    content = data_folder.small(path)
    return [] if content is None else list(checkpoints.properties(content, replica.named(path))[1])
