"""Appends to the log model: batches, transaction markers, rolling of segments.

The rules, each with its source. To roll a segment means to start a new one.

- A batch that does not fit into the segment first rolls the segment. This happens even if the leader then finds that
  the batch is a retry, or rejects it for its sequence numbers (observed on brokers 4.1.1). Followers never receive
  such a batch, so their segments are not rolled.
- An append gets the next offsets, from the log end offset on; nothing else increases the log end offset.
- A batch larger than `segment.bytes` is rejected (Kafka's topic settings).
- In a compacted topic every record needs a key (KIP-135, topic setting cleanup.policy).
- A transaction's first batch in a partition opens the transaction there; commit and abort write a marker to each
  partition that the transaction wrote to (KIP-98). A marker takes an offset, and can roll a segment like a batch.
- A forced roll has no effect if the active segment is empty (Bradstreet and Wong).
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.sim.log_model.partition import Ended, Partition
from harness.sim.log_model.producers import Written
from harness.sim.log_model.records import MARKER_BYTES, Batch, Record, batch_size, latest_timestamp
from harness.sim.log_model.segments import Segment, must_roll

Triple = tuple[int, str | None, str | None]


def roll(log: Partition) -> bool:
    """Flushes the active segment to disk and starts a new one.

    Does nothing, and returns False, if the active segment is empty.
    """
    if not log.active.batches and log.active.base == log.end:
        return False
    log.segments.append(Segment(log.end, log.now, log.now))
    log.flushed = max(log.flushed, log.end)
    return True


def _put(log: Partition, batch: Batch) -> None:
    if must_roll(log.active, batch.size, batch.max_timestamp, log.settings, log.now):
        roll(log)
    log.active.add(batch, log.now)
    log.end = batch.last + 1


def append(
    log: Partition,
    triples: Sequence[Triple],
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    size: int = 0,
) -> tuple[int, int] | str:
    """Appends a batch of records, each of which is (timestamp, key, value).

    Returns (offset of the first record, offset after the last one), or the name of the error.

    size  size of the batch on disk in bytes, if known; 0: use the size without compression
    """
    base = log.end
    records = tuple(Record(base + at, *triple) for at, triple in enumerate(triples))
    size, stamp = size or batch_size(records), latest_timestamp(records)
    if size > log.settings.segment_bytes:
        return "RECORD_LIST_TOO_LARGE"
    if log.settings.compacts and any(record.key is None for record in records):
        return "INVALID_RECORD"
    if must_roll(log.active, size, stamp, log.settings, log.now):
        roll(log)
    if producer >= 0:
        found = log.sequences.judge(producer, epoch, sequence, len(records))
        if isinstance(found, str):
            return found
        if found is not None and "retry-appended" not in log.bugs:
            return found.base, found.end
    end = base + len(records)
    if producer >= 0:
        log.sequences.add(producer, Written(epoch, sequence, sequence + len(records) - 1, base, end))
    if transactional:
        log.open.setdefault(producer, base)
    _put(log, Batch(base, end - 1, records, size, stamp, producer, epoch, sequence, transactional))
    return base, end


def end_transaction(log: Partition, producer: int, epoch: int, commit: bool) -> int:
    """Appends the commit or abort marker of the producer's transaction, and returns the marker's offset.

    The marker is appended even if a truncation has removed all records of the transaction.
    """
    offset, kind = log.end, "commit" if commit else "abort"
    log.ended.append(Ended(producer, log.open.pop(producer, offset), offset, commit))
    _put(log, Batch(offset, offset, (), MARKER_BYTES, log.now, producer, epoch, -1, True, kind))
    return offset


def truncate(log: Partition, end: int) -> None:
    """Truncates the log to `end`, which must be the base offset of a batch.

    If this removes the marker of a transaction but not all of its records, the marker is appended again, because the
    coordinator repeats a marker until it is replicated (KIP-98).
    """
    if end >= log.end:
        return
    while len(log.segments) > 1 and log.active.base > end:
        log.segments.pop()
    log.active.truncate(end)
    log.end = end
    log.flushed = min(log.flushed, end)
    log.cleaned = min(log.cleaned, end)
    log.high_watermark = min(log.high_watermark, end)
    log.replicated = min(log.replicated, end)
    log.sequences.truncate(end)
    log.open = {producer: first for producer, first in log.open.items() if first < end}
    again = [ended for ended in log.ended if ended.first < end <= ended.marker]
    log.ended = [ended for ended in log.ended if ended.marker < end]
    for ended in again:
        log.open[ended.producer] = ended.first
        end_transaction(log, ended.producer, -1, ended.committed)
