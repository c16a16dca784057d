"""The last record before another: the fast algorithm, and the one for times too far apart to pack."""

from __future__ import annotations

import random

import numpy as np
import pytest

from checker.anomalies.stale_send import _latest_before
from checker.tables.packing import pack


@pytest.mark.parametrize("spread", [9, 1 << 61])
def test_latest_before(spread: int) -> None:
    draw = random.Random(spread)
    for _ in range(50):
        rows = draw.randint(1, 12)
        key = np.array(sorted(draw.randint(0, 5) for _ in range(rows)), np.int64)
        begun = np.array([draw.randint(0, spread) for _ in range(rows)], np.int64)
        found = _latest_before(key, begun)
        for row in range(rows):
            mine = [other for other in range(row + 1) if key[other] == key[row]]
            assert begun[found[row]] == max(begun[other] for other in mine)
            assert key[found[row]] == key[row]


def test_the_wide_one_is_tested() -> None:
    assert pack(np.array([0, 7]), np.array([0, 1 << 61])) is None
