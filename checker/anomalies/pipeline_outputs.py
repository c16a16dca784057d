"""What the check of a pipeline's outputs looks for: see checker.pipeline.outputs.

What its writers were promised is not the pipeline's to keep: `lost-input` and `phantom-input` hang on their
settings, the others on those of the pipeline itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import WRITTEN
from checker.anomalies.pipeline_modes import (
    CARRIED,
    KIP_98,
    LEAST,
    MODES,
    MOST,
    ONCE,
    ONE_COPY,
    SEMANTICS,
    SENT,
    WHOLE,
    Modes,
)
from checker.anomalies.pipeline_prose import EVENTS_SHOWN, events_around, record_of, who
from checker.anomalies.prose import Phrases, Witness
from harness.model.values_as_text import joined, many


def prose(witness: Witness, phrases: Phrases) -> str:
    """An anomaly of an output or of an input record."""
    number = f", output {witness['n']}" if witness.get("n") is not None else ""
    head = f"input {record_of(witness) or 'unknown'} (id {witness['id']}, key {witness['key']}){number}"
    counts = f"{many(witness['copies'], 'copy').replace('copys', 'copies')}, {witness['expected']} expected"
    copies = _copies(witness)
    last = "" if copies else f"the last to deal with it was {who(witness)}"
    if witness.get("instance") is None:
        last = ""
    return joined(f"{head}: {counts}", copies, last, events_around(witness))


def _copies(witness: Witness) -> str:
    outputs: Sequence[Witness] = witness.get("outputs") or ()
    copies = []
    for output in outputs[:EVENTS_SHOWN]:
        copies.append(f"at {output['topic']}-{output['partition']} offset {output['offset']} by {who(output)}")
    return "; ".join(copies)


OF_WRITERS: Final = frozenset({"lost-input", "phantom-input"})
OUTPUTS: Final[dict[str, Anomaly]] = {
    anomaly.name: anomaly
    for anomaly in (
        Anomaly(
            name="missing-output",
            summary="An input record whose offset was committed lacks an output.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=WHOLE,
            modes=Modes(LEAST),
        ),
        Anomaly(
            name="duplicate-output",
            summary="An output of one input record stands more than once in the output.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=ONE_COPY,
            modes=Modes(MOST),
        ),
        Anomaly(
            name="reordered-output",
            summary="The outputs of a key do not stand in the order of its input.",
            source=KIP_98,
            kind="output",
            prose=prose,
            guarantee=ONE_COPY,
            modes=Modes(ONCE),
        ),
        Anomaly(
            name="aborted-output",
            summary="A reader of committed records was shown an output of a transaction that was aborted.",
            source=KIP_98,
            kind="output",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(ONCE),
        ),
        Anomaly(
            name="phantom-output",
            summary="An output was made of a record that is not in the input.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=WHOLE,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="wrong-output",
            summary="An output is not one that the transform makes of its input record.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(ONCE, of_memory=True),
        ),
        Anomaly(
            name="uncommitted-output",
            summary="An output is shown, and the offset of its input record was never committed.",
            source=KIP_98,
            kind="output",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(ONCE),
        ),
        Anomaly(
            name="lost-input",
            summary="A record that the brokers acknowledged to its writer is not in the input.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=WRITTEN,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="phantom-input",
            summary="A record stands in the input that no writer sent, or that its writer was told had failed.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=SENT,
            modes=Modes(MODES),
        ),
    )
}
