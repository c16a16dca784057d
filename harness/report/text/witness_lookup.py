"""Finds the witnesses of a judged run by anomaly and number. For example, G1a#3 is the third witness of G1a.

The few worst witnesses have the first numbers; they are in results.json. The others follow in the order in which they
are stored in results/witnesses/<name>.parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from harness.model.check_result import AnomalyFound, Result
from harness.model.errors_and_exit_codes import BadInput

BATCH: Final = 4096
# Anomalies with one combined witness in results.json, whose Parquet file has one row per key.
JOINED: Final = frozenset({"unseen"})


@dataclass(frozen=True, slots=True)
class NamedWitness:
    """A witness as a user names it: by its anomaly, and by its number among the anomaly's witnesses, from 1."""

    name: str
    number: int


def named_witness(text: str) -> NamedWitness:
    """Parses the name of a witness, such as G1c#3. The name of an anomaly stands for its first witness.

    Raises BadInput if the number is malformed.
    """
    name, mark, number = text.partition("#")
    if mark and not (number.isascii() and number.isdigit() and int(number) > 0):
        raise BadInput(f"{text}: must be an anomaly and a number, counted from 1, such as {name or 'G1a'}#3")
    return NamedWitness(name, int(number) if mark else 1)


def anomaly(result: Result, name: str) -> AnomalyFound:
    """Returns the anomaly with this name, ignoring case.

    Raises BadInput if there is none; the message lists the run's anomalies.
    """
    for found in result.anomalies:
        if found.name.lower() == name.lower():
            return found
    names = ", ".join(found.name for found in result.anomalies)
    raise BadInput(f"{name}: not among the anomalies of this run ({names or 'none'})")


def numbered(run: Path, found: AnomalyFound) -> Iterator[Mapping[str, Any]]:
    """Yields all witnesses of an anomaly in the order of their numbers."""
    yield from found.witnesses
    if found.name in JOINED or len(found.witnesses) >= found.count:
        return
    listed = {_canonical(witness) for witness in found.witnesses}
    for witness in stored(run, found.name):
        if _canonical(witness) not in listed:
            yield witness


def stored(run: Path, name: str) -> Iterator[Mapping[str, Any]]:
    """Yields the witnesses of an anomaly that are stored in results/witnesses/.

    Yields nothing if the file is missing. Ends early if the file is damaged.
    """
    path = run / "results" / "witnesses" / f"{name}.parquet"
    if not path.is_file():
        return
    try:
        for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=["witness"]):
            for text in batch.column(0).to_pylist():
                witness = orjson.loads(text)
                if isinstance(witness, dict):
                    yield witness
    except (OSError, ValueError, KeyError, pa.ArrowException):  # damaged: keep the witnesses read so far
        return


def one(run: Path, found: AnomalyFound, number: int) -> Mapping[str, Any]:
    """Returns the witness with this number, from 1. Raises BadInput if the anomaly has fewer witnesses."""
    last = 0
    for last, witness in enumerate(numbered(run, found), 1):
        if last == number:
            return witness
    if not last:
        raise BadInput(f"{found.name}: this anomaly has no witnesses, only a summary: {found.summary}")
    raise BadInput(f"{found.name}#{number}: no such witness; choose a number from 1 to {last:,}")


def _canonical(witness: Mapping[str, Any]) -> bytes:
    return orjson.dumps(witness, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
