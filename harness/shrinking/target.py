"""Determines what a reduced history must show: one witness of the original history, and nothing that is not in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result
from harness.model.errors_and_exit_codes import BadInput
from harness.report.text import involved_ops, witness_lookup
from harness.shrinking import find_witness
from harness.shrinking.find_witness import Target, Witness
from harness.shrinking.sub_history import Name, Whole, load, name
from harness.stored import operations_and_records
from harness.stored.op_log import OpLog


@dataclass(frozen=True, slots=True)
class Chosen:
    """A witness that was chosen to be shown, with its anomaly and its number, from 1."""

    anomaly: AnomalyFound
    number: int
    witness: Witness


def choose(run: Path, result: Result, requested: str | None) -> Chosen:
    """Returns the witness that the user names, such as G1a#3.

    If the user names only an anomaly, returns its first witness (for a bad anomaly of cycles, the first cycle that
    counts against the verdict). If the user names nothing, does the same for the most severe anomaly. Raises BadInput
    if there is no such witness.
    """
    if requested is None:
        bad = [anomaly for anomaly in result.anomalies if anomaly.bad] or list(result.anomalies)
        if not bad:
            raise BadInput(f"{run}: no anomaly was found in it, so there is nothing to shrink")
        wanted = witness_lookup.NamedWitness(bad[0].name, 1)
    else:
        wanted = witness_lookup.named_witness(requested)
    anomaly = witness_lookup.anomaly(result, wanted.name)
    if anomaly.name == find_witness.UNSEEN:
        return Chosen(anomaly, wanted.number, _unseen(run, anomaly, wanted.number))
    number = wanted.number
    if "#" not in (requested or "") and find_witness.is_cycle(anomaly.name) and anomaly.bad:
        number = _first_forbidden(run, anomaly)
    return Chosen(anomaly, number, witness_lookup.one(run, anomaly, number))


def _first_forbidden(run: Path, anomaly: AnomalyFound) -> int:
    """Returns the number of the first cycle that counts against the verdict; 1 if there is none."""
    numbered = enumerate(witness_lookup.numbered(run, anomaly), 1)
    return next((number for number, witness in numbered if witness.get("forbidden")), 1)


def _unseen(run: Path, anomaly: AnomalyFound, number: int) -> Witness:
    """Returns a witness with one record: the first unseen record of the `number`-th key with unseen records.

    Keys whose logs were read to their ends come first. Raises BadInput if there are fewer keys.
    """
    rows = sorted(_rows(run, anomaly), key=lambda row: not row.get("complete"))
    if number > len(rows):
        raise BadInput(f"unseen#{number}: only {len(rows)} keys have unseen records")
    return {**rows[number - 1], "messages": rows[number - 1]["messages"][:1]}


def _rows(run: Path, anomaly: AnomalyFound) -> list[dict[str, Any]]:
    """Returns the witnesses of `unseen`, one for each key, in the format in which the checker's kernel returns them."""
    rows = [dict(row) for row in witness_lookup.stored(run, anomaly.name) if row.get("messages")]
    if rows or not anomaly.witnesses:
        return rows
    witness = anomaly.witnesses[0]
    read = witness.get("read_to_end") or ()
    return [
        {"key": involved_ops.key_of(key), "count": len(values), "messages": values, "complete": key in read}
        for key, values in (witness.get("messages") or {}).items()
        if values
    ]


def _witnesses(run: Path, anomaly: AnomalyFound) -> Iterator[Witness]:
    return iter(_rows(run, anomaly)) if anomaly.name == find_witness.UNSEEN else witness_lookup.numbered(run, anomaly)


def _known(run: Path, result: Result, keys: frozenset[Name]) -> Callable[[str], frozenset[str]]:
    """Returns a function: anomaly -> the identities that the original history shows for these keys.

    The function reads the identities of an anomaly at its first call.
    """
    by_name = {finding.name: finding for finding in result.anomalies}

    @cache
    def known(anomaly: str) -> frozenset[str]:
        finding = by_name.get(anomaly)
        return frozenset(
            claim
            for witness in (_witnesses(run, finding) if finding is not None else ())
            if "key" not in witness or not keys or name(witness["key"]) in keys
            for claim in find_witness.identities(anomaly, witness)
        )

    return known


def keys_of(run: Path, chosen: Chosen) -> frozenset[Name]:
    """Returns the keys that a witness is about; empty if it names none."""
    if chosen.anomaly.name == find_witness.UNSEEN:
        return frozenset({name(chosen.witness["key"])})
    about = involved_ops.of_witness(chosen.anomaly.name, chosen.witness, operations_and_records.of_run(run), OpLog(run))
    return frozenset(map(name, about.keys))


def aim(
    run: Path, result: Result, chosen: Chosen, keys: frozenset[Name], options: CheckOptions
) -> tuple[Whole, Target]:
    """Returns the original history and what a reduced history must show. Raises BadHistory.

    keys  restrict the history to these keys; empty: all keys
    """
    whole = load(run, keys or None)
    complete: frozenset[Name] = frozenset()
    if not find_witness.is_cycle(chosen.anomaly.name):
        ops = sorted((op for unit in whole.units for op in unit.ops), key=lambda op: op.index)
        complete = find_witness.complete(ops, options)
    claim = (
        ""
        if find_witness.is_cycle(chosen.anomaly.name)
        else next(find_witness.identities(chosen.anomaly.name, chosen.witness))
    )
    target = Target(chosen.anomaly.name, chosen.witness, claim, _known(run, result, keys), complete)
    return whole, target
