"""Sorting and grouping, packed or not, give the same answers as plain code."""

from __future__ import annotations

import numpy as np
import pytest

from checker.tables.packing import begins, empty, expand, joint_ranks, member, order, pack, ranks, tails

WIDE = 1 << 61


@pytest.mark.parametrize("scale", [1, 1 << 20, 1 << 40])
def test_order_is_stable_and_sorts(scale: int) -> None:
    random = np.random.default_rng(1)
    a, b = random.integers(-3, 4, 500) * scale, random.integers(-3, 4, 500) * scale
    expected = sorted(range(500), key=lambda row: (a[row], b[row]))
    assert order(a, b).tolist() == expected


def test_order_of_nothing() -> None:
    assert order(empty(), empty()).tolist() == []


def test_pack_refuses_what_does_not_fit() -> None:
    wide = np.array([0, WIDE], np.int64)
    assert pack(wide, wide) is None
    assert pack(wide) is not None


@pytest.mark.parametrize("values", [[5, 3, 5, -2], [WIDE, 0, -WIDE, WIDE], [7]])
def test_ranks(values: list[int]) -> None:
    distinct, rank = ranks(np.array(values, np.int64))
    assert distinct.tolist() == sorted(set(values))
    assert [distinct[at] for at in rank] == values


@pytest.mark.parametrize("code", [1, WIDE + 5])
def test_joint_ranks(code: int) -> None:
    left = (np.array([1, 0, 1], np.int64), np.array([code, 2, 3], np.int64))
    right = (np.array([0, 1], np.int64), np.array([2, code], np.int64))
    first, second, left_ids, right_ids = joint_ranks(left, right)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    assert pairs == sorted({(1, code), (0, 2), (1, 3)})
    assert [pairs[at] for at in left_ids] == [(1, code), (0, 2), (1, 3)]
    assert [pairs[at] for at in right_ids] == [(0, 2), (1, code)]


def test_groups() -> None:
    column = np.array([1, 1, 2, 2, 2, 5], np.int64)
    heads = np.flatnonzero(begins(column))
    assert heads.tolist() == [0, 2, 5]
    assert tails(heads, 6).tolist() == [2, 5, 6]
    assert tails(empty(), 0).tolist() == []


def test_member() -> None:
    assert member(np.array([1, 5, 9]), np.array([5, 9])).tolist() == [False, True, True]
    assert member(np.array([1]), empty()).tolist() == [False]


def test_expand() -> None:
    first, lengths = np.array([10, 0, 3], np.int64), np.array([2, 0, 3], np.int64)
    assert expand(first, lengths).tolist() == [10, 11, 3, 4, 5]
    assert expand(empty(), empty()).tolist() == []
