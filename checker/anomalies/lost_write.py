"""Lost write: a value that must be in the log is missing from a part of the log that consumers read.

Jepsen's rule, per key: an index is a position in the key's version order (checker.kernels.version_order). A value that
is at several offsets has a first and a last index. The *bound* is the highest first index among the values that `ok`
ops polled. A value is lost if its last index is at or below the bound, no `ok` op polled it, and its writer must have
committed. A writer must have committed if it is `ok`, or if it is `info` and an `ok` op read one of its writes.

Native rules differ:

- Read later: the consumer that read beyond a record must have done so after the record was sent, because offsets of a
  truncated log are assigned again. If several records were acknowledged at one offset, one of them is lost only if
  another record was read at that offset later.
- Indeterminate transactions: if consumers are read_committed and a record of an `info` transaction was read, all
  records of the transaction must exist. If consumers are read_uncommitted, or without transactions, a record of an
  `info` op must exist if it was itself acknowledged or read. If the settings do not say which rule applies, a record is
  lost if both rules say so. If only one rule says so, the verdict is unknown (`perhaps_lost`).
- Tail loss: if the final polls read a log to its end, every value that must exist and was not polled is lost, even
  beyond the bound or without a known offset.
- Later loss: if a client reread a log from beginning to end, every value that must exist and was not found is
  lost, even if it was read before, since a power failure can destroy records that were already read. This includes
  records that were read but never acknowledged, because consumers only see records that all in-sync replicas have.
- Truncation: if the last check found that a log ends before an offset at which a record was read or acknowledged
  earlier, this record is lost, even if no consumer read beyond it.
- Deletion: values below the log start are exempt. Values without a known offset are exempt, too, unless they were sent
  after a record at or above the log start was acknowledged. With acks=0 nothing proves that a value without a known
  offset was ever in the log, so the verdict is unknown. The verdict is also unknown if nothing explains the log start
  (checker.kernels.retention), or if a DeleteRecords request of unknown outcome may have deleted a missing value and the
  log start was not checked later.
- Compaction: values are exempt up to the offset to which the log was cleaned (checker.kernels.compaction). If this
  offset is not recorded, a missing value makes the verdict unknown, unless another record was read at its offset or its
  offset is beyond the end of the log. If records have keys (the compacted workload), a value is exempt if a later
  committed one has its key.
- auto.offset.reset=latest: a consumer whose position was deleted continues at the end of the log. If the broker deletes
  records by itself, values that the consumer did not read make the verdict unknown, even if they were deleted later.
- Missing lines: if lines of the history are missing, nothing is reported, because a missing line may contain the poll
  of a value.
- Indeterminate polls: an indeterminate op may have consumed records and committed the offset without recording it. If
  there are indeterminate polls, and consumers are subscribed or transactional, nothing is therefore reported for logs
  that were not read to the end.

Witness {key, value, index, offset, max-read-index, writer, max-read}: `max-read` is the first op that polled the value
at the bound. Source: jepsen.tests.kafka, `lost-write-cases`; KIP-107 (DeleteRecords); Kafka's topic configurations
cleanup.policy, retention.bytes, retention.ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import KEPT
from checker.anomalies.prose import Phrases, Witness
from checker.kernels import retention
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.clojure_set_order import set_order
from checker.kernels.compaction import Cleaned, cleaned, replaced, replaced_by_record_key
from checker.kernels.final_rereads import found_on_reread, missed
from checker.kernels.log_starts_and_ends import FOREVER, moved_starts
from checker.kernels.witness import nullable, table
from checker.tables.packing import Bools, Ints, Shorts, begins, order
from checker.tables.schema import OK
from harness.model.values_as_text import joined

# Why a missing value may have been deleted, or may never have been in the log.
COMPACTION: Final = 0  # how far the log cleaner had cleaned is not recorded
UNFINISHED: Final = 1  # a DeleteRecords request has an unknown outcome
RESET: Final = 2  # a consumer may have continued at the end of the log after its position was deleted
UNSEEN: Final = 3  # retention may have deleted the value, and the log start was never checked
UNPLACED: Final = 4  # acks=0: the value may never have been in the log
REPLACED: Final = 5  # a write of unknown outcome to the same record key may have replaced the value


@dataclass(frozen=True, slots=True)
class Unsure:
    """The number of values of a key that may be missing for a legal reason, the `cause`.

    key    the key, as its integer code
    cause  one of the constants COMPACTION, UNFINISHED, RESET, UNSEEN, UNPLACED and REPLACED
    count  number of missing values
    """

    key: int
    cause: int
    count: int


def _bound(bucket: Bucket) -> Ints:
    """Returns, for each key, its bound: the highest slot at which a value that `ok` ops polled first occurs.

    The bound is -1 if there is no such value. For slots see `Versions`.
    """
    data = bucket.data
    first = np.where(data.polled_ok, bucket.versions.first, -1)
    bound = np.full(len(data.keys), -1, np.int64)
    np.maximum.at(bound, data.pair_key, first)
    return bound


def _sent_beyond(bucket: Bucket, offset: Ints) -> Bools:
    """Returns, for each value, whether the log of its key had already reached `offset` when the value was sent.

    If so, the value cannot be below that offset. `offset` has one element per key of the bucket. The log had reached
    the offset if a record at or above it had been acknowledged. The record must also have been read: otherwise it may
    have been truncated again, and later records may have lower offsets.
    """
    data, sends = bucket.data, bucket.sends
    confirmed = (sends.type == OK) & (sends.offset >= offset[sends.key]) & data.polled_ok[sends.pair]
    since = np.full(len(data.keys), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(since, sends.key[confirmed], sends.complete_ns[confirmed])
    beyond = np.zeros(len(data.pair_key), np.bool_)
    beyond[sends.pair] = sends.invoke_ns > since[sends.key]
    return beyond


@dataclass(frozen=True, slots=True)
class Excuses:
    """Whether each value may legally be missing, as columns with one element per (key, value) pair.

    legal   whether the history shows that the value was deleted
    unsure  the cause (COMPACTION, UNFINISHED, ...) that may explain why the value is missing; -1: no cause
    """

    legal: Bools
    unsure: Shorts


def excuses(bucket: Bucket) -> Excuses:
    """Returns whether each value may legally be missing, by the harness's own rules."""
    data, ends = bucket.data, bucket.ends
    log_start, end, _ = ends.of(data.keys)
    legal = np.zeros(len(data.pair_key), np.bool_)
    unsure = np.full(len(data.pair_key), -1, np.int32)
    compaction = bucket.once(cleaned)
    maybe_gone = ends.at(data.keys, ends.maybe_gone, 0)
    unsure[bucket.once(retention.unseen_deletions)] = UNSEEN
    if compaction is None and not bool(log_start.any()) and not bool(maybe_gone.any()):
        return Excuses(legal, unsure)
    start = log_start[data.pair_key]
    offset = _last_offset(bucket)
    legal = np.where(offset < 0, (start > 0) & ~_sent_beyond(bucket, log_start), offset < start)
    if bucket.options.settings.acks == "0":
        unplaced = legal & (offset < 0)
        legal &= ~unplaced
        unsure[unplaced] = UNPLACED
    maybe_gone = maybe_gone[data.pair_key]
    unsure[(maybe_gone > 0) & (offset < maybe_gone)] = UNFINISHED
    if bool(log_start.any()) and bucket.options.settings.auto_offset_reset == "latest":
        moved = [one.key for one in moved_starts(bucket.small.ends, bucket.small.deletions)]
        passed = np.isin(data.keys, moved)[data.pair_key] & (offset < _read_from(bucket, log_start)[data.pair_key])
        unsure[passed] = RESET
    if compaction is not None:
        _compacted(bucket, compaction, offset, end, legal, unsure)
    else:
        surely, perhaps = bucket.once(missed)
        unsure[legal & perhaps] = RESET
        legal &= ~(surely | perhaps)
        unsure[surely] = -1
    unsure[(end >= 0)[data.pair_key] & (offset >= end[data.pair_key])] = -1
    return Excuses(legal, unsure)


def _compacted(bucket: Bucket, compaction: Cleaned, offset: Ints, end: Ints, legal: Bools, unsure: Shorts) -> None:
    """Marks in `legal` the values that the cleaner removed, and in `unsure` those that it may have removed.

    offset  the last known offset of each (key, value) pair
    end     the log end of each key of the bucket
    """
    if bucket.options.settings.record_keys:
        surely, perhaps = bucket.once(replaced_by_record_key)
        legal |= surely
        unsure[perhaps] = REPLACED
        return
    key = bucket.data.pair_key
    other, known = bucket.once(replaced), compaction.known[key]
    upto = compaction.upto[key]
    inside = (offset >= 0) & ~other
    legal |= inside & (offset < upto)
    nowhere = (offset < 0) & ((upto > 0) | ~known) & ~_sent_beyond(bucket, compaction.upto)
    uncleaned = inside & ~known & ((end[key] < 0) | (offset < end[key]))
    unsure[nowhere | uncleaned] = COMPACTION


def _read_from(bucket: Bucket, log_start: Ints) -> Ints:
    """Returns, for each key, the lowest offset at or above the log start that a client found when it reread the log.

    Before it found this offset, its position may have been reset, so that it skipped records. Afterwards its position
    cannot have been below the log start again. The result is FOREVER if it found no such offset.
    """
    orders, key = bucket.versions, bucket.data.pair_key[bucket.versions.entry_pair]
    read, _ = bucket.once(found_on_reread)
    rows = read[orders.entry_pair] & (orders.entry_offset >= log_start[key])
    lowest = np.full(len(bucket.data.keys), FOREVER, np.int64)
    np.minimum.at(lowest, key[rows], orders.entry_offset[rows])
    return lowest


def _last_offset(bucket: Bucket) -> Ints:
    """Returns, for each (key, value) pair, the highest offset at which the value was seen; -1 if there is none."""
    offset = np.full(len(bucket.data.pair_key), -1, np.int64)
    offset[bucket.versions.entry_pair] = bucket.versions.entry_offset  # ascending
    return offset


def excused(bucket: Bucket) -> Bools:
    """Returns, for each value, whether its absence is legal or may be legal, by the harness's own rules."""
    found = bucket.once(excuses)
    result: Bools = found.legal | (found.unsure >= 0)
    return result


def _missing_on_reread(bucket: Bucket) -> Bools:
    """Returns, for each value, whether it was missing when its log was reread from beginning to end."""
    read, since = bucket.once(found_on_reread)
    _, _, complete = bucket.ends.of(bucket.data.keys)
    whole = complete & (since < FOREVER)
    result: Bools = whole[bucket.data.pair_key] & ~read
    return result


def _truncated(bucket: Bucket) -> Bools:
    """Returns, for each value, whether its log was last found to end before the value's known offset.

    The end that was found may be the last stable offset, which does not advance beyond an open transaction. Where that
    is possible, a value that was acknowledged but not read does not count.
    """
    data, orders, sends, polls, ends = bucket.data, bucket.versions, bucket.sends, bucket.polls, bucket.ends
    _, end, _ = ends.of(data.keys)
    end_ns = ends.at(data.keys, ends.end_ns, -1)
    result = np.zeros(len(data.pair_key), np.bool_)
    cut = (end >= 0) & (end_ns >= 0)
    some = np.flatnonzero(cut & (np.diff(orders.key_start) > 0))
    cut[:] = False
    cut[some] = end[some] <= orders.slot_offset[orders.key_start[some + 1] - 1]
    if not bool(cut.any()):
        return result
    first = np.full(len(data.pair_key), -1, np.int64)
    first[orders.entry_pair[::-1]] = orders.entry_offset[::-1]  # descending
    beyond = (first >= end[data.pair_key]) & cut[data.pair_key]
    seen_ns = np.full(len(data.pair_key), FOREVER, np.int64)
    rows = np.flatnonzero(beyond[polls.pair] & (polls.complete_ns >= 0))
    np.minimum.at(seen_ns, polls.pair[rows], polls.complete_ns[rows])
    settings = bucket.options.settings
    if settings.txn is False or settings.isolation_level == "read_uncommitted":
        rows = np.flatnonzero(beyond[sends.pair] & (sends.type == OK) & (sends.complete_ns >= 0))
        np.minimum.at(seen_ns, sends.pair[rows], sends.complete_ns[rows])
    result[beyond] = seen_ns[beyond] < end_ns[data.pair_key][beyond]
    return result


def _offsets_prove_reads(bucket: Bucket) -> bool:
    """Returns whether every value below the highest one that was read must have been read by a recorded op.

    If so, a value that no op read is lost, even if there were no final polls. Returns False if consumers may start at
    the end of the log, or if an indeterminate op of a group may have read the value.
    """
    if bucket.options.settings.auto_offset_reset in (None, "latest"):
        return False
    counts = bucket.small.meta["counts"]
    indeterminate = sum(counts.get(f, {}).get("info", 0) for f in ("poll", "txn"))
    grouped = "subscribe" in counts or "txn" in counts
    return indeterminate == 0 or not grouped


def _passed_over(bucket: Bucket, unread: Bools) -> Bools:
    """Returns, for each unread value, whether consumers passed over it after it was sent.

    They did if an `ok` op read a record at a higher offset. If several values were acknowledged at one offset, they did
    if an `ok` op read another record at this offset. Reads before the value was sent do not count, because the log may
    have been truncated since, and its offsets assigned again.
    """
    data, orders, polls = bucket.data, bucket.versions, bucket.polls
    last, bound = orders.last, _bound(bucket)[data.pair_key]
    result = np.zeros(len(last), np.bool_)
    pairs = np.flatnonzero(unread & (last >= 0) & (last <= bound) & (data.writer_row >= 0))
    if len(pairs) == 0:
        return result
    wanted = np.zeros(len(data.keys), np.bool_)
    wanted[data.pair_key[pairs]] = True
    rows = np.flatnonzero((polls.type == OK) & wanted[polls.key] & (orders.first[polls.pair] >= 0))
    top = int(polls.complete_ns.max(initial=0))
    rows = rows[order(polls.key[rows], top - polls.complete_ns[rows])]  # latest first within each key
    # Slots ascend with the keys, so the running maximum is that of the current key.
    highest = np.maximum.accumulate(orders.first[polls.pair[rows]])
    pairs = pairs[order(data.pair_key[pairs], pairs)]
    heads = np.append(np.flatnonzero(begins(data.pair_key[pairs])), len(pairs))
    for low, high in pairwise(heads.tolist()):
        mine = pairs[low:high]
        begin, end = np.searchsorted(polls.key[rows], data.pair_key[mine[0]] + np.arange(2))
        since = top - bucket.sends.invoke_ns[data.writer_row[mine]]
        later = np.searchsorted(top - polls.complete_ns[rows[begin:end]], since, side="right")
        result[mine] = (later > 0) & (highest[np.maximum(begin + later - 1, 0)] > last[mine])
    shared = (orders.slot_values > 1)[last[pairs]]
    result[pairs] = np.where(shared, bucket.once(replaced)[pairs], result[pairs])
    return result


def _missing(bucket: Bucket, must_exist: Bools) -> Bools:
    """Returns, for each value, whether it must exist and is missing, legally or not, by the harness's own rules."""
    if bucket.lines_missing:
        return np.zeros(len(bucket.data.pair_key), np.bool_)
    data = bucket.data
    unread = must_exist & ~data.polled_ok
    _, _, complete = bucket.ends.of(data.keys)
    whole = complete[data.pair_key]
    if _offsets_prove_reads(bucket):
        seen = np.zeros(len(data.pair_key), np.bool_)
        seen[bucket.polls.pair] = True
        whole = whole | _passed_over(bucket, unread & ~seen & ~whole)
    result: Bools = (unread & whole) | (must_exist & (bucket.once(_missing_on_reread) | bucket.once(_truncated)))
    return result


def lost_pairs(bucket: Bucket) -> Ints:
    """Returns the indices of the (key, value) pairs that are lost, ascending, by the rules that the options select."""
    if bucket.options.jepsen_compatible:
        data, orders = bucket.data, bucket.versions
        below = (orders.last >= 0) & (orders.last <= _bound(bucket)[data.pair_key])
        return np.flatnonzero(bucket.must_exist & ~data.polled_ok & below)
    return np.flatnonzero(bucket.once(_missing_for_sure) & ~bucket.once(excused))


def _missing_for_sure(bucket: Bucket) -> Bools:
    return _missing(bucket, bucket.must_exist)


def perhaps_lost(bucket: Bucket) -> int:
    """Returns how many values are lost under some, but not all, possible values of the settings that are unknown."""
    unsure = bucket.may_have_to_exist & ~bucket.must_exist
    if not bool(unsure.any()):
        return 0
    return int(np.count_nonzero(_missing(bucket, unsure) & ~bucket.once(excused)))


def unsure(bucket: Bucket) -> list[Unsure]:
    """Returns, for each key and cause, the number of missing values that may have been deleted or lost."""
    found = bucket.once(excuses)
    rows = np.flatnonzero(bucket.once(_missing_for_sure) & ~found.legal & (found.unsure >= 0))
    key, cause = bucket.data.pair_key[rows], found.unsure[rows].astype(np.int64)
    by = order(key, cause)
    rows, key, cause = rows[by], key[by], cause[by]
    heads = np.flatnonzero(begins(key, cause))
    count = np.diff(np.append(heads, len(rows)))
    columns = (bucket.data.keys[key[heads]], cause[heads], count)
    return [Unsure(*cells) for cells in zip(*(column.tolist() for column in columns), strict=True)]


def _max_readers(bucket: Bucket, bound: Ints) -> Ints:
    """Returns, for each key, the first op that polled the value at the `bound` (see `_bound`); -1 if there is none.

    If there are several values at the bound, the harness's own rules take the smallest one that was read. Jepsen
    considers the values whose last index is the bound, read or not, and takes the first in a hash set.
    """
    data, orders = bucket.data, bucket.versions
    reader = np.full(len(data.pair_key), -1, np.int64)
    reader[bucket.polls.pair[::-1]] = bucket.polls.op[::-1]
    if bucket.options.jepsen_compatible:
        at = np.flatnonzero((orders.last >= 0) & (orders.last == bound[data.pair_key]))
        at = at[order(data.pair_key[at], set_order(bucket.values(at)))]
    else:
        at = np.flatnonzero(data.polled_ok & (orders.first >= 0) & (orders.first == bound[data.pair_key]))
    found = np.full(len(data.keys), -1, np.int64)
    found[data.pair_key[at[::-1]]] = reader[at[::-1]]
    return found


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each lost value."""
    pairs = bucket.once(lost_pairs)
    data, orders = bucket.data, bucket.versions
    bound = _bound(bucket)
    key = data.pair_key[pairs]
    index = orders.within_key(orders.first[pairs])
    columns = {
        "key": bucket.key_codes(pairs),
        "value": bucket.values(pairs),
        "index": nullable(index),
        "max-read-index": nullable(orders.within_key(bound)[key] if len(key) else key),
        "writer": data.writer[pairs],
        "max-read": nullable(_max_readers(bucket, bound)[key]),
    }
    if not bucket.options.jepsen_compatible:
        columns["offset"] = nullable(bucket.sends.offset[data.writer_row[pairs]])
        _, end, _ = bucket.ends.of(data.keys)
        columns["end"] = nullable(end[key])
    return table(columns)


def prose(witness: Witness, phrases: Phrases) -> str:
    key, value, offset = witness["key"], witness["value"], witness.get("offset")
    end, reader = witness.get("end"), witness.get("max-read")
    seen = phrases.read(key, value)
    vanished = f"{seen}, but missing when the log was read again from its beginning"
    parts = [f"key {key}, value {value}: {phrases.sent(key, value, witness.get('writer'))}"]
    parts.append(vanished if seen else "it was never read")
    index, most = witness.get("index"), witness.get("max-read-index")
    if not seen and reader is not None and index is not None and most is not None and index <= most:
        parts.append(f"{phrases.who(reader)} read beyond its position in the log")
    if end is not None:
        below = ", so there is no record at the offset at which it was acknowledged"
        below = below if offset is not None and end <= offset else ""
        parts.append(f"the final polls found that the key's log ends at offset {end}{below}")
    return joined(*parts)


ANOMALY = Anomaly(
    name="lost-write",
    summary="A record that was acknowledged, or read earlier, is missing from a part of the log that consumers read.",
    source="jepsen.tests.kafka, lost-write-cases; Kafka documentation: acks, retention.ms, cleanup.policy; KIP-107",
    prose=prose,
    guarantee=KEPT,
    find=find,
)
