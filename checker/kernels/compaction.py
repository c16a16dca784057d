"""What the log cleaner may have taken away.

How far it had gone is on record, or not (schema.CLEANED, from cleaner-offset-checkpoint). Below that offset a
record without a Kafka key may be gone whatever comes later, and the records of a run have none; at or beyond
it nothing is gone by compaction. Where it is not on record for a key, whatever is missing below the end of its
log may have been cleaned away or lost: that cannot be known. An offset that holds another record now than the
one that was acknowledged there was not cleaned: the cleaner keeps offsets. The topics compact all along where
the settings say so, and where only a fault made them, from the fault on. Native rules only. Source: Kafka
documentation, Design, 4.8 Log Compaction; cleanup.policy; KIP-135 (compacted topics refuse records without
a key, so such are older than the policy).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.log_starts_and_ends import FOREVER
from checker.tables.packing import Bools, Ints, begins, order
from checker.tables.schema import OK
from harness.model.check_options import Settings

_FAULT, _BACK = "config-change:compact", "config-back"


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Per key rank: how far the cleaner had gone, and whether that is known.

    since   op from which on topics compacted; -1: all along
    """

    upto: Ints
    known: Bools
    since: int


def _all_along(settings: Settings, by_fault: bool) -> bool:
    """Whether the topics compact without a fault that makes them. A fault is in the settings as well."""
    if "compact" not in (settings.cleanup_policy or ""):
        return False
    return not by_fault or "compact" in settings.broker.get("log.cleanup.policy", "")


def _spans(nemesis: pa.Table) -> tuple[list[int], int | None]:
    """(indices of what began or may have begun the fault, index of where all of it had ended; None: it did not)."""
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
    """Per key rank: the first op that sent to it; -1 where nobody did."""
    sends = bucket.sends
    first = np.full(len(bucket.data.keys), FOREVER, np.int64)
    np.minimum.at(first, sends.key, sends.op)
    first[first == FOREVER] = -1
    return first


def cleaned(bucket: Bucket) -> Cleaned | None:
    """How far the cleaner went; None where nothing was compacted."""
    starts, ended = _spans(bucket.small.nemesis)
    all_along = _all_along(bucket.options.settings, bool(starts))
    if not starts and not all_along:
        return None
    looks = bucket.small.cleaned
    op, key, before = (looks.column(name).to_numpy().astype(np.int64, copy=False) for name in ("op", "key", "before"))
    place = bucket.key_ranks(key)
    ours = place >= 0
    upto = np.zeros(len(bucket.data.keys), np.int64)
    np.maximum.at(upto, place[ours], before[ours])
    known = np.zeros(len(bucket.data.keys), np.bool_)
    known[place[ours & (op > max(starts, default=-1))]] = True
    if ended is not None and not all_along:
        known |= _first_sends(bucket) > ended
    return Cleaned(upto, known, -1 if all_along else min(starts))


def replaced(bucket: Bucket) -> Bools:
    """Per pair: an `ok` op read another record at its offset after its writer had completed.

    A record that stands at several offsets is no evidence.
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
