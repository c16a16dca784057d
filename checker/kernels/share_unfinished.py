"""Finds the records of the log that a share group neither finished nor delivered any more.

A record is finished if an accept or reject of it was confirmed or may have taken effect, or if it was delivered as
often as the limit allows. All others must be delivered until the group has none left. The end of the history shows this
if members of the final phase polled for QUIET_NS without any record of the group, and this was more than a lock
duration after the record's last delivery or acknowledgement.

A group starts at offset 0 with the reset `earliest`. With another reset, it starts at the latest at the lowest offset
of a key that it delivered; and at 0 in partitions that were added to a topic of which it had got a record
(KAFKA-20742).
Where neither applies, the records are not judged.

Acquisitions can be hidden: a member that ends, or whose connection fails, may have acquired a record without returning
it. Each may raise the delivery count. A record whose limit they may have used up is only a doubt, or, if it is in the
group's dead letter queue, finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checker.kernels.disturbances import durations
from checker.kernels.share_bucket import ShareBucket, column
from checker.tables.packing import Bools, Ints, begins, empty
from checker.tables.schema import FAIL, INFO, OK, RELEASE, SHARE_ACKNOWLEDGE, SHARE_POLL

QUIET_NS: Final = 15_000_000_000
HIDDEN_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Records of the log that a group did not finish, as columns.

    group     code of the group
    key       code of the key
    offset    offset of the record
    record    number of the record in the `ShareBucket`; -1 if the group never got it
    last_op   the last op that delivered or acknowledged the record; if there is none, the op that sent it
    released  whether `last_op` is a release that the broker confirmed
    """

    group: Ints
    key: Ints
    offset: Ints
    record: Ints
    last_op: Ints
    released: Bools

    def where(self, rows: Bools) -> Unfinished:
        """Returns the rows that `rows` selects."""
        return Unfinished(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Found:
    """What `unfinished` finds.

    certain    records that must have been delivered again
    doubtful   the number of records that hidden acquisitions may have archived
    early      the number of records that may still have been locked in the last QUIET_NS of the final phase
    unplaced   the number of records in keys for which the group's first offset is unknown
    unwatched  codes of the groups for which the final phase does not prove that no record was left to deliver
    rewritten  the number of keys that are not judged, because a delivered record differs from the log at its offset
    """

    certain: Unfinished
    doubtful: int = 0
    early: int = 0
    unplaced: int = 0
    unwatched: tuple[int, ...] = ()
    rewritten: int = 0


def quiet_since(share: ShareBucket) -> dict[int, tuple[int, int]]:
    """Returns, by group, the interval in ns in which its last members polled without any record.

    A group whose members of the final phase did not poll for QUIET_NS without a record is left out.
    """
    ops = share.small.share_ops
    kind, group, final = (column(ops, name) for name in ("kind", "group", "final"))
    active = (kind == SHARE_POLL) | (kind == SHARE_ACKNOWLEDGE)
    invoked, completed = column(ops, "invoke_ns"), column(ops, "complete_ns")
    ok, records = column(ops, "type") == OK, column(ops, "records")
    found = {}
    for one in np.unique(group[active]).tolist():
        mine = active & (group == one)
        polls = mine & (kind == SHARE_POLL) & (final > 0)
        if not polls.any():
            continue
        busy = mine & ((records > 0) | (kind == SHARE_ACKNOWLEDGE) | ~ok | (final == 0))
        last = int(np.maximum(invoked, completed)[busy].max(initial=-1))
        empties = polls & ok & (records == 0) & (invoked >= max(last, int(invoked[polls].min())))
        if empties.any():
            begin, end = int(invoked[empties].min()), int(completed[empties].max())
            if end - begin >= QUIET_NS:
                found[one] = (begin, end)
    return found


def _rewritten(share: ShareBucket) -> Ints:
    """For each key rank: the lowest offset at which a group got another value than the log has; the log was truncated.

    A large number stands for none.
    """
    lowest = np.full(len(share.data.keys), np.iinfo(np.int64).max, np.int64)
    given, (key, offset, pair) = share.deliveries, share.log
    if len(key) == 0 or len(given.record) == 0:
        return lowest
    rank = np.searchsorted(share.data.keys, share.records.key[given.record])
    known = rank < len(share.data.keys)
    known[known] = share.data.keys[rank[known]] == share.records.key[given.record][known]
    at = share.records.offset[given.record]
    place = _places(key, offset, np.where(known, rank, -1), at)
    differs = (place >= 0) & (share.data.pair_value[pair[np.maximum(place, 0)]] != given.value)
    np.minimum.at(lowest, rank[differs], at[differs])
    return lowest


def _places(key: Ints, offset: Ints, wanted_key: Ints, wanted_offset: Ints) -> Ints:
    """Returns the row of each wanted (key, offset) among ascending rows; -1: absent."""
    count = len(key)
    base = 1 + max(int(offset.max(initial=0)), int(wanted_offset.max(initial=0)))
    code, wanted = key * base + offset, wanted_key * base + wanted_offset
    place = np.minimum(np.searchsorted(code, wanted), count - 1)
    found: Ints = np.where((wanted_key >= 0) & (code[place] == wanted), place, -1)
    return found


@dataclass(frozen=True, slots=True)
class State:
    """By record: whether it may be finished, its highest delivery count, and its last delivery or acknowledgement."""

    finished: Bools
    count: Ints
    last_ns: Ints
    last_op: Ints
    released: Bools


def state_of(share: ShareBucket) -> State:
    """Returns the state of each record at the end of the history."""
    given, acks = share.all_deliveries, share.acknowledgements
    size = len(share.records.group)
    finished, released = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    count, last_ns, last_op = (np.full(size, fill, np.int64) for fill in (0, -1, -1))
    finished[acks.record[acks.ends & (acks.type != FAIL)]] = True
    real = share.deliveries
    finished[real.record[share.implicit(np.ones(len(real.record), np.bool_))]] = True
    np.maximum.at(count, given.record, given.count)
    np.maximum.at(last_ns, given.record, given.complete_ns)
    np.maximum.at(last_ns, acks.record, np.maximum(acks.complete_ns, acks.begin_ns))
    np.maximum.at(last_op, given.record, given.op)
    np.maximum.at(last_op, acks.record, acks.op)
    freed = (acks.kind == RELEASE) & (acks.type == OK) & (acks.op == last_op[acks.record])
    released[acks.record[freed]] = True
    delivered_last = given.op == last_op[given.record]
    released[given.record[delivered_last]] = False
    return State(finished, count, last_ns, last_op, released)


def _hidden(share: ShareBucket, group: int, since: Ints) -> Ints:
    """Returns how many acquisitions of a record that was sent at `since` may be hidden, at most."""
    members, lock = share.members, max(1, share.lock_ns or 1)
    ended = np.sort(members.alive[(members.group == group) & ~members.closed])
    count = len(ended) - np.searchsorted(ended, since)
    for begin, duration in durations(share.small.nemesis):
        count = count + np.where(begin + duration >= since, min(HIDDEN_MAX, duration // lock + 1), 0)
    result: Ints = count
    return result


def _dead_letters(share: ShareBucket, group: int, key: int, offset: Ints) -> Bools:
    """Returns whether the record at each offset is in the group's dead letter queue."""
    letters = share.small.dead_letters
    mine = (column(letters, "group") == group) & (column(letters, "key") == key)
    return np.isin(offset, column(letters, "offset")[mine])


def _lowest_delivered(share: ShareBucket) -> dict[tuple[int, int], int]:
    """Returns the lowest offset that was delivered, by (group, key)."""
    records = share.records
    rows = np.unique(share.deliveries.record)  # in the order of groups, keys and offsets
    group, key, offset = records.group[rows], records.key[rows], records.offset[rows]
    heads = begins(group, key)
    places = zip(group[heads].tolist(), key[heads].tolist(), strict=True)
    return dict(zip(places, offset[heads].tolist(), strict=True))


def _start(share: ShareBucket, group: int, key: int, sent_first: int) -> int | None:
    """Returns the offset at which the group started at the latest in this key; None: unknown.

    sent_first  the invocation of the first send to the key, in ns
    """
    settings = share.settings
    if settings.auto_offset_reset == "earliest":
        return 0
    if settings.partitions is not None and settings.partitions_per_topic:
        topic, partition = divmod(key, settings.partitions_per_topic)
        if partition >= settings.partitions and share.topics_first.get((group, topic), sent_first) < sent_first:
            return 0
    return share.once(_lowest_delivered).get((group, key))


def unfinished(share: ShareBucket) -> Found:
    """Returns the records that the groups should have delivered, and did not."""
    nothing = Unfinished(empty(), empty(), empty(), empty(), empty(), np.zeros(0, np.bool_))
    groups = np.unique(share.members.group).tolist()
    if not share.provable or share.lock_ns is None or share.settings.delivery_limit is None or not groups:
        return Found(nothing)
    key, offset, pair = share.log
    quiet, lowest = quiet_since(share), _rewritten(share)
    writer = share.data.writer_row[pair]
    committed = writer >= 0
    committed[committed] = _visible(share)[writer[committed]]
    rows = np.flatnonzero(committed & (offset < lowest[key]))
    cuts = np.flatnonzero(begins(key[rows]))  # the log is in the order of keys
    parts, doubtful, early, unplaced = [nothing], 0, 0, 0
    for group in sorted(set(groups) & quiet.keys()):
        for at in np.split(rows, cuts[1:]) if len(rows) else ():
            rank, sent = int(key[at[0]]), share.data.sends.invoke_ns[writer[at]]
            start = _start(share, group, int(share.data.keys[rank]), int(sent.min()))
            if start is None:
                unplaced += len(at)
                continue
            left = _left(share, group, rank, offset[at], writer[at])
            left.open[offset[at] < start] = False
            archived = left.count + _hidden(share, group, sent) >= share.settings.delivery_limit
            left.open[archived & _dead_letters(share, group, int(share.data.keys[rank]), offset[at])] = False
            waited = left.last_ns + share.lock_ns < quiet[group][1] - QUIET_NS
            waited &= left.last_ns < quiet[group][0]
            early += int((left.open & ~waited).sum())
            doubtful += int((left.open & waited & archived).sum())
            parts.append(left.records.where(left.open & waited & ~archived))
    columns: list[Any] = [np.concatenate([getattr(part, name) for part in parts]) for name in Unfinished.__slots__]
    rewritten = int((lowest < np.iinfo(np.int64).max).sum())
    unwatched = tuple(sorted(set(groups) - quiet.keys()))
    return Found(Unfinished(*columns), doubtful, early, unplaced, unwatched, rewritten)


@dataclass(frozen=True, slots=True)
class _Left:
    """Records of a log: whether a group did not finish them, their delivery counts, and their last events in ns."""

    records: Unfinished
    open: Bools
    count: Ints
    last_ns: Ints


def _left(share: ShareBucket, group: int, rank: int, offset: Ints, writer: Ints) -> _Left:
    """Returns the state of the records of one key.

    rank    the rank of the key
    writer  the row of the send of each record
    """
    state, sends, limit = share.once(state_of), share.data.sends, share.settings.delivery_limit
    record = _record(share, group, int(share.data.keys[rank]), offset)
    got = record >= 0

    def of(values: Any, otherwise: Any) -> Any:
        """Returns the values of the records; `otherwise` for records that the group never got."""
        return np.where(got, np.append(values, 0)[record], otherwise)

    count = of(state.count, 0)
    is_open = ~(of(state.finished, False).astype(np.bool_) | (count >= limit))
    groups, keys = np.full(len(offset), group, np.int64), np.full(len(offset), share.data.keys[rank], np.int64)
    last_op, released = of(state.last_op, sends.op[writer]), of(state.released, False).astype(np.bool_)
    records = Unfinished(groups, keys, offset, record, last_op, released)
    return _Left(records, is_open, count, np.maximum(of(state.last_ns, -1), sends.invoke_ns[writer]))


def _visible(share: ShareBucket) -> Bools:
    """Returns, for each send, whether a record of the log that has its value is certainly committed."""
    settings, kind = share.options.settings, share.data.sends.type
    seen = settings.isolation_level == "read_committed" or settings.txn is False
    visible: Bools = (kind == OK) | ((kind == INFO) & seen)
    return visible


def _record(share: ShareBucket, group: int, key: int, offset: Ints) -> Ints:
    """Returns the number of each record of a group and key; -1: it has none."""
    records = share.records
    mine = np.flatnonzero((records.group == group) & (records.key == key))
    if len(mine) == 0:
        return np.full(len(offset), -1, np.int64)
    place = np.minimum(np.searchsorted(records.offset[mine], offset), len(mine) - 1)
    found: Ints = np.where(records.offset[mine][place] == offset, mine[place], -1)
    return found
