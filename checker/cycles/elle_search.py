"""Elle's search for cycles, reproduced so that results can be compared with Jepsen's.

Elle tries one op after another as the start of a cycle and follows all paths from it, breadth first. Which cycle it
reports depends on the order in which its graph, a hash map, lists ops and their neighbours. An edge can have several
kinds, for example wr and realtime. Elle may use such an edge as one kind and explain it as another, so a cycle that was
found in the search for one type can be reported as a different type.

Source: Elle, `elle.bfs`, `elle.txn` (`cycle-anomaly-specs`); the hash maps of Bifurcan, the graph library of Elle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from checker.cycles.shortest import Adjacent
from checker.kernels.clojure_set_order import hashes
from checker.tables.packing import Ints

# Elle stops searching after one second. The number of paths grows exponentially with their length.
PATHS_MAX: Final = 20_000
_DIGIT: Final = 5


class _Path(NamedTuple):
    """A path of ops, stored from its end.

    op       the last op
    before   the path without its last op; None if the path has only one op
    seen     the ops of `before`, as bits
    missing  the wanted kinds of edges that the path has not used yet, as bits
    """

    op: int
    before: _Path | None
    seen: int
    missing: int

    def ops(self) -> list[int]:
        """Returns the ops from first to last."""
        found: list[int] = []
        path: _Path | None = self
        while path is not None:
            found.append(path.op)
            path = path.before
        return found[::-1]

    def longer(self, op: int, missing: int) -> _Path:
        return _Path(op, self, self.seen | 1 << self.op, missing)


class TooManyPathsError(Exception):
    """The search followed PATHS_MAX paths without finding a cycle."""


@dataclass(frozen=True, slots=True)
class _Graph:
    """A graph, as source -> target -> kinds (bits). Sources and targets are in the order in which Elle visits them."""

    edges: Mapping[int, Mapping[int, int]]
    hash_of: Sequence[int]

    @classmethod
    def of(cls, edges: Iterable[tuple[int, int, int]], hash_of: Sequence[int]) -> _Graph:
        """Builds the graph from edges (source, target, kinds). `hash_of`: the hash of each op in Bifurcan's maps."""
        found: dict[int, dict[int, int]] = {}
        for source, target, kinds in edges:
            found.setdefault(source, {})[target] = kinds
            found.setdefault(target, {})
        return cls._ordered(found, hash_of)

    @classmethod
    def _ordered(cls, edges: Mapping[int, Mapping[int, int]], hash_of: Sequence[int]) -> _Graph:
        neighbours = {a: {b: out[b] for b in _order(list(out), hash_of)} for a, out in edges.items()}
        return cls({a: neighbours[a] for a in _order(list(edges), hash_of)}, hash_of)

    def only(self, ops: set[int]) -> _Graph:
        kept = {a: {b: kinds for b, kinds in out.items() if b in ops} for a, out in self.edges.items() if a in ops}
        return self._ordered(kept, self.hash_of)


def _map_hashes(ops: Ints) -> list[int]:
    """Returns the hash that Bifurcan's maps use for each op."""
    word = hashes(ops).astype(np.int64)
    word = np.where(word >> 31, word ^ 0xFFFFFFFF, word)
    word ^= (word >> 20) ^ (word >> 12)
    word ^= (word >> 7) ^ (word >> 4)
    placed: list[int] = word.tolist()
    return placed


def _order(places: list[int], hash_of: Sequence[int], shift: int = 0) -> list[int]:
    """Returns the keys of a hash map in the order in which Bifurcan lists them.

    The map is a tree over the digits of the keys' hashes. A node first lists the keys that share their digit with no
    other key, then the keys of its subtrees. `shift` is the lowest bit of the digit at this level.
    """
    if len(places) < 2 or shift > 32:
        return sorted(places)
    by_digit: dict[int, list[int]] = {}
    for place in places:
        by_digit.setdefault((hash_of[place] >> shift) & 31, []).append(place)
    groups = [by_digit[digit] for digit in sorted(by_digit)]
    alone = [group[0] for group in groups if len(group) == 1]
    deeper = (_order(group, hash_of, shift + _DIGIT) for group in groups if len(group) > 1)
    return [*alone, *(place for group in deeper for place in group)]


class _Search:
    """A search for a cycle with at least one edge of each of the `wanted` kinds (bits)."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._paths = 0

    def begun_at(self, graph: _Graph, start: int) -> list[int] | None:
        paths = [_Path(start, None, 0, self._wanted)]
        while paths:
            simple: list[_Path] = []
            for path in paths:
                if not path.seen >> path.op & 1:
                    simple.append(path)
                elif not path.missing:
                    cycle = self._without_tail(graph, path.ops())
                    if cycle is not None:
                        return cycle
            paths = [longer for path in simple for longer in _steps(graph, path)]
            self._paths += len(paths)
            if self._paths > PATHS_MAX:
                raise TooManyPathsError
        return None

    def _without_tail(self, graph: _Graph, ops: list[int]) -> list[int] | None:
        """Returns a cycle, given a path whose last op occurs in the path twice.

        If the path ends at its first op, it is the cycle. Otherwise the path ends in a loop, and a cycle is searched
        among the ops of this loop. Returns None if there is none.
        """
        if ops[0] == ops[-1]:
            return ops
        loop = ops[ops.index(ops[-1]) :]
        inner = graph.only(set(loop))
        found = (self.begun_at(inner, start) for start in loop)
        return next((cycle for cycle in found if cycle is not None), None)


def _steps(graph: _Graph, path: _Path) -> Iterator[_Path]:
    """Yields the extensions of a path by one op.

    For each neighbour, extensions along an edge of a missing kind come first. If kinds are wanted, the first edge of a
    path must be of a wanted kind.
    """
    missing = path.missing
    for target, kinds in graph.edges[path.op].items():
        wanted = kinds & missing
        while wanted:
            lowest = wanted & -wanted
            yield path.longer(target, missing & ~lowest)
            wanted ^= lowest
        if kinds & ~missing and not (missing and path.before is None):
            yield path.longer(target, missing)


def find(adjacent: Adjacent, ops: Ints, kinds: int, wanted: int) -> list[int] | None:
    """Returns the first cycle that Elle would find, as positions of ops. The last position equals the first.

    ops     the id of the op at each position
    kinds   the kinds of edges that the cycle may contain, as bits
    wanted  the kinds of edges that must each occur in the cycle at least once, as bits

    Returns None if there is no such cycle. Raises TooManyPathsError if the search takes too long.
    """
    edges = ((a, b, bits & kinds) for a, out in adjacent.items() for b, bits in out.items() if bits & kinds)
    graph = _Graph.of(edges, _map_hashes(ops))
    search = _Search(wanted)
    found = (search.begun_at(graph, start) for start in graph.edges)
    return next((cycle for cycle in found if cycle is not None), None)
