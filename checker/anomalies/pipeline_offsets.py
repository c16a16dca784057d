"""The anomalies in a pipeline's positions and commits. `checker.pipeline.offset_machine` finds them."""

from __future__ import annotations

from typing import Final

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.pipeline_modes import (
    BY_HAND,
    CARRIED,
    CONSUMER,
    KIP_98,
    KIP_447,
    LEAST,
    MODES,
    ONCE,
    SEMANTICS,
    WHOLE,
    Modes,
)
from checker.anomalies.pipeline_prose import at, events_around, record_of, who
from checker.anomalies.prose import Phrases, Witness
from harness.model.values_as_text import joined


def prose(witness: Witness, phrases: Phrases) -> str:
    """Describes a finding of the offset state machine."""
    first, until = witness.get("first"), witness.get("until")
    offsets = "" if first is None else f" offset {first}"
    if first is not None and until is not None and until - first > 1:
        offsets = f" offsets {first} to {until - 1}"
    head = f"partition {record_of(witness)}{offsets}: {witness['said']}"
    return joined(head, f"{who(witness)} at {at(witness['time_ns'])}", events_around(witness))


OFFSETS: Final[dict[str, Anomaly]] = {
    anomaly.name: anomaly
    for anomaly in (
        Anomaly(
            name="offset-gap",
            summary="A consumer started or continued reading at a higher offset than it should have.",
            source=CONSUMER,
            kind="offset",
            prose=prose,
            guarantee=WHOLE,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="offset-reset",
            summary="A consumer started reading before the group's committed offset.",
            source=CONSUMER,
            kind="offset",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="position-back",
            summary="A consumer's position went back without a reassignment or an aborted transaction.",
            source=CONSUMER,
            kind="offset",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(BY_HAND, always_bad=False),
        ),
        Anomaly(
            name="work-unowned",
            summary="An instance worked on a partition after it was revoked or lost.",
            source=CONSUMER,
            kind="offset",
            prose=prose,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="work-unassigned",
            summary="An instance worked on a partition that it was never assigned.",
            source=CONSUMER,
            kind="offset",
            prose=prose,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="work-skipped",
            summary="Records that were read were not processed: outputs were produced only for later records.",
            source=SEMANTICS,
            kind="offset",
            prose=prose,
            guarantee=WHOLE,
            modes=Modes(LEAST, always_bad=False),
        ),
        Anomaly(
            name="work-repeated",
            summary="Outputs of the same records were produced again without an aborted transaction.",
            source=KIP_98,
            kind="offset",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(ONCE, always_bad=False),
        ),
        Anomaly(
            name="commit-unprocessed",
            summary="An offset was committed for records whose outputs had not been produced yet.",
            source=SEMANTICS,
            kind="offset",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(LEAST, always_bad=False),
        ),
        Anomaly(
            name="commit-unowned",
            summary="An offset was committed after the partition was revoked or lost.",
            source=KIP_447,
            kind="offset",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(BY_HAND, always_bad=False),
        ),
        Anomaly(
            name="commit-back",
            summary="The group's committed offset went back.",
            source=KIP_447,
            kind="offset",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(BY_HAND, always_bad=False),
        ),
        Anomaly(
            name="stale-generation",
            summary="An instance committed an offset in an older generation than its latest one.",
            source=KIP_447,
            kind="offset",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="two-owners",
            summary="An instance committed an offset for a partition that had already moved to another instance.",
            source=KIP_447,
            kind="offset",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(MODES),
        ),
    )
}
