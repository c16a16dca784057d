"""The steps of consumers through the log that nothing excuses: what the four poll anomalies share.

Jepsen's rules: within an op, keys in the op's rebalance log are excused; between ops, an assign or subscribe
that leaves the key out makes the process forget its place. Native rules forget it also at a seek to the
beginning and at a change between assign and subscribe, and excuse a key that was rebalanced in between, and
skips of what was deleted: below the log start (which makes the verdict unknown where nothing explains it:
checker.kernels.log_starts_and_ends), or under compaction. Where it is on record from what offset an assigned consumer
was to begin, it must have begun there: checker.kernels.consumer_starts.
"""

from __future__ import annotations

import numpy as np

from checker.kernels import consumer_starts
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.deltas import Steps, between, inside, joined, kept
from checker.kernels.subscriptions import subscriptions


def _over_what_exists(bucket: Bucket, steps: Steps) -> Steps:
    """Without the skips of which everything passed over was deleted (native rules)."""
    if bucket.options.jepsen_compatible or len(steps.delta) == 0:
        return steps
    skips = steps.delta > 1
    if "compact" in (bucket.options.settings.cleanup_policy or ""):
        return steps.where(~skips)
    orders = bucket.versions
    last_skipped = orders.slot_offset[np.maximum(orders.index[np.maximum(steps.b, 0)] - 1, 0)]
    log_start, _, _ = bucket.ends.of(bucket.data.keys)
    return steps.where(~(skips & (last_skipped < log_start[steps.key])))


def inside_op(bucket: Bucket) -> Steps:
    """Steps within ops, of keys that were not rebalanced in the op."""
    steps = _over_what_exists(bucket, inside(bucket, bucket.polls))
    if len(steps.delta) == 0 or bucket.small.rebalances.num_rows == 0:
        return steps
    subscribed = subscriptions(bucket)
    return steps.where(~subscribed.rebalanced(steps.process, steps.key, steps.op_b, steps.op_b))


def between_ops(bucket: Bucket) -> Steps:
    """Steps between ops of a process."""
    nothing = bucket.data.nothing if bucket.options.jepsen_compatible else bucket.data.nothing.where(slice(0, 0))
    steps = _over_what_exists(bucket, between(bucket, bucket.polls, nothing, any_type=False))
    native = not bucket.options.jepsen_compatible
    if len(steps.delta) == 0 and not (native and bucket.small.commits.num_rows):
        return steps
    subscribed = subscriptions(bucket)
    steps = kept(steps, subscribed)
    if not native:
        return steps
    steps = steps.where(~subscribed.reset(steps.process, steps.op_a, steps.op_b))
    steps = steps.where(~subscribed.rebalanced(steps.process, steps.key, steps.op_a, steps.op_b))
    begun = consumer_starts.steps(bucket, subscribed)
    return joined(steps, _over_what_exists(bucket, begun)) if len(begun.delta) else steps
