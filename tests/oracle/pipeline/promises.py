"""What a pipeline's mode promises not to happen, by settings and faults: a table with a source for each row.

True: forbidden. False: not forbidden. None: the documentation can be read both ways, or does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.oracle.case import Case
from tests.oracle.pipeline.case import MODES, ONCE, PipelineCase
from tests.oracle.promises import copies_kept, durable

# Kafka documentation, Design, Message Delivery Semantics: outputs before offsets, offsets before outputs, or both in
# one transaction (KIP-98, KIP-447). No order of the two makes up what was not consumed.
LEAST = (*ONCE, "at-least-once")
MOST = (*ONCE, "at-most-once")
MODES_THAT_PROMISE: Mapping[str, tuple[str, ...]] = {
    "missing-output": LEAST,
    "duplicate-output": MOST,
    "reordered-output": ONCE,
    "aborted-output": ONCE,
    "uncommitted-output": ONCE,
    "phantom-output": MODES,
    "wrong-output": MODES,
    "lost-input": MODES,
    "phantom-input": MODES,
}
# Kafka documentation, cleanup.policy, retention.ms, and DeleteRecords (KIP-107): what is gone on purpose.
REMOVING = ("config-change:compact", "config-change:retention", "delete-records:some")
OF_RECORDS_THAT_ARE_GONE = ("missing-output", "phantom-output", "lost-input")


def promises(case: PipelineCase) -> dict[str, bool]:
    """By anomaly: whether it was promised not to happen; without those that the documentation leaves open."""
    found = {name: _given(case, name) for name in MODES_THAT_PROMISE}
    return {name: given for name, given in found.items() if given is not None}


def _given(case: PipelineCase, name: str) -> bool | None:
    modes = MODES_THAT_PROMISE[name]
    if name == "wrong-output" and case.transform == "aggregate":
        modes = ONCE  # the count goes with the offsets, so it is right only where these go with the outputs
    if case.mode not in modes:
        return False
    if name in OF_RECORDS_THAT_ARE_GONE and set(REMOVING) & set(case.cluster.faults):
        return False
    if name == "lost-input":
        return durable(case.cluster)
    if name == "phantom-input":
        return copies_kept(case.cluster)
    return _all(copies_kept(case.cluster), copies_kept(_internal(case.cluster)))


def _internal(cluster: Case) -> Case:
    """__consumer_offsets and __transaction_state: three replicas of three brokers, two in sync at least."""
    faults = tuple(fault for fault in cluster.faults if fault != "config-change:min-isr-down")
    return replace(cluster, replication=3, min_isr=2, faults=faults)


def _all(*given: bool | None) -> bool | None:
    if False in given:
        return False
    return None if None in given else True
