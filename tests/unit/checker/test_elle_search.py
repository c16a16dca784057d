"""The search for the cycle that Elle finds first. test_jepsen.py shows that it is the same cycle."""

from __future__ import annotations

import numpy as np
import pytest

from checker.cycles import elle_search
from checker.cycles.dependency_edges import REALTIME, WR, WW
from checker.cycles.shortest import Adjacent
from checker.cycles.types_and_levels import mask

ww, wr, rt = (mask((kind,)) for kind in (WW, WR, REALTIME))


def found(adjacent: Adjacent, kinds: int, wanted: int = 0) -> list[int] | None:
    """The cycle as ids, which are positions here."""
    return elle_search.find(adjacent, np.arange(64), kinds, wanted)


def test_only_edges_of_the_kinds_count() -> None:
    adjacent = {1: {2: ww}, 2: {1: wr}}
    assert found(adjacent, ww) is None
    assert sorted((found(adjacent, ww | wr) or [])[:-1]) == [1, 2]


def test_each_wanted_kind_is_taken_and_the_first_step_takes_one() -> None:
    adjacent = {1: {2: ww, 3: ww}, 2: {1: ww}, 3: {1: rt}}
    assert found(adjacent, ww | rt, rt) == [3, 1, 3]
    assert found(adjacent, ww | wr | rt, wr | rt) is None


def test_an_edge_of_two_kinds_is_taken_for_one_of_them() -> None:
    adjacent = {1: {2: wr | rt}, 2: {1: ww}}
    assert found(adjacent, ww | rt, rt) == [1, 2, 1]
    assert found(adjacent, ww | wr | rt, wr | rt) is None


def test_the_tail_of_a_path_is_cut_off() -> None:
    for tail in range(3, 20):  # at any position in a hash map
        cycle = found({tail: {1: ww}, 1: {2: ww}, 2: {1: ww}}, ww)
        assert cycle in ([1, 2, 1], [2, 1, 2])


def test_ops_come_in_the_order_of_a_hash_map() -> None:
    """The corner history G0-wit: of its two cycles of ww edges, Elle reports the longer one."""
    ids = np.array([3, 9, 12, 13, 16])
    adjacent = {0: {1: ww}, 1: {4: ww}, 4: {0: ww}, 2: {3: ww}, 3: {2: ww}}
    cycle = elle_search.find(adjacent, ids, ww, 0)
    assert cycle is not None
    assert ids[cycle].tolist() == [9, 16, 3, 9]


def test_a_search_that_takes_long_ends() -> None:
    every = {a: {b: ww for b in range(40) if b > a} for a in range(40)}  # no cycle, and very many paths
    with pytest.raises(elle_search.TooManyPathsError):
        found(every, ww)
