"""What is judged is the history as it is now: tables of what it was before are not those of it."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.rejudged import rejudged

DRAWS = 15


def test_a_changed_digit_changes_what_is_judged(tmp_path: Path) -> None:
    runs = [each for seed in range(DRAWS) if (each := rejudged(seed, tmp_path)) is not None]
    assert len(runs) > DRAWS // 2
    assert [each.again for each in runs] == [each.fresh for each in runs]
    assert sum(each.before != each.fresh for each in runs) > DRAWS // 4  # the digit mattered
