"""Finds, for each acknowledgement, the delivery that it refers to, and until when the lock certainly holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.kernels.share_bucket import ShareBucket
from checker.tables.packing import Bools, Ints, begins, order
from checker.tables.schema import OK, RENEW


@dataclass(frozen=True, slots=True)
class Matches:
    """What each acknowledgement refers to. There is one element per acknowledgement of a `ShareBucket`.

    delivery  the row of the last delivery of the record to the same member before the acknowledgement; -1: none
    first     whether the member had not acknowledged the record since that delivery, except by renewing its lock
    renewed   when the member's last confirmed renewal since that delivery was invoked, in ns; -1: no renewal
    """

    delivery: Ints
    first: Bools
    renewed: Ints


def matches(share: ShareBucket) -> Matches:
    """Returns the delivery of each acknowledgement."""
    given, acks = share.deliveries, share.acknowledgements
    cut = len(given.record)
    record, member = (np.concatenate([getattr(given, name), getattr(acks, name)]) for name in ("record", "member"))
    op = np.concatenate([given.op, acks.op])
    is_delivery = np.arange(len(record)) < cut
    # A poll reports results of earlier acknowledgements, so these come before the records that it returned.
    by = order(record, member, op, is_delivery.astype(np.int64))
    place = np.arange(len(by), dtype=np.int64)
    head = np.maximum.accumulate(np.where(begins(record[by], member[by]), place, 0)) if len(by) else place
    last = np.maximum.accumulate(np.where(is_delivery[by], place, -1)) if len(by) else place
    found = np.where(last >= head, by[np.maximum(last, 0)], -1) if len(by) else place
    since = np.maximum(last, head)
    is_ack = ~is_delivery[by]
    ack = np.maximum(by - cut, 0)
    ends = np.zeros(len(by), np.int64)
    ends[is_ack] = acks.kind[ack[is_ack]] != RENEW
    total = np.concatenate([[0], np.cumsum(ends)])
    first = total[place] - total[since] == 0
    renews = np.zeros(len(by), np.bool_)
    renews[is_ack] = (acks.kind[ack[is_ack]] == RENEW) & (acks.type[ack[is_ack]] == OK)
    latest = np.maximum.accumulate(np.where(renews, place, -1)) if len(by) else place
    before = np.concatenate([[-1], latest[:-1]]) if len(by) else place
    renewal = np.full(len(by), -1, np.int64)
    some = before >= since
    renewal[some] = acks.begin_ns[ack[before[some]]]
    size = len(acks.record)
    delivery, firsts, renewed = np.empty(size, np.int64), np.empty(size, np.bool_), np.empty(size, np.int64)
    delivery[ack[is_ack]], firsts[ack[is_ack]], renewed[ack[is_ack]] = found[is_ack], first[is_ack], renewal[is_ack]
    return Matches(delivery, firsts, renewed)


@dataclass(frozen=True, slots=True)
class Endings:
    """For each record: its first confirmed accept or reject.

    ack       its row in `acknowledgements`; -1: none
    count     the delivery count of the delivery that it ended; -1: unknown
    earliest  the lower bound of that delivery's acquisition, in ns
    """

    ack: Ints
    count: Ints
    earliest: Ints


def endings(share: ShareBucket) -> Endings:
    """Returns the first confirmed accept or reject of each record."""
    acks, given, found = share.acknowledgements, share.deliveries, share.once(matches)
    count = len(share.records.group)
    rows = np.flatnonzero(acks.ends & (acks.type == OK))[::-1]
    first = np.full(count, -1, np.int64)
    first[acks.record[rows]] = rows  # the rows of a record are in the order of completion
    delivery = np.where(first >= 0, found.delivery[first] if len(found.delivery) else -1, -1)
    if len(given.record) == 0:
        return Endings(first, np.full(count, -1, np.int64), np.zeros(count, np.int64))
    counts = np.where(delivery >= 0, given.count[delivery], -1)
    earliest = np.where(delivery >= 0, given.earliest[delivery], -1)
    return Endings(first, counts, earliest)
