"""The oracle detects each former bug of the checker when it is simulated again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.case import draw_case
from tests.oracle.compare import compare_case
from tests.oracle.lies import LIES, PIPELINE_LIES, TABLES_ARE_KNOWN_BY_SIZE, Lie, Patch
from tests.oracle.pipeline import case as pipelines
from tests.oracle.pipeline.compare import compare_cases
from tests.oracle.rejudged import rejudged

SEEDS = 6000  # cases to choose from
TRIES = 150  # cases among them that the bug affects
PIPELINES = 20  # pipeline runs that the bug affects
REJUDGED = 40  # histories that are changed and judged again


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


def _weakened_pipelines() -> list[pipelines.PipelineCase]:
    """Records that were sent again and worked on once, by modes that promise all, after an unclean election."""
    found = []
    for seed in range(PIPELINES):
        case = pipelines.draw_case(seed)
        faults = ("elect-unclean:leader",) if seed % 2 else ()
        cluster = replace(case.cluster, replication=3, broker={}, faults=faults)
        change: dict[str, Any] = {"mode": pipelines.ONCE[0], "mistake": "", "lies": (), "cut": ""}
        found.append(replace(case, cluster=cluster, transform="identity", again=("first made",), **change))
    return found


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize("lie", PIPELINE_LIES, ids=lambda lie: lie.name)
def test_the_oracle_notices_the_lie_about_pipelines(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Patch
) -> None:
    honest = compare_cases(spark, _weakened_pipelines(), tmp_path / "honest")
    assert not [each.wrong for each in honest if each.wrong or each.missed]
    monkeypatch.setattr(lie.module, lie.function, lie.earlier)
    assert any(each.wrong or each.missed for each in compare_cases(spark, _weakened_pipelines(), tmp_path / "lied"))


def test_tables_that_are_known_by_size_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lie = TABLES_ARE_KNOWN_BY_SIZE
    monkeypatch.setattr(lie.module, lie.function, lie.earlier)
    runs = (rejudged(seed, tmp_path) for seed in range(REJUDGED))
    assert any(each is not None and each.again != each.fresh for each in runs)
