"""Surveys one replica of a partition from end to end: its offsets, its contents, and its flaws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from checker.disk import agreement, checkpoints, data_folder, replica_batches
from checker.disk.agreement import Places
from checker.disk.checkpoints import Epoch
from checker.disk.data_folder import Replica
from checker.disk.transactions import Transactions
from harness.protocol import compression, records
from harness.protocol.flaws import Flaw, Unreadable
from harness.protocol.record_batch import Batch

FLAWS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Survey:
    """A survey of a replica.

    log_start       the log start offset
    end             the offset after the last sound batch
    high_watermark  from the node's checkpoint; None if the checkpoint does not have the partition
    recovery_point  from the node's checkpoint; None if the checkpoint does not have the partition
    epochs          leader epochs and their first offsets, according to the batches
    told_epochs     leader epochs and their first offsets, according to leader-epoch-checkpoint
    compacted       whether the node's log cleaner has cleaned the log, so that offsets may be missing
    segments        number of segments of the active log
    aside           number of segments on disk that no longer belong to the active log (checker.disk.data_folder)
    batches         number of sound batches, which have a valid checksum
    records         number of records in sound batches
    bytes           number of bytes in sound batches
    unsound         number of batches with a bad checksum
    control         number of transaction markers among the batches
    codecs          compression -> number of batches
    aborted         number of aborted transactions
    open            number of transactions that were neither committed nor aborted
    flaws           the first FLAWS_MAX flaws
    more            number of flaws that `flaws` leaves out
    """

    node: str
    topic: str
    partition: int
    folder: Path
    log_start: int
    end: int
    high_watermark: int | None
    recovery_point: int | None
    epochs: tuple[Epoch, ...]
    told_epochs: tuple[Epoch, ...]
    compacted: bool
    segments: int
    aside: int
    batches: int
    records: int
    bytes: int
    unsound: int
    control: int
    codecs: Mapping[str, int]
    aborted: int
    open: int
    flaws: tuple[Flaw, ...]
    more: int


@dataclass(slots=True)
class _Flaws:
    found: list[Flaw] = field(default_factory=list)
    more: int = 0

    def add(self, *flaws: Flaw) -> None:
        room = max(0, FLAWS_MAX - len(self.found))
        self.found.extend(flaws[:room])
        self.more += max(0, len(flaws) - room)


def survey(node: str, data: Path, topic: str, partition: int, deep: bool = True) -> Survey | None:
    """Surveys the replica of a partition in a data folder. Returns None if the folder has no files of the partition.

    deep  whether to decode the records, and not only the headers of batches
    """
    found = data_folder.replica(data, topic, partition)
    if found is None:
        return None
    return _Surveyor(node, data, found, deep).read()


class _Surveyor:
    """Counts and checks the batches of a replica one after another."""

    def __init__(self, node: str, data: Path, replica: Replica, deep: bool) -> None:
        self._node, self._replica, self._deep = node, replica, deep
        self._flaws = _Flaws()
        at = (replica.topic, replica.partition)
        by_checkpoint: dict[str, int | None] = {}
        for name in checkpoints.OF_OFFSETS:
            offsets, flaws = data_folder.checkpoint(data, name)
            self._flaws.add(*flaws)
            by_checkpoint[name] = offsets.get(at)
        self._high_watermark = by_checkpoint[checkpoints.HIGH_WATERMARKS]
        self._recovery_point = by_checkpoint[checkpoints.RECOVERY_POINTS]
        self._compacted = by_checkpoint[checkpoints.CLEANED] is not None
        self._clean = (data / checkpoints.CLEAN).exists()
        first = replica.segments[0].base if replica.segments else 0
        self._start = max(first, by_checkpoint[checkpoints.LOG_STARTS] or 0)
        self._checkpoint_epochs, flaws = agreement.checkpoint_epochs(replica)
        self._flaws.add(*flaws)
        self._end = first
        self._epochs: list[Epoch] = []
        self._wrong_epoch = False
        self._counts: Counter[str] = Counter()
        self._codecs: Counter[str] = Counter()
        self._transactions = Transactions()
        self._producers = agreement.Snapshots(replica)

    def read(self) -> Survey:
        replica, flaws = self._replica, self._flaws
        if not replica.folder.is_dir():
            flaws.add(Flaw(replica.folder.name, None, "the replica is gone; only files that were set aside remain"))
        elif not replica.segments:
            flaws.add(Flaw(replica.folder.name, None, "it has no segment"))
        following = [*(segment.base for segment in replica.segments[1:]), None]
        for segment, after in zip(replica.segments, following, strict=False):
            self._segment(segment, after)
        flaws.add(*self._producers.flaws(self._end, self._compacted))
        flaws.add(*agreement.partition_flaws(replica))
        for what, offset in (
            ("high watermark", self._high_watermark),
            ("recovery point", self._recovery_point),
        ):
            if offset is not None and offset > self._end:
                name = checkpoints.HIGH_WATERMARKS if what[0] == "h" else checkpoints.RECOVERY_POINTS
                named = f"{replica.topic}-{replica.partition}"
                flaws.add(Flaw(name, None, f"the {what} of {named} is {offset}, but its log ends at {self._end}"))
        count = self._counts
        return Survey(
            self._node,
            replica.topic,
            replica.partition,
            replica.folder,
            self._start,
            self._end,
            self._high_watermark,
            self._recovery_point,
            tuple(self._epochs),
            self._checkpoint_epochs,
            self._compacted,
            len(replica.segments),
            len(replica.aside),
            count["batches"],
            count["records"],
            count["bytes"],
            count["unsound"],
            count["control"],
            dict(self._codecs),
            count["aborted"],
            len(self._transactions.open),
            tuple(flaws.found),
            flaws.more,
        )

    def _segment(self, segment: data_folder.Segment, after: int | None) -> None:
        name = self._replica.named(segment.log)
        places, aborted, broken, least = Places(), list[tuple[int, int, int]](), False, segment.base
        for found in replica_batches.of_segment(self._replica, segment):
            if isinstance(found, Flaw):
                self._flaws.add(found)
                broken = True
                continue
            places.add(found)
            if not found.sound:
                broken = True
                self._counts["unsound"] += 1
                what = f"the batch of offsets {found.base} to {found.last} has a bad checksum"
                self._flaws.add(Flaw(name, found.at, what))
                continue
            if found.base < least or (after is not None and found.last >= after):
                bounds = f"{least} to {'the end' if after is None else after - 1}"
                what = f"a batch of offsets {found.base} to {found.last}, where only {bounds} may be"
                self._flaws.add(Flaw(name, found.at, what))
                broken = True
                continue
            if found.base > self._end and self._counts["batches"] and not self._compacted and not broken:
                what = f"offsets {self._end} to {found.base - 1} are missing"
                self._flaws.add(Flaw(name, found.at, what))
            least = self._end = found.last + 1
            aborted += self._batch(found, name)
        if not broken:
            written = after is None and not self._clean
            self._flaws.add(*agreement.index_flaws(self._replica, segment, places, written))
            self._flaws.add(*agreement.aborted_flaws(self._replica, segment, aborted))

    def _batch(self, batch: Batch, name: str) -> list[tuple[int, int, int]]:
        """Adds an undamaged batch to the counts.

        If the batch is the marker of an aborted transaction, returns [(producer id, first offset of the transaction,
        offset of the marker)]; otherwise an empty list.
        """
        count = self._counts
        count["batches"] += 1
        count["bytes"] += batch.size
        self._codecs[compression.NAMES[batch.codec] if batch.codec < len(compression.NAMES) else "unknown"] += 1
        self._producers.see(batch)
        self._epoch(batch, name)
        count["control"] += batch.control
        if not batch.control:
            count["records"] += self._decoded(batch, name)
        try:
            ended = self._transactions.see(batch)
        except Unreadable as error:
            self._flaws.add(Flaw(name, batch.at, f"the marker at offset {batch.base}: {error}"))
            return []
        if ended is None or ended.committed:
            return []
        count["aborted"] += 1
        return [(ended.producer_id, ended.first, ended.marker)]

    def _decoded(self, batch: Batch, name: str) -> int:
        """Returns the number of records in the batch. Decodes the records if `deep`, or if the header has no count."""
        if not self._deep and batch.magic >= 2:
            return batch.count
        try:
            return sum(1 for _ in records.records(batch))
        except Unreadable as error:
            what = f"the records of the batch of offsets {batch.base} to {batch.last}: {error}"
            self._flaws.add(Flaw(name, batch.at, what))
            return 0

    def _epoch(self, batch: Batch, name: str) -> None:
        if batch.magic < 2:
            return
        epochs = self._epochs
        if not epochs or batch.epoch > epochs[-1].epoch:
            epochs.append(Epoch(batch.epoch, batch.base))
        elif batch.epoch < epochs[-1].epoch:
            what = f"leader epoch {batch.epoch} at offset {batch.base}, after epoch {epochs[-1].epoch}"
            self._flaws.add(Flaw(name, batch.at, what))
        if batch.base < self._start or self._wrong_epoch or not self._checkpoint_epochs:
            return
        epoch = agreement.epoch_at(self._checkpoint_epochs, batch.base)
        # If the checkpoint starts later, log start has moved there: the checkpoint of log start is written rarely.
        if epoch is not None and epoch != batch.epoch:
            self._wrong_epoch = True  # report it once: the following batches have the same problem
            what = f"leader epoch {batch.epoch} at offset {batch.base}, but {checkpoints.EPOCHS} has {epoch}"
            self._flaws.add(Flaw(name, batch.at, what))
