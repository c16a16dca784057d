"""Log divergence: a step had one result in the log model and a different one on the brokers.

Witness {over, seen, step, actions, program, said}, found by checker.checks.log_model.
"""

from __future__ import annotations

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, Guarantee
from checker.anomalies.prose import Phrases, Witness
from harness.model.values_as_text import joined, many


def prose(witness: Witness, phrases: Phrases) -> str:
    return joined(
        f"step {witness['step']}, {witness['over']}: {witness['seen']}",
        f"{many(witness['actions'], 'action')} in {witness['program']} ({witness['said']})",
    )


ANOMALY = Anomaly(
    name="log-divergence",
    summary="A broker's log behaved differently from the log model.",
    source="Kafka documentation: Design, 4.6 to 4.9, and Implementation, Log, as an executable model",
    kind="log",
    prose=prose,
    guarantee=Guarantee((), "the log model contains only rules that apply to every log", f"{DOCUMENTED}: Design"),
)
