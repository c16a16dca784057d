"""When an anomaly of a run could first be proved: at the last op that its earliest witness names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from harness.report import found
from harness.report.involved import named_ops
from harness.report.oplog import OpLog

WITNESSES_MAX: Final = 20_000  # of each anomaly


@dataclass(frozen=True, slots=True)
class Detection:
    """after_s: since the run began; ops: how many had been invoked by then."""

    after_s: float
    ops: int


def first(folder: Path, anomalies: Sequence[str]) -> Detection | None:
    """Of a run that has been checked; None where no witness names an op."""
    last = [
        max(ops)
        for name in anomalies
        for witness in islice(found.stored(folder, name), WITNESSES_MAX)
        if (ops := named_ops(witness))
    ]
    op = OpLog(folder).at(min(last)) if last else None
    # Every op has two lines in the history, and an index each.
    return None if op is None else Detection(op.time_ns / 1e9, (op.index + 1) // 2)
