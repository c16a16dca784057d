"""Simulated share groups, with many seeds: bugs are found, correct groups are silent, and damage never crashes the
check.

In damaged histories, fields of ops get values of other types, and lines are lost, doubled or moved.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from checker.check import check_plain
from harness.model import op_json
from harness.model.errors_and_exit_codes import BadHistory
from harness.sim.share.bugs import BUGS
from harness.sim.share.run import simulate
from harness.sim.share.world import Shape
from tests.property.test_fuzz import swapped
from tests.unit.sim.share import judged, options, shape_of

SEEDS: Final = 20  # per repetition
SMALL: Final = Shape(seed=5, load_s=1, members=2, writers=1, keys=2, groups=2, faults=1, trouble=0.1)


@pytest.mark.repeat(1, 20)
@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found(bug: str, repetition: int) -> None:
    shape = Shape(seed=100 + repetition, trouble=0.002, txn=bug == "aborted-visible")
    assert BUGS[bug].shows in {anomaly.name for anomaly in judged(shape, frozenset({bug})).anomalies}


@pytest.mark.repeat(1, 50)
def test_nothing_is_found_in_correct_groups(repetition: int) -> None:
    for seed in range(repetition * SEEDS, (repetition + 1) * SEEDS):
        assert judged(shape_of(seed)).anomalies == (), seed


def _moved(ops: list[dict[str, Any]], chance: random.Random) -> list[dict[str, Any]]:
    """The ops with a few lines lost, doubled, moved or at another time; the indices stay as they were, or are new."""
    ops = [dict(op) for op in ops]
    for _ in range(chance.randint(1, 3)):
        at, kind = chance.randrange(len(ops)), chance.randrange(4)
        if kind == 0:
            del ops[at]
        elif kind == 1:
            ops.insert(at, dict(ops[at]))
        elif kind == 2:
            ops.insert(chance.randrange(len(ops)), ops.pop(at))
        else:
            ops[at]["time_ns"] = chance.choice([0, -1, 1 << 61, ops[at]["time_ns"] // 2])
    if chance.random() < 0.8:
        ops = [{**op, "index": index} for index, op in enumerate(ops)]
    return ops


@pytest.mark.repeat(5, 1_000)
def test_damaged_histories_do_not_crash_the_check(tmp_path: Path, repetition: int) -> None:
    whole = [op_json.to_data(op) for op in simulate(SMALL)]
    for seed in range(repetition * SEEDS, (repetition + 1) * SEEDS):
        chance = random.Random(seed)
        ops = swapped(chance, whole) if chance.random() < 0.7 else _moved(whole, chance)
        file = tmp_path / "h.jsonl"
        file.write_bytes(op_json.header("r", 0, 1, 2) + b"".join(json.dumps(op).encode() + b"\n" for op in ops))
        try:
            check_plain(file, options(SMALL))
        except BadHistory as error:
            assert 0 < len(str(error)) < 2000 and "\n" not in str(error), error
