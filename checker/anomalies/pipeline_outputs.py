"""What the checks of a pipeline look for, by name; which modes promise that it does not happen.

Modes: "exactly-once" and "files" commit offsets and outputs (or references to files) in one transaction,
"at-least-once" commits after the outputs, "at-most-once" before them, "auto-commit" leaves it to a timer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ONCE: Final = frozenset({"exactly-once", "files"})
LEAST: Final = ONCE | {"at-least-once"}
MOST: Final = ONCE | {"at-most-once"}
BY_HAND: Final = LEAST | MOST
MODES: Final = BY_HAND | {"auto-commit"}
AGGREGATE: Final = "aggregate"

KIP_98: Final = "KIP-98, transactions with consumer offsets in them"
KIP_447: Final = "KIP-447, fencing by the group's generation"
SEMANTICS: Final = "Kafka documentation, message delivery semantics"
CONSUMER: Final = "Kafka documentation, KafkaConsumer: offsets and consumer position"


@dataclass(frozen=True, slots=True)
class PipelineAnomaly:
    """One row of the analyses of a pipeline.

    summary  one sentence on what it means
    source   where the rule comes from
    modes    the modes that promise that it does not happen
    always   whether it counts against the verdict in the other modes, too
    """

    summary: str
    source: str
    modes: frozenset[str]
    always: bool = True


OUTPUTS: Final[Mapping[str, PipelineAnomaly]] = {
    "missing-output": PipelineAnomaly("An input record whose offset was committed lacks an output.", SEMANTICS, LEAST),
    "duplicate-output": PipelineAnomaly(
        "An output of one input record stands more than once in the output.", SEMANTICS, MOST
    ),
    "reordered-output": PipelineAnomaly("The outputs of a key do not stand in the order of its input.", KIP_98, ONCE),
    "aborted-output": PipelineAnomaly(
        "A reader of committed records was shown an output of a transaction that was aborted.", KIP_98, ONCE
    ),
    "phantom-output": PipelineAnomaly("An output was made of a record that is not in the input.", SEMANTICS, MODES),
    "wrong-output": PipelineAnomaly(
        "An output is not one that the transform makes of its input record.", SEMANTICS, ONCE
    ),
    "uncommitted-output": PipelineAnomaly(
        "An output is shown, and the offset of its input record was never committed.", KIP_98, ONCE
    ),
    "lost-input": PipelineAnomaly(
        "A record that the brokers acknowledged to its writer is not in the input.", SEMANTICS, MODES
    ),
    "phantom-input": PipelineAnomaly(
        "A record stands in the input that no writer sent, or that its writer was told had failed.",
        SEMANTICS,
        MODES,
    ),
}

OFFSETS: Final[Mapping[str, PipelineAnomaly]] = {
    "offset-gap": PipelineAnomaly("Reading began, or went on, past where it should.", CONSUMER, MODES),
    "offset-reset": PipelineAnomaly("Reading began before what the group had committed.", CONSUMER, MODES),
    "position-back": PipelineAnomaly(
        "A position went back without a reassignment or an abort.", CONSUMER, BY_HAND, always=False
    ),
    "work-unowned": PipelineAnomaly("An instance worked on a partition after it was revoked or lost.", CONSUMER, MODES),
    "work-unassigned": PipelineAnomaly(
        "An instance worked on a partition that it was never assigned.", CONSUMER, MODES
    ),
    "work-skipped": PipelineAnomaly(
        "Records that were read were passed over: what was produced began past them.",
        SEMANTICS,
        LEAST,
        always=False,
    ),
    "work-repeated": PipelineAnomaly("Records were produced again without an abort.", KIP_98, ONCE, always=False),
    "commit-unprocessed": PipelineAnomaly(
        "An offset was committed for records that were not produced yet.", SEMANTICS, LEAST, always=False
    ),
    "commit-unowned": PipelineAnomaly(
        "An offset was committed after the partition was revoked or lost.", KIP_447, BY_HAND, always=False
    ),
    "commit-back": PipelineAnomaly("The committed offset went back.", KIP_447, BY_HAND, always=False),
    "stale-generation": PipelineAnomaly(
        "An offset was committed in an older generation than its instance had been told.", KIP_447, MODES
    ),
    "two-owners": PipelineAnomaly(
        "An offset was committed by an instance whose partition had gone on to another.", KIP_447, MODES
    ),
}

ANOMALIES: Final[Mapping[str, PipelineAnomaly]] = {**OUTPUTS, **OFFSETS}


def promised(name: str, mode: str, transform: str = "") -> bool:
    """Whether a mode promises that an anomaly does not happen.

    What a transform without memory makes of a record does not depend on the mode; a count does.
    """
    if name == "wrong-output" and transform not in ("", AGGREGATE):
        return True
    return mode in ANOMALIES[name].modes


def bad(name: str, mode: str) -> bool:
    """Whether an anomaly counts against the verdict."""
    return ANOMALIES[name].always or mode in ANOMALIES[name].modes
