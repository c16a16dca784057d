"""The highest offset that had been committed by some time, compared with a loop."""

from __future__ import annotations

import random

import numpy as np

from checker.anomalies.offset_regression import Rows, _highest_before


def test_highest_before() -> None:
    for seed in range(300):
        draw = random.Random(seed)
        count = draw.randint(0, 8)
        op = np.array(draw.sample(range(9), count), np.int64)
        key, offset = (np.array([draw.randint(0, 2) for _ in range(count)], np.int64) for _ in range(2))
        done = Rows(op, op, key, offset)
        wanted_key = np.array([draw.randint(0, 2) for _ in range(5)], np.int64)
        begun = np.array([draw.randint(0, 9) for _ in range(5)], np.int64)
        highest, owner = _highest_before(done, wanted_key, begun)
        for row in range(5):
            earlier = [at for at in range(count) if key[at] == wanted_key[row] and op[at] < begun[row]]
            assert highest[row] == max((offset[at] for at in earlier), default=-1)
            owners = [int(op[at]) for at in earlier if offset[at] == highest[row]]
            assert owner[row] == min(owners, default=-1)
