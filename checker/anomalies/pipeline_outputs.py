"""The anomalies in a pipeline's outputs and inputs. `checker.pipeline.outputs` finds them.

Whether `lost-input` and `phantom-input` are ruled out depends on the settings of the producers that write the input.
The other anomalies depend on the settings of the pipeline.
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
    """Describes an anomaly of an output or of an input record."""
    number = f", output {witness['n']}" if witness.get("n") is not None else ""
    head = f"input {record_of(witness) or 'unknown'} (id {witness['id']}, key {witness['key']}){number}"
    counts = f"{many(witness['copies'], 'copy').replace('copys', 'copies')}, {witness['expected']} expected"
    copies = _copies(witness)
    last = "" if copies else f"it was last processed by {who(witness)}"
    if witness.get("instance") is None:
        last = ""
    return joined(f"{head}: {counts}", copies, last, events_around(witness))


def prose_of_state(witness: Witness, phrases: Phrases) -> str:
    """Describes a wrong state in an output of an application."""
    head = f"input {record_of(witness) or 'unknown'} (id {witness['id']}, key {witness['key']})"
    outputs: Sequence[Witness] = witness.get("outputs") or ()
    where = "".join(f" at {each['topic']}-{each['partition']} offset {each['offset']}" for each in outputs[:1])
    states = f"its output{where} shows the state {witness['found']}, {witness['expected']} expected"
    return joined(f"{head}: {states}", events_around(witness))


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
            summary="An output is missing for an input record whose offset was committed.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=WHOLE,
            modes=Modes(LEAST),
        ),
        Anomaly(
            name="duplicate-output",
            summary="The same output of an input record is in the output topic more than once.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=ONE_COPY,
            modes=Modes(MOST),
        ),
        Anomaly(
            name="reordered-output",
            summary="The outputs of a key are not in the order of its input records.",
            source=KIP_98,
            kind="output",
            prose=prose,
            guarantee=ONE_COPY,
            modes=Modes(ONCE),
        ),
        Anomaly(
            name="aborted-output",
            summary="A read_committed consumer read an output of an aborted transaction.",
            source=KIP_98,
            kind="output",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(ONCE),
        ),
        Anomaly(
            name="phantom-output",
            summary="An output refers to a record that is not in the input.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=WHOLE,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="wrong-output",
            summary="An output is not the result of the transform for its input record.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(ONCE, of_memory=True),
        ),
        Anomaly(
            name="uncommitted-output",
            summary="An output is visible although the offset of its input record was never committed.",
            source=KIP_98,
            kind="output",
            prose=prose,
            guarantee=CARRIED,
            modes=Modes(ONCE),
        ),
        Anomaly(
            name="lost-update",
            summary="The state that an output shows lacks an update by an input record of its key.",
            source=SEMANTICS,
            kind="output",
            prose=prose_of_state,
            guarantee=WHOLE,
            modes=Modes(LEAST),
        ),
        Anomaly(
            name="doubled-update",
            summary="The state that an output shows contains an update by an input record of its key more than once.",
            source=SEMANTICS,
            kind="output",
            prose=prose_of_state,
            guarantee=ONE_COPY,
            modes=Modes(MOST),
        ),
        Anomaly(
            name="lost-input",
            summary="A record that was acknowledged to its producer is not in the input topic.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=WRITTEN,
            modes=Modes(MODES),
        ),
        Anomaly(
            name="phantom-input",
            summary="The input topic has a record that no producer sent, or whose send failed.",
            source=SEMANTICS,
            kind="output",
            prose=prose,
            guarantee=SENT,
            modes=Modes(MODES),
        ),
    )
}
