"""Drawn runs of pipelines, judged by the checker and by the oracle: where they differ, one of them is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.pipeline.case import draw_case
from tests.oracle.pipeline.compare import compare_cases, described

pytestmark = [pytest.mark.spark, pytest.mark.long]
FEW, MANY = 100, 2000  # draws, all in one job: in `make test`, in soak
UNKNOWN_MOST = 0.02  # of what can be known


def test_the_checker_and_the_oracle_agree_on_pipelines(
    spark: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Soak draws other runs each time; ORACLE_SEED names one to look at again."""
    count, first = FEW, 0
    if request.config.getoption("--soak"):
        count, first = MANY, int.from_bytes(os.urandom(5), "big")
    if "ORACLE_SEED" in os.environ:
        count, first = 1, int(os.environ["ORACLE_SEED"])
    found = compare_cases(spark, map(draw_case, range(first, first + count)), tmp_path)
    wrong = [each for each in found if each.wrong]
    if wrong:
        seeds = ", ".join(str(each.run.case.seed) for each in wrong)
        pytest.fail(f"{len(wrong)} of {count} draws differ, seeds {seeds}\n{described(wrong[0])}", pytrace=False)
    missed = [each for each in found if each.missed]
    if len(missed) > max(3, UNKNOWN_MOST * count):  # of few, three say nothing yet
        pytest.fail(f"{len(missed)} of {count} unknown that can be known\n{described(missed[0])}", pytrace=False)
