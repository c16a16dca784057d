"""The size of a large run's page: docs/use/runs.md states that it does not grow with the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report.page import run_page
from tests.bench.page import large


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_page_of_a_hundred_thousand_operations_is_small(tmp_path: Path) -> None:
    run = large(tmp_path, 100_000)
    assert (run / "history" / "00000.jsonl").stat().st_size > 30_000_000
    size = run_page.draw(run).stat().st_size
    assert 200_000 < size < 3_000_000
