"""Decides which records the log cleaner may have removed by compaction.

The history may record up to which offset each log was cleaned (schema.CLEANED, from cleaner-offset-checkpoint). Below
that offset any record without a Kafka key may be removed, and the records of most workloads have no key. At or above
that offset, compaction has removed nothing. If the offset is not recorded for a key, a record missing below the end of
its log may have been cleaned or lost, and the history cannot tell which. If an offset has a different record than the
one acknowledged there, that record was not cleaned, because the cleaner preserves offsets.

With the compacted workload, records have keys (`Settings.record_keys`). A record may then be removed once a later one
with its key is committed, wherever the cleaner is; the last record of each key must stay.

If the settings say so, topics are compacted throughout the run. If only a fault switches compaction on, they are
compacted from the beginning of the fault. Native rules only. Source: Kafka documentation, Design, 4.8 Log Compaction;
cleanup.policy; KIP-135 (compacted topics reject records without a key, so such records are older than the policy).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.log_starts_and_ends import FOREVER
from checker.tables.packing import Bools, Ints, begins, order
from checker.tables.schema import INFO, OK
from harness.model.check_options import Settings
from harness.model.record_keys import TOMBSTONE_EVERY

TOMBSTONES_KEPT: Final = "log.cleaner.delete.retention.ms"
DAY_MS: Final = 86_400_000  # its default
_FAULT, _BACK = "config-change:compact", "config-back"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """How far the cleaner had cleaned each log.

    upto    for each key of the bucket: the offset up to which the log was cleaned
    known   for each key of the bucket: whether that offset is known
    since   the op that switched compaction on; -1: topics were compacted throughout the run
    """

    upto: Ints
    known: Bools
    since: int


def _all_along(settings: Settings, by_fault: bool) -> bool:
    """Returns whether topics are compacted throughout the run, even before a fault switches compaction on.

    `settings.cleanup_policy` includes the policies that faults set. So if a fault switches compaction on (`by_fault`),
    the result depends on the broker's own setting, log.cleanup.policy.
    """
    if "compact" not in (settings.cleanup_policy or ""):
        return False
    return not by_fault or "compact" in settings.broker.get("log.cleanup.policy", "")


def _spans(nemesis: pa.Table) -> tuple[list[int], int | None]:
    """Returns when faults switched compaction on and off, as indices of ops: (ops that may have switched it on, end).

    `end` is the op that switched it off again on all nodes; None if none did.
    """
    names = ("index", "f", "fault", "phase", "value")
    starts, ended = [], None
    for index, f, fault, phase, value in zip(*(nemesis.column(name).to_pylist() for name in names), strict=True):
        if not str(fault).startswith(_FAULT):
            continue
        if f != _BACK:
            starts.append(index)
            ended = None
        elif phase != "invoke" and '"nodes"' in value and '"not_back"' not in value:
            ended = index
    return starts, ended


def _first_sends(bucket: Bucket) -> Ints:
    """Returns the first op that sent to each key; -1 if none did."""
    sends = bucket.sends
    first = np.full(len(bucket.data.keys), FOREVER, np.int64)
    np.minimum.at(first, sends.key, sends.op)
    first[first == FOREVER] = -1
    return first


def cleaned(bucket: Bucket) -> Cleaned | None:
    """Returns up to which offsets the log cleaner cleaned the logs. Returns None if topics were never compacted."""
    starts, ended = _spans(bucket.small.nemesis)
    all_along = _all_along(bucket.options.settings, bool(starts))
    if not starts and not all_along:
        return None
    checks = bucket.small.cleaned
    op, key, before = (checks.column(name).to_numpy().astype(np.int64, copy=False) for name in ("op", "key", "before"))
    place = bucket.key_ranks(key)
    ours = place >= 0
    upto = np.zeros(len(bucket.data.keys), np.int64)
    np.maximum.at(upto, place[ours], before[ours])
    known = np.zeros(len(bucket.data.keys), np.bool_)
    known[place[ours & (op > max(starts, default=-1))]] = True
    if ended is not None and not all_along:
        known |= _first_sends(bucket) > ended
    return Cleaned(upto, known, -1 if all_along else min(starts))


def _of_record_keys(bucket: Bucket) -> Ints:
    """Returns, for each value, the number of its record key among all record keys of the bucket's partitions."""
    count = bucket.options.settings.record_keys
    result: Ints = bucket.data.pair_key * count + bucket.data.pair_value % count
    return result


def _highest(bucket: Bucket, group: Ints, offset: Ints, rows: Bools) -> Ints:
    """Returns, for each value, the highest `offset` of the values `rows` with its record key; -1: there is none."""
    top = np.full(len(bucket.data.keys) * bucket.options.settings.record_keys, -1, np.int64)
    np.maximum.at(top, group[rows], offset[rows])
    result: Ints = top[group]
    return result


def _offsets(bucket: Bucket) -> Ints:
    """Returns, for each value, its highest known offset; -1 if there is none."""
    offset = np.full(len(bucket.data.pair_key), -1, np.int64)
    offset[bucket.versions.entry_pair] = bucket.versions.entry_offset  # ascending
    return offset


def _passing(bucket: Bucket) -> Bools:
    """Returns, for each value, whether it is a tombstone that brokers keep for less than the default time, a day."""
    kept_ms = bucket.options.settings.broker.get(TOMBSTONES_KEPT)
    result: Bools = bucket.data.pair_value % TOMBSTONE_EVERY == TOMBSTONE_EVERY - 1
    return result & (kept_ms is not None and int(kept_ms) < DAY_MS)


def last_of_record_keys(bucket: Bucket) -> Bools:
    """Returns, for each value, whether it has the highest offset of the values of its record key that must exist.

    Tombstones that brokers remove within the run are left out.
    """
    group, offset = _of_record_keys(bucket), _offsets(bucket)
    exists = bucket.must_exist & (offset >= 0)
    result: Bools = exists & (offset == _highest(bucket, group, offset, exists)) & ~_passing(bucket)
    return result


def replaced_by_record_key(bucket: Bucket) -> tuple[Bools, Bools]:
    """Returns, for each value, whether the cleaner may have removed it: (surely, perhaps).

    Surely: a value that must exist has the same record key and a higher offset. Perhaps: one of unknown outcome has; or
    the value's own offset is not known, and its record key has other values. Aborted values replace nothing. Tombstones
    that brokers remove within the run need no later value.
    """
    data = bucket.data
    group, offset = _of_record_keys(bucket), _offsets(bucket)
    surely = (offset >= 0) & (offset < _highest(bucket, group, offset, bucket.must_exist & (offset >= 0)))
    surely |= _passing(bucket)
    open_ = (data.writer_type == INFO) & ~bucket.must_exist
    anywhere = np.where(offset < 0, FOREVER, offset)
    unplaced = (offset < 0) & (np.bincount(group, minlength=int(group.max(initial=0)) + 1)[group] > 1)
    perhaps = (offset < _highest(bucket, group, anywhere, open_)) & ~open_
    return surely, ~surely & (perhaps | unplaced)


def replaced(bucket: Bucket) -> Bools:
    """Returns, for each value, whether an `ok` op later read another record at the value's offset.

    Later means: in an op after the one that sent the value. Values that were seen at several offsets are not
    considered.
    """
    data, orders, polls = bucket.data, bucket.versions, bucket.polls
    result = np.zeros(len(data.pair_key), np.bool_)
    if not bool((orders.slot_values > 1).any()):
        return result
    rows = np.flatnonzero((orders.slot_values > 1)[orders.entry_slot])
    pair, slot = orders.entry_pair[rows], orders.entry_slot[rows]
    among = np.zeros(len(data.pair_key), np.bool_)
    among[pair] = orders.first[pair] == orders.last[pair]
    read = np.flatnonzero(among[polls.pair] & (polls.type == OK))
    last_read = np.full(len(data.pair_key), -1, np.int64)
    np.maximum.at(last_read, polls.pair[read], polls.op[read])
    by = order(slot, last_read[pair] + 1)
    pair, slot = pair[by], slot[by]
    ends = np.append(begins(slot)[1:], True)
    latest = np.zeros(int(slot.max()) + 1, np.int64)
    second = latest.copy()
    latest[slot[ends]] = last_read[pair[ends]]
    before_last = np.flatnonzero(ends) - 1
    second[slot[ends]] = last_read[pair[before_last]]
    other = np.where(ends, second[slot], latest[slot])
    result[pair[other > data.writer[pair]]] = True
    return result
