"""Computes at which moment of a run the history first proved an anomaly.

Most anomalies are proved by what clients have read: as soon as all ops that one of the witnesses names have ended. If
something is missing (a lost record, or part of a transaction), the proof needs the whole run. Until the last op of the
run, a client might still read what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from harness.model import op_json
from harness.model.errors_and_exit_codes import BadHistory
from harness.model.op import Op
from harness.report.text import witness_lookup
from harness.report.text.involved_ops import named_ops
from harness.stored.op_log import OpLog, segments

WITNESSES_MAX: Final = 20_000  # of each anomaly
NEVER_SEEN: Final = frozenset({"lost-write", "unseen", "torn-transaction", "missing-output", "lost-input"})
TAIL_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Detection:
    """The moment at which an anomaly was first proved.

    after_s  seconds since the run started
    ops      number of ops that had been invoked by then
    """

    after_s: float
    ops: int


def first(folder: Path, anomalies: Sequence[str]) -> Detection | None:
    """Returns the earliest point in a checked run's history at which one of these anomalies is provable.

    Returns None if there is no such point.
    """
    ops = [op for name in anomalies for op in _proofs(folder, name)]
    if not ops:
        return None
    op = min(ops, key=lambda op: op.index)
    # Every op has two lines in the history, each with its own index.
    return Detection(op.time_ns / 1e9, (op.index + 1) // 2)


def _proofs(folder: Path, name: str) -> Iterator[Op]:
    """Yields the op that first proves an anomaly; yields nothing if there is none."""
    if name in NEVER_SEEN:
        op = _last(folder)
    else:
        witnesses = islice(witness_lookup.stored(folder, name), WITNESSES_MAX)
        last = [max(named) for witness in witnesses if (named := named_ops(witness))]
        op = OpLog(folder).at(min(last)) if last else None
    if op is not None:
        yield op


def _last(folder: Path) -> Op | None:
    """Returns the last op of a complete history, or None if the history does not end with an op."""
    try:
        with segments(folder)[-1].open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            return op_json.decode(file.read().splitlines()[-1])
    except (OSError, IndexError, BadHistory):
        return None
