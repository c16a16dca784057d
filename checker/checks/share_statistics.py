"""Statistics of the share check: how often records were delivered, and why they were delivered again.

groups, members, deliveries, records   how many there were
delivery_counts                        highest delivery count of a record -> number of records
redeliveries                           reason -> number of redeliveries, i.e. deliveries with a count above 1, or of a
                                       record that had been delivered before. Reasons: released, lock expired, member
                                       ended, leader may have moved, other (nothing in the history explains it)
after_release_ms, after_end_ms         time to the redelivery: {median, max}
expired_locks                          redeliveries by an expired lock
dead_letters                           records in the dead letter queues that were read (added by checker.checks.share)
leader_moves                           the number of leaders that faults moved
acknowledgements                       kind -> outcome -> number
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from checker.kernels.share_bucket import MS, NEVER, ShareBucket
from checker.tables.packing import Ints, begins, order
from checker.tables.schema import ACK_KINDS, FAIL, INVALID_STATE, RELEASE, TYPE_CODES

EXPIRED: Final = "lock expired"
REASONS: Final = ("released", "member ended", "leader may have moved", EXPIRED, "other")
TIMES_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Sums:
    """The statistics of one bucket.

    members           number of members
    deliveries        number of deliveries
    counts            highest delivery count of a record -> number of records
    reasons           reason (see REASONS) -> number of redeliveries
    acknowledgements  (kind, outcome) -> number
    after_release     times in ns from a release to the redelivery
    after_end         times in ns from the end of the member that had the record to the redelivery
    """

    members: int
    deliveries: int
    groups: frozenset[int]
    counts: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    acknowledgements: Counter[tuple[str, str]] = field(default_factory=Counter)
    after_release: tuple[int, ...] = ()
    after_end: tuple[int, ...] = ()


def of_bucket(share: ShareBucket) -> Sums:
    """Returns the statistics of one bucket."""
    given, acks = share.deliveries, share.acknowledgements
    groups = frozenset(share.members.group.tolist())
    heads = np.flatnonzero(begins(given.record))
    highest = np.maximum.reduceat(given.count, heads) if len(heads) else given.count
    outcome = {code: name for name, code in TYPE_CODES.items()}
    kinds = {code: name for name, code in ACK_KINDS.items()}
    results: Counter[tuple[str, str]] = Counter()
    for kind, type_, error in zip(acks.kind.tolist(), acks.type.tolist(), acks.error.tolist(), strict=True):
        results[kinds[kind], "invalid state" if error == INVALID_STATE else outcome[type_]] += 1
    reason, after_release, after_end = _redeliveries(share)
    return Sums(
        len(share.members.code),
        len(given.record),
        groups,
        Counter(highest.tolist()),
        Counter(REASONS[one] for one in reason.tolist()),
        results,
        tuple(after_release[:TIMES_MAX].tolist()),
        tuple(after_end[:TIMES_MAX].tolist()),
    )


def _redeliveries(share: ShareBucket) -> tuple[Ints, Ints, Ints]:
    """Returns (the reason of each redelivery, as an index of REASONS; times after a release; times after an end).

    The times are in ns: from a release of the record, or from the end of the member that had it, to the redelivery.
    """
    given, acks = share.deliveries, share.acknowledgements
    rows = np.flatnonzero(~begins(given.record))
    before, after = rows - 1, rows
    released = np.full(len(rows), NEVER, np.int64)
    frees = np.flatnonzero((acks.kind == RELEASE) & (acks.type != FAIL))
    if len(frees) and len(rows):
        # The last release of the record that was requested before the redelivery's poll completed.
        asked = np.where(acks.by_poll[frees], acks.complete_ns[frees], acks.begin_ns[frees])
        by = order(acks.record[frees], asked)
        frees, asked = frees[by], asked[by]
        base = np.int64(1) + max(int(asked.max()), int(given.complete_ns.max()))
        code, wanted = acks.record[frees] * base + asked, given.record[after] * base + given.complete_ns[after]
        place = np.maximum(np.searchsorted(code, wanted, side="right") - 1, 0)
        some = (acks.record[frees[place]] == given.record[after]) & (asked[place] >= given.complete_ns[before])
        released = np.where(some & (asked[place] <= given.complete_ns[after]), asked[place], NEVER)
    alive = share.members.alive[given.member[before]]
    done, lock = given.complete_ns[after], share.lock_ns or NEVER
    ended = (alive < done) & (given.member[before] != given.member[after])
    moved = share.disturbed.between(given.complete_ns[before], done)
    expired = done - given.earliest[before] >= lock
    reason = np.select([released < NEVER, ended, moved, expired], [0, 1, 2, 3], 4)
    after_end = (done - np.maximum(alive, given.complete_ns[before]))[reason == 1]
    return reason, np.maximum(0, (done - released)[reason == 0]), after_end


def of_history(sums: Sequence[Sums], nemesis: pa.Table, original: Mapping[int, Any]) -> dict[str, Any]:
    """Returns the statistics of all buckets. `nemesis` is the table NEMESIS; `original` maps codes to names."""
    counts, reasons = Counter[int](), Counter[str]()
    results = Counter[tuple[str, str]]()
    for one in sums:
        counts.update(one.counts)
        reasons.update(one.reasons)
        results.update(one.acknowledgements)
    acknowledgements: dict[str, dict[str, int]] = {}
    for (kind, outcome), number in sorted(results.items()):
        acknowledgements.setdefault(kind, {})[outcome] = number
    groups = frozenset[int]().union(*(one.groups for one in sums))
    return {
        "groups": sorted(str(original.get(group, group)) for group in groups),
        "members": max((one.members for one in sums), default=0),
        "deliveries": sum(one.deliveries for one in sums),
        "records": sum(counts.values()),
        "delivery_counts": {str(count): counts[count] for count in sorted(counts)},
        "redeliveries": {reason: reasons[reason] for reason in REASONS if reasons[reason]},
        "after_release_ms": _times([time for one in sums for time in one.after_release]),
        "after_end_ms": _times([time for one in sums for time in one.after_end]),
        "expired_locks": reasons[EXPIRED],
        "leader_moves": _leader_moves(nemesis),
        "acknowledgements": acknowledgements,
    }


def _times(times: Sequence[int]) -> dict[str, float] | None:
    if not times:
        return None
    return {"median": round(float(np.median(times)) / MS, 1), "max": round(max(times) / MS, 1)}


def _leader_moves(nemesis: pa.Table) -> int:
    """Returns how many partitions got a new leader by a fault."""
    moves = 0
    for text in nemesis.column("value").to_pylist():
        value = orjson.loads(text)
        if isinstance(value, dict) and isinstance(value.get("new_leaders"), dict):
            moves += len(value["new_leaders"])
    return moves
