"""Reads the log of a replica as columns: offset, value, leader epoch, and the outcome of the transaction."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from checker.disk import data_folder, replica_batches
from checker.disk.data_folder import Replica
from checker.disk.transactions import Transactions
from harness.protocol import records
from harness.protocol.flaws import Unreadable
from harness.protocol.record_batch import Batch

# Decodes a record's value; returns a text that says what is wrong if no client wrote these bytes.
Decode = Callable[[bytes | None], int | str]

COMMITTED: Final = 0  # or not in a transaction
ABORTED: Final = 1
OPEN: Final = 2


def _column() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Contents:
    """The records of a log, as columns of equal length in log order, without transaction markers.

    offsets   the offset of each record
    values    the value of each record, as decoded by the caller's `Decode`
    epochs    the leader epoch of each record
    outcomes  for each record: whether its transaction is COMMITTED, ABORTED or OPEN; COMMITTED if it is not in one
    bad       offset -> what is wrong with the record's value; the columns do not include these records
    broken    (first offset, last offset) of each batch that cannot be read
    """

    offsets: array[int] = field(default_factory=_column)
    values: array[int] = field(default_factory=_column)
    epochs: array[int] = field(default_factory=_column)
    outcomes: bytearray = field(default_factory=bytearray)
    bad: dict[int, str] = field(default_factory=dict)
    broken: list[tuple[int, int]] = field(default_factory=list)

    def at(self, offset: int) -> tuple[int, int] | None:
        """Returns (value, leader epoch) of the record at an offset; None if there is no record."""
        place = bisect_right(self.offsets, offset) - 1
        if place < 0 or self.offsets[place] != offset:
            return None
        return self.values[place], self.epochs[place]

    def is_broken(self, offset: int) -> bool:
        return any(first <= offset <= last for first, last in self.broken)


def read(replica: Replica, decode: Decode) -> Contents:
    """Returns the records of the active log. Batches that cannot be read are noted and skipped.

    `decode` returns the value in a payload, or a text that says what is wrong with it.
    """
    contents, transactions = Contents(), Transactions()
    pending: dict[int, list[int]] = {}  # producer -> rows of its open transaction
    for segment in replica.segments:
        for batch in replica_batches.of_segment(replica, segment):
            if not isinstance(batch, Batch):
                continue
            if not batch.sound:
                contents.broken.append((batch.base, batch.last))
                continue
            try:
                ended = transactions.see(batch)
                if batch.control:
                    if ended is not None:
                        outcome = COMMITTED if ended.committed else ABORTED
                        for row in pending.pop(ended.producer_id, ()):
                            contents.outcomes[row] = outcome
                    continue
                rows = _add(contents, batch, decode)
            except Unreadable:
                contents.broken.append((batch.base, batch.last))
                continue
            if batch.transactional:
                pending.setdefault(batch.producer_id, []).extend(rows)
                for row in rows:
                    contents.outcomes[row] = OPEN
    return contents


def _add(found: Contents, batch: Batch, decode: Decode) -> range:
    begin = len(found.offsets)
    for record in list(records.records(batch)):  # decode all records of the batch before adding any
        value = decode(record.value)
        if isinstance(value, str):
            found.bad[record.offset] = value
            continue
        found.offsets.append(record.offset)
        found.values.append(value)
        found.epochs.append(batch.epoch)
        found.outcomes.append(COMMITTED)
    return range(begin, len(found.offsets))


@dataclass(frozen=True, slots=True)
class Seen:
    """A place where a record was found.

    file    path of the file, relative to the node's data folder
    offset  offset of the record
    epoch   leader epoch of the record
    aside   whether the file no longer belongs to the active log (see `checker.disk.data_folder`)
    """

    node: str
    file: str
    offset: int
    epoch: int
    aside: bool


def look(node: str, replica: Replica, values: Collection[int], decode: Decode) -> Iterator[tuple[int, Seen]]:
    """Searches all files of a replica for records with one of `values`. Yields (value, where it was found).

    Files that no longer belong to the active log are searched, too. `decode` returns the value in a payload.
    """
    for segment, batch in replica_batches.sound(replica, (*replica.segments, *replica.aside)):
        if batch.control:
            continue
        try:
            for record in records.records(batch):
                value = decode(record.value)
                if not isinstance(value, str) and value in values:
                    file = str(segment.log.relative_to(replica.folder.parent))
                    yield value, Seen(node, file, record.offset, batch.epoch, segment.aside)
        except Unreadable:
            continue


def replicas(nodes: Mapping[str, Path], topic: str, partition: int) -> dict[str, Replica]:
    """Returns node -> replica of the partition, for the nodes that have a replica."""
    found = {node: data_folder.replica(data, topic, partition) for node, data in nodes.items()}
    return {node: replica for node, replica in found.items() if replica is not None}
