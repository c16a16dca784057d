"""The compacted workload: the ops of the queue workload on compacted topics, whose records have keys.

What can go wrong, in partition 0 with two record keys, k0 and k1:

    process 0  ok    txn   [["send", 0, [4, 2]]]       k0
    process 1  fail  txn   [["send", 0, [6, 4]]]       k0, aborted
    process 2  ok    poll  [["poll", [[0, [[2, 1]]]]]]   the final poll, of the whole log

Value 2 is the last committed value of k0. The cleaner removed it because of value 4, which was aborted and is removed
too: the key has lost its last value (`lost-write`).

A value's record key, and whether it is a tombstone, follow from the value (`harness.model.record_keys`). Segments are
rolled and cleaned within seconds. The cleaner may remove a record once a later one with its key is committed, and must
keep the last record of each key; tombstones too, because they are kept for `delete.retention.ms`, a day by default. It
must keep no aborted record visible (`g1a`). Source: Kafka documentation, Design, 4.8 Log Compaction; KIP-98.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.model.fault_and_generator_protocols import Workload
from workloads import queue

Options = queue.Options
CHECK: Final = "compacted"


def workload(options: Options) -> Workload:
    """Returns the compacted workload with these options."""
    made = queue.workload(options)
    return replace(made, name="compacted", checks=("queue", CHECK, "liveness"))
