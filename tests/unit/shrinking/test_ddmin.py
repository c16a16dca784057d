"""Delta debugging on lists of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from harness.shrinking.ddmin import Budget, minimal


@given(st.sets(st.integers(0, 60), max_size=6), st.integers(0, 61))
def test_what_is_needed_stays_and_nothing_else(needed: set[int], size: int) -> None:
    items = list(range(max(size, max(needed, default=0) + 1)))
    assert minimal(items, lambda some: needed <= set(some), Budget(5_000)) == sorted(needed)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 40))
def test_no_single_item_of_what_is_left_can_go(items: list[int], least: int) -> None:
    def heavy(some: Sequence[int]) -> bool:
        return sum(some) >= least

    if not heavy(items):
        return
    left = minimal(items, heavy, Budget(5_000))
    assert heavy(left)
    assert not any(heavy([*left[:n], *left[n + 1 :]]) for n in range(len(left)))


def test_few_questions_for_few_of_many_and_none_beyond_what_is_allowed() -> None:
    budget = Budget(5_000)
    assert minimal(range(10_000), lambda some: {17, 9_000} <= set(some), budget) == [17, 9_000]
    assert 5_000 - budget.left < 150
    short = Budget(5)
    left = minimal(range(10_000), lambda some: {17, 9_000} <= set(some), short)
    assert short.left == 0 and {17, 9_000} <= set(left) and len(left) < 10_000
