"""The plain, slow checker that the kernels are compared with gives Jepsen's own answers."""

from __future__ import annotations

from typing import Any

import pytest

from checker.tables.read_history import Notes, read
from harness.model.op import NEMESIS, Op
from tests.unit.checker import jepsen
from tests.unit.checker.plain import Plain, shaped_all
from tests.unit.checker.plain_cycles import Cycles, complaints

# Witnesses depend only on `ww_deps`; where Jepsen crashed, there is nothing to compare.
ROWS = {(row["history"], row["ww_deps"]): row for row in jepsen.rows() if "jepsen_crashes_with" not in row}
# Anomalies that only this checker has, by design.
OURS = {"phantom-read"}


def _ops(row: jepsen.Row) -> list[Op]:
    fields = ("index", "time_ns", "process", "type", "f", "value", "error")
    found = []
    for line in read(jepsen.history(row), Notes()):
        extra = line.data.get("extra") or {}
        op = Op(*(line.data.get(name) for name in fields), {k.replace("-", "_"): v for k, v in extra.items()})
        found.append(op)
    return [op for op in found if op.process != NEMESIS]


def _bare(data: Any) -> Any:
    """A witness of Jepsen's with indices instead of ops."""
    if isinstance(data, dict):
        return data["op"] if data.keys() == {"op"} else {name: _bare(each) for name, each in data.items()}
    return [_bare(each) for each in data] if isinstance(data, list) else data


@pytest.mark.parametrize("name", sorted({name for name, _ in ROWS}))
def test_same_answers_as_jepsen(name: str) -> None:
    ops = _ops(ROWS[(name, True)])
    answer = {kind: witnesses for kind, witnesses in Plain(ops).answer().items() if kind not in OURS}
    for ww_deps in (True, False):
        row = ROWS[(name, ww_deps)]
        cycles = {
            kind: _bare([errors] if kind == "unseen" else errors["errs"])
            for kind, errors in (row["errors"] or {}).items()
            if kind != jepsen.EMPTY_GRAPH
        }
        theirs = {kind: shaped_all(kind, witnesses) for kind, witnesses in cycles.items() if not jepsen.is_cycle(kind)}
        assert answer == theirs
        assert complaints(Cycles(ops, ww_deps), cycles) == []
