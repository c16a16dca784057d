"""The steps of consumers through the log that nothing excuses: what the four poll anomalies share.

Jepsen's rules: within an op, keys in the op's rebalance log are excused; between ops, an assign or subscribe
that leaves the key out makes the process forget its place. Native rules forget it also at a seek to the
beginning and at a change between assign and subscribe, and excuse a key that was rebalanced in between, and
skips of what was deleted: below the log start (which makes the verdict unknown where nothing explains it:
checker.kernels.retention), or as far as the log cleaner had gone. What was still there when the log was read once
more was not deleted before. A consumer whose place was deleted under it goes on at the log start, or at the end
of the log as it is then, by auto.offset.reset: under `latest` it may pass over records that exist. Where it is
not known how consumers reset, or how far the cleaner had gone, such a skip makes the verdict unknown. Where it is on
record from what offset an assigned consumer was to begin, it must have begun there: checker.kernels.consumer_starts.
Where the settings are not known and nobody looked at the log start, that offset may have been deleted before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.kernels import consumer_starts
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.compaction import cleaned
from checker.kernels.final_rereads import standing
from checker.kernels.retention import unseen_deletions
from checker.kernels.steps_between_values import Steps, between, inside, joined, kept
from checker.kernels.subscriptions import subscriptions
from checker.tables.packing import Bools, Ints


@dataclass(frozen=True, slots=True)
class Judged:
    """What is left of some steps: those that nothing excuses, and those that something may excuse."""

    bad: Steps
    unsure: Steps


def _stood(bucket: Bucket, steps: Steps) -> Bools:
    """Per step: something that it passed over was still there when the log was read once more, later."""
    read, since = bucket.once(standing)
    orders = bucket.versions
    slot_read = np.zeros(len(orders.slot_offset), np.bool_)
    slot_read[orders.entry_slot[read[orders.entry_pair]]] = True
    before = np.concatenate([[0], np.cumsum(slot_read)])
    after = orders.index[np.maximum(steps.b, 0)]
    result: Bools = (before[after] > before[steps.place + 1]) & (steps.op_b < since[steps.key])
    return result


def _next_offsets(bucket: Bucket, steps: Steps) -> Ints:
    """The offset that each step would have read next."""
    result: Ints = bucket.versions.slot_offset[steps.place] + 1
    return result


def _judged(bucket: Bucket, steps: Steps, position: Ints | None = None) -> Judged:
    """Steps without the skips of which everything passed over was deleted (native rules).

    `position`: where each began, if that is not behind the record of the step before.
    """
    nobody = steps.where(np.zeros(len(steps.delta), np.bool_))
    if bucket.options.jepsen_compatible or len(steps.delta) == 0:
        return Judged(steps, nobody)
    skips = steps.delta > 1
    orders, keys, ends = bucket.versions, bucket.data.keys, bucket.ends
    last_skipped = orders.slot_offset[np.maximum(orders.index[np.maximum(steps.b, 0)] - 1, 0)]
    log_start, _, _ = ends.of(keys)
    gone = log_start[steps.key]
    legal = last_skipped < gone
    unsure = last_skipped < ends.at(keys, ends.maybe_gone, 0)[steps.key]
    compaction = bucket.once(cleaned)
    if compaction is not None:
        since = steps.op_b > compaction.since
        gone = np.maximum(gone, np.where(since, compaction.upto[steps.key], 0))
        legal |= last_skipped < gone
        unsure |= since & ~compaction.known[steps.key]
    unseen = np.zeros(len(keys), np.bool_)
    unseen[bucket.data.pair_key[bucket.once(unseen_deletions)]] = True
    unsure |= unseen[steps.key]
    excusable = skips & (legal | unsure)
    if bool(excusable.any()):
        stood = _stood(bucket, steps)
        legal &= ~stood
        unsure &= ~stood
    fell_out = (_next_offsets(bucket, steps) if position is None else position) < log_start[steps.key]
    if bucket.options.settings.auto_offset_reset == "latest":
        legal |= fell_out
    elif bucket.options.settings.auto_offset_reset is None:
        unsure |= fell_out
        if position is not None:
            unsure |= ~np.isin(keys, bucket.small.ends.column("key").to_numpy())[steps.key]
    return Judged(steps.where(~(skips & (legal | unsure))), steps.where(skips & unsure & ~legal))


def _inside(bucket: Bucket) -> Judged:
    found = _judged(bucket, inside(bucket, bucket.polls))
    if bucket.small.rebalances.num_rows == 0:
        return found
    subscribed = subscriptions(bucket)

    def steady(steps: Steps) -> Steps:
        if len(steps.delta) == 0:
            return steps
        return steps.where(~subscribed.rebalanced(steps.process, steps.key, steps.op_b, steps.op_b))

    return Judged(steady(found.bad), steady(found.unsure))


def _between(bucket: Bucket) -> Judged:
    nothing = bucket.data.nothing if bucket.options.jepsen_compatible else bucket.data.nothing.where(slice(0, 0))
    found = _judged(bucket, between(bucket, bucket.polls, nothing, any_type=False))
    native = not bucket.options.jepsen_compatible
    if len(found.bad.delta) + len(found.unsure.delta) == 0 and not (native and bucket.small.commits.num_rows):
        return found
    subscribed = subscriptions(bucket)

    def steady(steps: Steps) -> Steps:
        if len(steps.delta) == 0:
            return steps
        steps = kept(steps, subscribed)
        if not native:
            return steps
        steps = steps.where(~subscribed.reset(steps.process, steps.op_a, steps.op_b))
        return steps.where(~subscribed.rebalanced(steps.process, steps.key, steps.op_a, steps.op_b))

    found = Judged(steady(found.bad), steady(found.unsure))
    if not native:
        return found
    begun, committed = consumer_starts.steps(bucket, subscribed)
    if len(begun.delta) == 0:
        return found
    begun_judged = _judged(bucket, begun, committed)
    return Judged(joined(found.bad, begun_judged.bad), joined(found.unsure, begun_judged.unsure))


def inside_op(bucket: Bucket) -> Steps:
    """Steps within ops, of keys that were not rebalanced in the op."""
    return bucket.once(_inside).bad


def between_ops(bucket: Bucket) -> Steps:
    """Steps between ops of a process."""
    return bucket.once(_between).bad


def unsure_skips(bucket: Bucket) -> Ints:
    """Key ranks of skips of what may have been deleted: one each."""
    return np.concatenate([bucket.once(_inside).unsure.key, bucket.once(_between).unsure.key])
