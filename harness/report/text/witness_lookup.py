"""The witnesses of a judged run by name and number: G1a#3 is the third of G1a.

The worst few stand in results.json and have the first numbers; the others follow in the order of
results/witnesses/<name>.parquet, which is read a batch at a time.
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
# Their witnesses in results.json join what the file has one by one (per key).
JOINED: Final = frozenset({"unseen"})


@dataclass(frozen=True, slots=True)
class NamedWitness:
    """An anomaly as a user names it; number counts from 1."""

    name: str
    number: int


def named_witness(text: str) -> NamedWitness:
    """G1c or G1c#3. Raises BadInput."""
    name, mark, number = text.partition("#")
    if mark and not (number.isascii() and number.isdigit() and int(number) > 0):
        raise BadInput(f"{text}: an anomaly and a number from 1, as in {name or 'G1a'}#3")
    return NamedWitness(name, int(number) if mark else 1)


def anomaly(result: Result, name: str) -> AnomalyFound:
    """What was found under a name, in any case of letters. Raises BadInput with the names that there are."""
    for found in result.anomalies:
        if found.name.lower() == name.lower():
            return found
    names = ", ".join(found.name for found in result.anomalies)
    raise BadInput(f"{name}: not among what was found ({names or 'nothing was'})")


def numbered(run: Path, found: AnomalyFound) -> Iterator[Mapping[str, Any]]:
    """All witnesses of an anomaly, in the order of their numbers."""
    yield from found.witnesses
    if found.name in JOINED or len(found.witnesses) >= found.count:
        return
    listed = {_canonical(witness) for witness in found.witnesses}
    for witness in stored(run, found.name):
        if _canonical(witness) not in listed:
            yield witness


def stored(run: Path, name: str) -> Iterator[Mapping[str, Any]]:
    """The witnesses of a file of results/witnesses/, streamed; none where it is missing or damaged."""
    path = run / "results" / "witnesses" / f"{name}.parquet"
    if not path.is_file():
        return
    try:
        for batch in pq.ParquetFile(path).iter_batches(BATCH, columns=["witness"]):
            for text in batch.column(0).to_pylist():
                witness = orjson.loads(text)
                if isinstance(witness, dict):
                    yield witness
    except (OSError, ValueError, KeyError, pa.ArrowException):  # damaged: what has been read stands
        return


def one(run: Path, found: AnomalyFound, number: int) -> Mapping[str, Any]:
    """The witness of a number. Raises BadInput when there are not as many."""
    last = 0
    for last, witness in enumerate(numbered(run, found), 1):
        if last == number:
            return witness
    if not last:
        raise BadInput(f"{found.name}: its summary says all; it has no witness to show")
    raise BadInput(f"{found.name}#{number}: there are {last:,} to show; give a number from 1 to {last:,}")


def _canonical(witness: Mapping[str, Any]) -> bytes:
    return orjson.dumps(witness, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
