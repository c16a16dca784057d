"""Compaction of the log model (topic setting cleanup.policy=compact).

Rules, each with its source:
- A pass cleans whole segments: all inactive ones that end at or below the last stable offset (Kafka documentation,
  "Log Compaction"; KIP-98). Brokers may also clean a part of a segment; for it, only the other rules hold.
- Of the records with the same key, the one with the highest offset is kept; the others are removed. Kept records keep
  their offsets and their order. A record without a key is removed.
- A tombstone is kept until `delete.retention.ms` after the first pass that kept it (KIP-534). A marker is kept until
  `delete.retention.ms` after the first pass that finds no record of the marker's transaction (KIP-98, KIP-534).
- Records of aborted transactions are removed, and do not replace earlier records of their key (KIP-98).
- A batch keeps its first and last offset. A batch without records is kept only if it is its producer's last batch,
  because it has the producer's last sequence numbers (KIP-98).
- Adjacent cleaned segments are merged as long as the sum of their sizes does not exceed `segment.bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from harness.sim.log_model.partition import Partition
from harness.sim.log_model.records import Batch, Record, batch_size, latest_timestamp
from harness.sim.log_model.segments import Segment


def clean(log: Partition) -> int:
    """Runs one pass of the cleaner. Returns the number of removed records."""
    if not log.settings.compacts:
        return 0
    upper = min(log.last_stable, log.active.base)
    count = sum(log.segment_end(at) <= upper for at in range(len(log.segments) - 1))
    if not count:
        return 0
    segments, end = log.segments[:count], log.segment_end(count - 1)
    latest = _latest(log, segments)
    records = {id(batch): _kept(log, batch, latest) for segment in segments for batch in segment.batches}
    alive = {
        ended.marker
        for ended in log.ended
        if any(
            records.get(id(batch), batch.records)
            for batch in log.batches()
            if batch.producer == ended.producer and ended.first <= batch.base < ended.marker
        )
    }
    last = {batch.producer: batch.base for batch in log.batches() if not batch.control}
    removed = 0
    for segment in segments:
        kept: list[Batch] = []
        for batch in segment.batches:
            removed += len(batch.records) - len(records[id(batch)])
            after = _after(log, batch, records[id(batch)], batch.base in alive, last)
            if after is not None:
                kept.append(after)
        segment.batches = kept
    log.segments = [*_merged(segments, log.settings.segment_bytes), *log.segments[count:]]
    log.cleaned = end
    return removed


def _latest(log: Partition, segments: Iterable[Segment]) -> dict[str, int]:
    """Returns key -> offset of its latest record in these segments, which compaction keeps."""
    found: dict[str, list[int]] = {}
    for segment in segments:
        for batch in segment.batches:
            if not log.aborted(batch):
                for record in batch.records:
                    if record.key is not None:
                        found.setdefault(record.key, []).append(record.offset)
    wrong = "compaction-loses-latest" in log.bugs
    return {key: offsets[-2] if wrong and len(offsets) > 1 else offsets[-1] for key, offsets in found.items()}


def _kept(log: Partition, batch: Batch, latest: dict[str, int]) -> tuple[Record, ...]:
    if log.aborted(batch):
        return ()
    expired = 0 <= batch.horizon <= log.now
    return tuple(
        record
        for record in batch.records
        if record.key is not None
        and latest.get(record.key) == record.offset
        and (record.value is not None or not expired)
    )


def _after(
    log: Partition, batch: Batch, records: tuple[Record, ...], alive: bool, last: dict[int, int]
) -> Batch | None:
    """Returns what is left of the batch after the pass; None if nothing is left.

    records  the batch's records that the pass keeps
    alive    for a marker: whether records of its transaction are left
    last     producer -> base offset of its last batch, which is kept even if it has no records left
    """
    horizon = log.now + log.settings.delete_retention_ms
    if batch.control:
        if alive:
            return batch
        if batch.horizon < 0:
            return replace(batch, horizon=horizon)
        return None if batch.horizon <= log.now else batch
    if not records and (batch.producer < 0 or last[batch.producer] != batch.base):
        return None
    tombstones = any(record.value is None for record in records)
    return replace(
        batch,
        records=records,
        size=batch_size(records),
        max_timestamp=latest_timestamp(records),
        horizon=horizon if tombstones and batch.horizon < 0 else batch.horizon,
    )


def _merged(segments: Iterable[Segment], limit: int) -> list[Segment]:
    """Merges adjacent cleaned segments whose total size does not exceed `limit` bytes.

    Counts each segment with its size before the pass.
    """
    groups: list[tuple[int, list[Segment]]] = []
    for segment in segments:
        if groups and groups[-1][0] + segment.size <= limit:
            groups[-1] = (groups[-1][0] + segment.size, [*groups[-1][1], segment])
        else:
            groups.append((segment.size, [segment]))
    merged = []
    for _, group in groups:
        joined = Segment(group[0].base, group[0].created, group[-1].modified)
        for segment in group:
            for batch in segment.batches:
                joined.add(batch, group[-1].modified)
        merged.append(joined)
    return merged
