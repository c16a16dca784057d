"""Lost write: a value that must be in the log, and must have been read, was not.

Jepsen's rule, per key: bound = highest *first* index among values that `ok` ops polled; must-be-read = values
whose *last* index is at or below the bound; lost = those that no `ok` op polled and whose writer must have
committed: it is `ok`, or `info` with any of its writes read by an `ok` op.

Native rules add and take away:
- Who read beyond a place must have done so after the record was sent: a log that was cut off gives places away
  again. Of records that were given one offset, only those are lost in whose place another was read later.
- A record of an `info` transaction that was read proves that the others were committed only to readers of
  what is committed. Without transactions, and to readers of what is not committed, each record stands for
  itself: it must be there if it was acknowledged or read. Where the settings do not say which of the two it is,
  lost is what is so by both rules, and what is so by one makes the verdict unknown (`perhaps_lost`).
- Tail loss: where the final polls read a log to its end, every value that must exist and was not polled is
  lost, even beyond the bound, or without a known offset.
- Later loss: where a client read a log once more from its beginning to its end, every value that must exist
  and is not in there is lost, though it may have been read before: a power cut takes what was seen. So is a
  record that was never acknowledged: consumers are given only what every in-sync replica has.
- Cut off: where a log ends, when it was last looked at, before the place at which a record was read or
  acknowledged earlier, that record is lost whether anybody read on from there or not.
- Deletion: values below the log start are excused, those without known offset too unless they were sent after
  a record at or beyond the log start was acknowledged. With acks=0 nothing tells that such a record ever was in
  the log, so the verdict is unknown. A log start that nothing explains excuses as well, but
  makes the verdict unknown: checker.kernels.retention. So does a request to delete of unknown outcome, as far
  as it asks, where nobody looked at the log start later.
- Compaction: values are excused as far as the cleaner had gone (checker.kernels.compaction); where that is not
  on record, what is missing makes the verdict unknown, unless its offset holds another record now, or lies
  beyond the end of the log.
- Under auto.offset.reset=latest a reader whose place was deleted under it goes on at the end of the log: where
  the broker deletes by itself, what nobody read there makes the verdict unknown, though it was deleted later.
- Missing lines: who read it may be in one of them, so nothing is claimed.
- Without a read to the end, group offsets can pass over what an indeterminate op consumed without telling:
  with such ops and subscribed or transactional consumers nothing is claimed there.

Witness {key, value, index, offset, max-read-index, writer, max-read}: `max-read` is the first op that polled
the value at the bound. Source: jepsen.tests.kafka, `lost-write-cases`; KIP-107 (DeleteRecords); Kafka's topic
configurations cleanup.policy, retention.bytes, retention.ms.
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
from checker.kernels.compaction import Cleaned, cleaned, replaced
from checker.kernels.final_rereads import missed, standing
from checker.kernels.log_starts_and_ends import FOREVER, moved_starts
from checker.kernels.witness import nullable, table
from checker.tables.packing import Bools, Ints, Shorts, begins, order
from checker.tables.schema import OK
from harness.model.values_as_text import joined

# What may have taken what is missing.
COMPACTION: Final = 0
UNFINISHED: Final = 1
RESET: Final = 2
UNSEEN: Final = 3
UNPLACED: Final = 4


@dataclass(frozen=True, slots=True)
class Unsure:
    """How many values of a key (its code) one of the above may have taken."""

    key: int
    cause: int
    count: int


def _bound(bucket: Bucket) -> Ints:
    """Per key rank: the highest first slot among values that `ok` ops polled; -1 for none."""
    data = bucket.data
    first = np.where(data.polled_ok, bucket.versions.first, -1)
    bound = np.full(len(data.keys), -1, np.int64)
    np.maximum.at(bound, data.pair_key, first)
    return bound


def _sent_beyond(bucket: Bucket, offset: Ints) -> Bools:
    """Per pair: sent after a record at or beyond an offset of its key was acknowledged, so not below it.

    `offset`: per key rank.

    Only a record that was read counts: one that was cut off again says nothing about what came later.
    """
    data, sends = bucket.data, bucket.sends
    standing = (sends.type == OK) & (sends.offset >= offset[sends.key]) & data.polled_ok[sends.pair]
    since = np.full(len(data.keys), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(since, sends.key[standing], sends.complete_ns[standing])
    beyond = np.zeros(len(data.pair_key), np.bool_)
    beyond[sends.pair] = sends.invoke_ns > since[sends.key]
    return beyond


@dataclass(frozen=True, slots=True)
class Excuses:
    """Per pair: why it may be missing.

    legal   deleted, as the history shows
    unsure  which of the causes above may have taken it; -1 for none
    """

    legal: Bools
    unsure: Shorts


def excuses(bucket: Bucket) -> Excuses:
    """Why each value may be missing (native rules)."""
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
    """Add to the excuses what the cleaner took, or may have taken. `offset`: per pair; `end`: per key rank."""
    key = bucket.data.pair_key
    other, known = bucket.once(replaced), compaction.known[key]
    upto = compaction.upto[key]
    inside = (offset >= 0) & ~other
    legal |= inside & (offset < upto)
    nowhere = (offset < 0) & ((upto > 0) | ~known) & ~_sent_beyond(bucket, compaction.upto)
    uncleaned = inside & ~known & ((end[key] < 0) | (offset < end[key]))
    unsure[nowhere | uncleaned] = COMPACTION


def _read_from(bucket: Bucket, log_start: Ints) -> Ints:
    """Per key rank: from which offset on a log was read once more to its end without another reset.

    Whoever read a record at or beyond the log start is not below it any more. FOREVER where nobody did.
    """
    orders, key = bucket.versions, bucket.data.pair_key[bucket.versions.entry_pair]
    read, _ = bucket.once(standing)
    rows = read[orders.entry_pair] & (orders.entry_offset >= log_start[key])
    lowest = np.full(len(bucket.data.keys), FOREVER, np.int64)
    np.minimum.at(lowest, key[rows], orders.entry_offset[rows])
    return lowest


def _last_offset(bucket: Bucket) -> Ints:
    """Per pair: the last offset at which it stands; -1 for nowhere."""
    offset = np.full(len(bucket.data.pair_key), -1, np.int64)
    offset[bucket.versions.entry_pair] = bucket.versions.entry_offset  # ascending
    return offset


def excused(bucket: Bucket) -> Bools:
    """Per pair: nobody can call it lost (native rules)."""
    found = bucket.once(excuses)
    result: Bools = found.legal | (found.unsure >= 0)
    return result


def _gone(bucket: Bucket) -> Bools:
    """Per pair: its log was read once more from the beginning to the end, and it was not there."""
    read, since = bucket.once(standing)
    _, _, complete = bucket.ends.of(bucket.data.keys)
    whole = complete & (since < FOREVER)
    result: Bools = whole[bucket.data.pair_key] & ~read
    return result


def _cut_off(bucket: Bucket) -> Bools:
    """Per pair: its log ended, when it was last looked at, before the place where it had been.

    What was acknowledged and not read counts where no open transaction can hold the end down: the last stable
    offset does not pass one.
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


def _offsets_tell(bucket: Bucket) -> bool:
    """Whether values below the highest read must have been read by a recorded op even without final polls.

    Not where consumers begin at the end of the log.
    """
    if bucket.options.settings.auto_offset_reset in (None, "latest"):
        return False
    counts = bucket.small.meta["counts"]
    unknown = sum(counts.get(f, {}).get("info", 0) for f in ("poll", "txn"))
    grouped = "subscribe" in counts or "txn" in counts
    return unknown == 0 or not grouped


def _passed_over(bucket: Bucket, unread: Bools) -> Bools:
    """Per unread pair: an `ok` op read beyond its place, or another record there, after it had been sent.

    Who read there before may have read what was cut off again since, and gone on from there: of records that were
    given one offset, only those are lost in whose place another was read.
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
    rows = rows[order(polls.key[rows], top - polls.complete_ns[rows])]  # of each key the latest first
    # Slots ascend with the keys, so the highest so far is the highest of its key.
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
    """Per pair: it must exist and is not there, excused or not (native rules)."""
    if bucket.lines_missing:
        return np.zeros(len(bucket.data.pair_key), np.bool_)
    data = bucket.data
    unread = must_exist & ~data.polled_ok
    _, _, complete = bucket.ends.of(data.keys)
    whole = complete[data.pair_key]
    if _offsets_tell(bucket):
        seen = np.zeros(len(data.pair_key), np.bool_)
        seen[bucket.polls.pair] = True
        whole = whole | _passed_over(bucket, unread & ~seen & ~whole)
    result: Bools = (unread & whole) | (must_exist & (bucket.once(_gone) | bucket.once(_cut_off)))
    return result


def lost_pairs(bucket: Bucket) -> Ints:
    """Pairs that are lost under the rules in force, ascending."""
    if bucket.options.jepsen_compatible:
        data, orders = bucket.data, bucket.versions
        below = (orders.last >= 0) & (orders.last <= _bound(bucket)[data.pair_key])
        return np.flatnonzero(bucket.must_exist & ~data.polled_ok & below)
    return np.flatnonzero(bucket.once(_missing_for_sure) & ~bucket.once(excused))


def _missing_for_sure(bucket: Bucket) -> Bools:
    return _missing(bucket, bucket.must_exist)


def perhaps_lost(bucket: Bucket) -> int:
    """How many more pairs are lost if the settings that are not known are such that they had to exist."""
    unsure = bucket.may_have_to_exist & ~bucket.must_exist
    if not bool(unsure.any()):
        return 0
    return int(np.count_nonzero(_missing(bucket, unsure) & ~bucket.once(excused)))


def unsure(bucket: Bucket) -> list[Unsure]:
    """What is missing that may have been deleted or lost, per key and what may have deleted it."""
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
    """Per key rank: the first op that polled the (smallest) value at the bound; -1 for none.

    Jepsen takes of the values whose last index is the bound the first of a hash set, read or not; ours is one that
    was read there.
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
    """One witness per lost value."""
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
    gone = f"{seen}, and no longer there when the log was read once more from its beginning"
    parts = [f"key {key}, value {value}: {phrases.sent(key, value, witness.get('writer'))}"]
    parts.append(gone if seen else "nobody read it")
    index, most = witness.get("index"), witness.get("max-read-index")
    if not seen and reader is not None and index is not None and most is not None and index <= most:
        parts.append(f"{phrases.who(reader)} read beyond its place")
    if end is not None:
        shorter = ", before the place where the record was acknowledged" if offset is not None and end <= offset else ""
        parts.append(f"in the end the log of the key ended at offset {end}{shorter}")
    return joined(*parts)


ANOMALY = Anomaly(
    name="lost-write",
    summary="A record that was acknowledged, or that had been read, is missing from a part of the log that was read.",
    source="jepsen.tests.kafka, lost-write-cases; Kafka documentation: acks, retention.ms, cleanup.policy; KIP-107",
    prose=prose,
    guarantee=KEPT,
    find=find,
)
