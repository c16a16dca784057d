"""Describes one witness in sentences: who wrote and read the records, at which offsets, and during which faults.

For each anomaly, the catalogue of anomalies contains a function that writes these sentences; all cycles share one. For
an anomaly that is not in the catalogue, the fields of the witness are listed. Operations are looked up in the run's
tables. A history file has no tables, so its sentences name operations only by their ids.
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
