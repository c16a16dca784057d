"""Describes one witness in sentences: which processes wrote and read the records, the offsets, the active faults.

The catalogue contains a function for each anomaly, and one function describes all cycles. The witness of an
unknown anomaly is shown as its fields. Without a lookup (a history file without tables), operations are named by
their index only.
"""

from __future__ import annotations

from checker.anomalies import cycle_prose
from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.prose import Prose, Witness, fields
from harness.report.text.phrases import OpPhrases
from harness.stored.operations_and_records import Facts


def witness_text(anomaly: str, witness: Witness, lookup: Facts | None) -> str:
    """Describes a witness in prose."""
    phrases = OpPhrases(lookup)
    try:
        return _prose(anomaly, witness)(witness, phrases)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, OSError):
        # A witness of another version, or unreadable tables: show the fields of the witness.
        return fields(witness, phrases)


def _prose(anomaly: str, witness: Witness) -> Prose:
    if cycle_prose.is_cycle(witness):
        return cycle_prose.prose
    return CATALOGUE[anomaly].prose if anomaly in CATALOGUE else fields
