"""Log divergence: a step of the log model, done to a topic of brokers as well, came out otherwise there.

Witness {over, seen, step, actions, program, said}: checker.checks.log_model.
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
    summary="A broker's log does not do what the log model says.",
    source="Kafka documentation: Design, 4.6 to 4.9, and Implementation, Log, as rules that run",
    kind="log",
    prose=prose,
    guarantee=Guarantee((), "the log model has only rules that hold for every log", f"{DOCUMENTED}: Design"),
)
