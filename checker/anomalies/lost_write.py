"""Lost write: a value that must be in the log, and must have been read, was not.

Jepsen's rule, per key: bound = highest *first* index among values that `ok` ops polled; must-be-read = values
whose *last* index is at or below the bound; lost = those that no `ok` op polled and whose writer must have
committed: it is `ok`, or `info` with any of its writes read by an `ok` op.

Native rules add and take away:
- A record of an `info` transaction that was read proves that the others were committed only to readers of
  what is committed. Without transactions, and to readers of what is not committed, each record stands for
  itself: it must be there if it was acknowledged or read. Where the settings do not say which of the two it is,
  lost is what is so by both rules, and what is so by one makes the verdict unknown (`perhaps_lost`).
- Tail loss: where the final polls read a log to its end, every value that must exist and was not polled is
  lost, even beyond the bound, or without a known offset.
- Later loss: where a client read a log once more from its beginning to its end, every value that must exist
  and is not in there is lost, though it may have been read before: a power cut takes what was seen. So is a
  record that was never acknowledged: consumers are given only what every in-sync replica has.
- Deletion: values below the log start are excused, those without known offset too unless they were sent after
  a record at or beyond the log start was acknowledged, and under compaction those that are not the last of
  their key. A log start that nothing explains excuses as well, but makes the verdict unknown:
  checker.kernels.log_starts_and_ends.
- Missing lines: who read it may be in one of them, so nothing is claimed.
- Without a read to the end, group offsets can pass over what an indeterminate op consumed without telling:
  with such ops and subscribed or transactional consumers nothing is claimed there.

Witness {key, value, index, offset, max-read-index, writer, max-read}: `max-read` is the first op that polled
the value at the bound. Source: jepsen.tests.kafka, `lost-write-cases`; KIP-107 (DeleteRecords); Kafka's topic
configurations cleanup.policy, retention.bytes, retention.ms.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from checker.anomalies.guarantees import KEPT
from checker.anomalies.model import Anomaly
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.clojure_set_order import set_order
from checker.kernels.log_starts_and_ends import rereads_of
from checker.kernels.witness import nullable, table
from checker.tables.packing import Bools, Ints, empty, order
from checker.tables.schema import OK
from harness.model.values_as_text import joined


def _bound(bucket: Bucket) -> Ints:
    """Per key rank: the highest first slot among values that `ok` ops polled; -1 for none."""
    data = bucket.data
    first = np.where(data.polled_ok, bucket.versions.first, -1)
    bound = np.full(len(data.keys), -1, np.int64)
    np.maximum.at(bound, data.pair_key, first)
    return bound


def _sent_beyond(bucket: Bucket, log_start: Ints) -> Bools:
    """Per pair: sent after a record at or beyond its key's log start was acknowledged, so not below it.

    Only a record that was read counts: one that was cut off again says nothing about what came later.
    """
    data, sends = bucket.data, bucket.sends
    standing = (sends.type == OK) & (sends.offset >= log_start[sends.key]) & data.polled_ok[sends.pair]
    since = np.full(len(data.keys), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(since, sends.key[standing], sends.complete_ns[standing])
    beyond = np.zeros(len(data.pair_key), np.bool_)
    beyond[sends.pair] = sends.invoke_ns > since[sends.key]
    return beyond


def excused(bucket: Bucket) -> Bools:
    """Per pair: deleted as far as can be known (native rules)."""
    data, orders = bucket.data, bucket.versions
    log_start, _, _ = bucket.ends.of(data.keys)
    compacted = "compact" in (bucket.options.settings.cleanup_policy or "")
    if not compacted and not bool(log_start.any()):
        return np.zeros(len(data.pair_key), np.bool_)
    start = log_start[data.pair_key]
    offset = np.full(len(data.pair_key), -1, np.int64)
    offset[orders.entry_pair] = orders.entry_offset  # ascending: the last offset
    gone = np.where(offset < 0, (start > 0) & ~_sent_beyond(bucket, log_start), offset < start)
    if compacted:
        top = np.full(len(data.keys), -1, np.int64)
        np.maximum.at(top, data.pair_key, orders.last)
        gone |= (orders.last >= 0) & (orders.last < top[data.pair_key])
    result: Bools = gone
    return result


def _gone(bucket: Bucket) -> Bools:
    """Per pair: its log was read once more from the beginning to the end, and it was not there."""
    data, polls = bucket.data, bucket.polls
    again = rereads_of(bucket.small.ends, bucket.small.assigns)
    place = bucket.key_ranks(again.key)
    ours = place >= 0
    place, process, since = place[ours], again.process[ours], again.since[ours]
    whole = np.zeros(len(data.keys), np.bool_)
    whole[place] = True
    _, _, complete = bucket.ends.of(data.keys)
    whole &= complete
    reread = np.zeros(len(data.pair_key), np.bool_)
    for reader in np.unique(process):
        first = np.full(len(data.keys), np.iinfo(np.int64).max, np.int64)
        mine = process == reader
        first[place[mine]] = since[mine]
        rows = polls.process == reader
        reread[polls.pair[rows][polls.op[rows] > first[polls.key[rows]]]] = True
    return whole[data.pair_key] & ~reread


def _offsets_tell(bucket: Bucket) -> bool:
    """Whether values below the highest read must have been read by a recorded op even without final polls."""
    counts = bucket.small.meta["counts"]
    unknown = sum(counts.get(f, {}).get("info", 0) for f in ("poll", "txn"))
    grouped = "subscribe" in counts or "txn" in counts
    return unknown == 0 or not grouped


def _missing(bucket: Bucket, must_exist: Bools) -> Ints:
    """Of the pairs that must exist: those that are not there, ascending."""
    if bucket.lines_missing:
        return empty()
    data, orders = bucket.data, bucket.versions
    unread = must_exist & ~data.polled_ok
    below = (orders.last >= 0) & (orders.last <= _bound(bucket)[data.pair_key])
    if bucket.options.jepsen_compatible:
        return np.flatnonzero(unread & below)
    _, _, complete = bucket.ends.of(data.keys)
    whole = complete[data.pair_key]
    if _offsets_tell(bucket):
        seen = np.zeros(len(data.pair_key), np.bool_)
        seen[bucket.polls.pair] = True
        whole = whole | (below & ~seen)
    missing = (unread & whole) | (must_exist & bucket.once(_gone))
    return np.flatnonzero(missing & ~bucket.once(excused))


def lost_pairs(bucket: Bucket) -> Ints:
    """Pairs that are lost under the rules in force, ascending."""
    return _missing(bucket, bucket.must_exist)


def perhaps_lost(bucket: Bucket) -> int:
    """How many more pairs are lost if the settings that are not known are such that they had to exist."""
    unsure = bucket.may_have_to_exist & ~bucket.must_exist
    return len(_missing(bucket, unsure)) if bool(unsure.any()) else 0


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
