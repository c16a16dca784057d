"""Describes one witness in sentences: which processes wrote and read the records, the offsets, the active faults.

The catalogue of anomalies contains a function for each anomaly; one function describes all cycles. For an anomaly
that the catalogue does not contain, the fields of the witness are listed. Without a lookup (for a history file, which
has no tables), the sentences name operations only by their ids.
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
