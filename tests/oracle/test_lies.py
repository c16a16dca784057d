"""The oracle detects each former bug of the checker when it is simulated again."""

from __future__ import annotations

import pytest

from tests.oracle.case import draw_case
from tests.oracle.compare import compare_case
from tests.oracle.lies import LIES, Lie

SEEDS = 6000  # cases to choose from
TRIES = 150  # cases among them that the bug affects


@pytest.mark.long
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_the_oracle_notices_the_lie(lie: Lie) -> None:
    cases = (lie.shape(case) for case in map(draw_case, range(SEEDS)) if lie.about(case))
    for _, case in zip(range(TRIES), cases, strict=False):
        lied = compare_case(case, lie)
        if lied.wrong or lied.missed:
            honest = compare_case(case)
            if not (honest.wrong or honest.missed):
                return
    pytest.fail(f"{TRIES} runs do not show it")
