"""One witness of an anomaly as sentences: who wrote it, who read it, at which offset, what fault was on.

The catalogue has the prose of each anomaly, and cycles have one for all; an anomaly that it lacks is shown as its
fields. Without a lookup (a history file without tables) ops are named by their index alone.
"""

from __future__ import annotations

from checker.anomalies import cycle_prose
from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.prose import Prose, Witness, fields
from harness.report.text.phrases import Teller
from harness.stored.operations_and_records import Facts


def witness_text(anomaly: str, witness: Witness, lookup: Facts | None) -> str:
    """A witness in prose."""
    phrases = Teller(lookup)
    try:
        return _prose(anomaly, witness)(witness, phrases)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, OSError):
        # A witness of another version, or tables that cannot be read: its fields speak for themselves.
        return fields(witness, phrases)


def _prose(anomaly: str, witness: Witness) -> Prose:
    if cycle_prose.is_cycle(witness):
        return cycle_prose.prose
    return CATALOGUE[anomaly].prose if anomaly in CATALOGUE else fields
