"""Finds the steps of consumers through a log that have no legal explanation, for the four poll anomalies.

A step goes from one polled value of a key to the next (`checker.kernels.steps_between_values`). Under Jepsen's rules,
a step within an op is legal if the op's rebalance log contains the key, and a step between two ops is legal if the
process had an assign or subscribe in between that does not list the key.

Under the rules of this project (native rules), further steps are legal:

- A step is legal if the process sought to the beginning in between, or changed between assign and subscribe.
- A step is legal if the key was rebalanced in between.
- A step may skip deleted records: those below the log start, and those that the log cleaner may have removed. If
  nothing explains the log start, the verdict is unknown (checker.kernels.retention). If a consumer reread the log later
  and found a record, this record had not been deleted.
- A consumer whose position was deleted continues at the log start or at the end of the log, depending on
  auto.offset.reset. With `latest` it may skip existing records.
- If auto.offset.reset is unknown, or it is unknown how far the cleaner had cleaned, a skip that this could explain
  makes the verdict unknown.
- If the committed offset was recorded when a consumer was assigned a key, the consumer must have started there
  (checker.kernels.consumer_starts). If auto.offset.reset is unknown and the log start was never checked, the verdict is
  unknown, because the committed offset may already have been deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.kernels import consumer_starts
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.compaction import cleaned, replaced_by_record_key
from checker.kernels.final_rereads import found_on_reread
from checker.kernels.retention import unseen_deletions
from checker.kernels.steps_between_values import Steps, between, inside, joined, kept
from checker.kernels.subscriptions import subscriptions
from checker.tables.packing import Bools, Ints


@dataclass(frozen=True, slots=True)
class Judged:
    """The steps that have no legal explanation (`bad`), and those that may have one (`unsure`)."""

    bad: Steps
    unsure: Steps


def _still_present(bucket: Bucket, steps: Steps) -> Bools:
    """Returns, for each step, whether a consumer that reread the log later found a record that the step skipped."""
    read, since = bucket.once(found_on_reread)
    orders = bucket.versions
    slot_read = np.zeros(len(orders.slot_offset), np.bool_)
    slot_read[orders.entry_slot[read[orders.entry_pair]]] = True
    before = np.concatenate([[0], np.cumsum(slot_read)])
    after = orders.index[np.maximum(steps.b, 0)]
    result: Bools = (before[after] > before[steps.place + 1]) & (steps.op_b < since[steps.key])
    return result


def _next_offsets(bucket: Bucket, steps: Steps) -> Ints:
    """Returns, for each step, the offset at which the consumer should have continued."""
    result: Ints = bucket.versions.slot_offset[steps.place] + 1
    return result


def _judged(bucket: Bucket, steps: Steps, position: Ints | None = None) -> Judged:
    """Classifies steps. Legal steps are left out, for example those that skip only deleted records.

    `position` is the consumer's position before each step; None: the offset after the previous record. Under Jepsen's
    rules, all steps are bad.
    """
    no_steps = steps.where(np.zeros(len(steps.delta), np.bool_))
    if bucket.options.jepsen_compatible or len(steps.delta) == 0:
        return Judged(steps, no_steps)
    skips = steps.delta > 1
    orders, keys, ends = bucket.versions, bucket.data.keys, bucket.ends
    last_skipped = orders.slot_offset[np.maximum(orders.index[np.maximum(steps.b, 0)] - 1, 0)]
    log_start, _, _ = ends.of(keys)
    deleted_below = log_start[steps.key]
    legal = last_skipped < deleted_below
    unsure = last_skipped < ends.at(keys, ends.maybe_gone, 0)[steps.key]
    compaction = bucket.once(cleaned)
    if compaction is not None and bucket.options.settings.record_keys:
        legal |= ~_skips_last(bucket, steps)
    elif compaction is not None:
        since = steps.op_b > compaction.since
        deleted_below = np.maximum(deleted_below, np.where(since, compaction.upto[steps.key], 0))
        legal |= last_skipped < deleted_below
        unsure |= since & ~compaction.known[steps.key]
    unseen = np.zeros(len(keys), np.bool_)
    unseen[bucket.data.pair_key[bucket.once(unseen_deletions)]] = True
    unsure |= unseen[steps.key]
    excusable = skips & (legal | unsure)
    if bool(excusable.any()):
        still_present = _still_present(bucket, steps)
        legal &= ~still_present
        unsure &= ~still_present
    fell_out = (_next_offsets(bucket, steps) if position is None else position) < log_start[steps.key]
    if bucket.options.settings.auto_offset_reset == "latest":
        legal |= fell_out
    elif bucket.options.settings.auto_offset_reset is None:
        unsure |= fell_out
        if position is not None:
            unsure |= ~np.isin(keys, bucket.small.ends.column("key").to_numpy())[steps.key]
    return Judged(steps.where(~(skips & (legal | unsure))), steps.where(skips & unsure & ~legal))


def _skips_last(bucket: Bucket, steps: Steps) -> Bools:
    """Returns, for each step, whether it skips a record that no later record with its key can have replaced."""
    orders = bucket.versions
    surely, perhaps = bucket.once(replaced_by_record_key)
    kept = np.zeros(len(orders.slot_offset) + 1, np.int64)
    np.add.at(kept, orders.last[(orders.last >= 0) & ~surely & ~perhaps] + 1, 1)
    before = np.cumsum(kept)
    result: Bools = before[np.maximum(orders.index[np.maximum(steps.b, 0)], 0)] > before[steps.place + 1]
    return result


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
    """Returns the steps within ops that have no legal explanation."""
    return bucket.once(_inside).bad


def between_ops(bucket: Bucket) -> Steps:
    """Returns the steps between ops of a process that have no legal explanation."""
    return bucket.once(_between).bad


def unsure_skips(bucket: Bucket) -> Ints:
    """Returns the key (its index in `Data.keys`) of each skip that may have a legal explanation."""
    return np.concatenate([bucket.once(_inside).unsure.key, bucket.once(_between).unsure.key])
