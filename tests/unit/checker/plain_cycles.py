"""A plain, slow search for cycles between operations, directly from the rules: an oracle.

It finds edges by comparing every pair of ops, and answers with networkx's strongly connected components; no window,
no reduction, no packed integers. Elle's result for a component follows from which of its subgraphs have a cycle: see
`exists` and `plain_type`. Source: Elle's elle.txn, elle.core (`realtime-graph`); jepsen.tests.kafka, `ww-graph`,
`wr-graph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import networkx as nx

from harness.model.op import Op, polls, sends
from tests.unit.checker.plain import Plain

JEPSEN: Final = ("ww", "wr", "realtime")
ALL: Final = ("ww", "wr", "rw", "process", "realtime")
# (case, subgraph) in Elle's order, and the weaker cases that make it redundant.
CASES: Final = (
    ("PL-1-cycle-exists", {"ww"}, ()),
    ("PL-2-cycle-exists", {"ww", "wr"}, ("PL-1",)),
    ("PL-2.99-cycle-exists", {"ww", "wr", "rw"}, ("PL-1", "PL-2")),
    ("strong-session-PL-1-cycle-exists", {"ww", "process"}, ("PL-1",)),
    ("strong-session-PL-2-cycle-exists", {"ww", "wr", "process"}, ("PL-1", "PL-2", "strong-session-PL-1")),
    (
        "strong-session-serializable-cycle-exists",
        {"ww", "wr", "rw", "process"},
        ("PL-1", "PL-2", "PL-2.99", "strong-session-PL-1", "strong-session-PL-2"),
    ),
    ("strong-PL-1-cycle-exists", {"ww", "realtime"}, ("PL-1", "strong-session-PL-1")),
    (
        "strong-PL-2-cycle-exists",
        {"ww", "wr", "realtime"},
        ("PL-1", "PL-2", "strong-session-PL-1", "strong-session-PL-2", "strong-PL-1"),
    ),
    (
        "PL-SS-cycle-exists",
        {"ww", "wr", "rw", "realtime"},
        (
            *("PL-1", "PL-2", "PL-2.99", "strong-session-PL-1", "strong-session-PL-2"),
            *("strong-session-serializable", "strong-PL-1", "strong-PL-2"),
        ),
    ),
)
# The possible types of the cycle found for a case. A step in time may have another reason as well.
TYPES: Final = {
    "PL-1-cycle-exists": {"G0"},
    "PL-2-cycle-exists": {"G1c"},
    "strong-PL-1-cycle-exists": {"G0-realtime", "G1c-realtime", "G1c"},
    "strong-PL-2-cycle-exists": {"G1c-realtime"},
}


class Cycles:
    """The dependency graph of one history. Ops are identified by the index of their completion.

    kinds   the kinds of edges; Elle names a step after the first of them that connects its ops
    """

    def __init__(self, ops: Sequence[Op], ww_deps: bool = True, kinds: tuple[str, ...] = JEPSEN) -> None:
        self.kinds = kinds
        self.plain = Plain(ops)
        self.ops: Mapping[int, Op] = {op.index: op for op in self.plain.micro}
        self.invoked = self._invocations(ops)
        self.edges: dict[str, set[tuple[int, int]]] = {
            "ww": set(self._ww()) if ww_deps else set(),
            "wr": set(self._wr()),
            "rw": set(self._rw()),
            "process": set(self._process()),
            "realtime": set(self._realtime()),
        }

    def _invocations(self, ops: Sequence[Op]) -> dict[int, int]:
        """Completion -> invocation, by index; an op without completion maps to itself."""
        at: dict[Any, int] = {}
        found = {}
        for op in ops:
            if op.type == "invoke":
                at[op.process] = op.index
            else:
                found[op.index] = at.pop(op.process, op.index)
        return {**found, **{index: index for index in at.values()}}

    def _ww(self) -> Iterable[tuple[int, int]]:
        """(writer of a value, writer of the next value in the version order)."""
        for key, values in self.plain.order.items():
            for place, (first, second) in enumerate(pairwise(values)):
                a, b = self.plain.writer.get((key, first)), self.plain.writer.get((key, second))
                known = self.plain.index(key, second) == place + 1  # the last position of a duplicate value counts
                if a is not None and b is not None and a.index != b.index and known:
                    yield a.index, b.index

    def _wr(self) -> Iterable[tuple[int, int]]:
        """(writer of a value, op that polled it)."""
        for op in self.ops.values():
            for key, _, value in polls(op):
                writer = self.plain.writer.get((key, value))
                if writer is not None and writer.index != op.index:
                    yield writer.index, op.index

    def _rw(self) -> Iterable[tuple[int, int]]:
        """(ok op, writer of the value after the highest one of a key that the op polled)."""
        for op in self.ops.values():
            highest: dict[Any, int] = {}
            for key, _, value in polls(op) if op.type == "ok" else ():
                index = self.plain.index(key, value)
                if index is not None:
                    highest[key] = max(index, highest.get(key, -1))
            for key, index in highest.items():
                following = self.plain.order[key][index + 1 : index + 2]
                writer = self.plain.writer.get((key, *following)) if following else None
                if writer is not None and writer.index != op.index:
                    yield op.index, writer.index

    def _process(self) -> Iterable[tuple[int, int]]:
        """(ok op, later ok op of the same process)."""
        for a in self.ops.values():
            for b in self.ops.values():
                if a.index < b.index and a.process == b.process and (a.type, b.type) == ("ok", "ok"):
                    yield a.index, b.index

    def _realtime(self) -> Iterable[tuple[int, int]]:
        """(ok op, op invoked after it)."""
        for a in self.ops.values():
            for b in self.ops.values():
                if a.type == "ok" and a.index < self.invoked[b.index]:
                    yield a.index, b.index

    def graph(self, kinds: Iterable[str]) -> Any:
        found = nx.DiGraph()
        for kind in kinds:
            found.add_edges_from(self.edges[kind])
        return found

    def components(self, kinds: Iterable[str], within: Iterable[int] | None = None) -> list[frozenset[int]]:
        """The strongly connected components with two or more ops."""
        graph = self.graph(kinds)
        if within is not None:
            graph = graph.subgraph(within)
        return [frozenset(found) for found in nx.strongly_connected_components(graph) if len(found) > 1]

    def exists(self, within: frozenset[int]) -> dict[str, set[frozenset[int]]]:
        """Elle's cycle-exists cases of one component: case -> its smallest components, one of which is reported."""
        cases: dict[str, set[frozenset[int]]] = {}
        for case, kinds, weaker in CASES:
            broken = {f"{level}-cycle-exists" for level in weaker} & cases.keys()
            drawn = kinds <= set(self.kinds) | {"ww"}
            found = self.components(kinds, within) if drawn and not broken else []
            if found:
                size = min(map(len, found))
                cases[case] = {each for each in found if len(each) == size}
        return cases

    def step(self, a: int, b: int) -> str | None:
        """The name of the step from a to b: the first kind of edge that connects them."""
        return next((kind for kind in self.kinds if (a, b) in self.edges[kind]), None)

    def type_of(self, cycle: Sequence[int]) -> str | None:
        """The type of a cycle [op, ..., first op again]; None if it is not a cycle."""
        steps = [self.step(a, b) for a, b in pairwise(cycle)]
        if len(cycle) < 3 or cycle[0] != cycle[-1] or len(set(cycle)) != len(cycle) - 1 or None in steps:
            return None
        around = [*steps, steps[0]]
        adjacent = any(pair == ("rw", "rw") for pair in pairwise(around))
        several = "G2-item" if adjacent else "G-nonadjacent"
        data = "G1c" if "wr" in steps else "G0"
        name = {0: data, 1: "G-single"}.get(steps.count("rw"), several)
        suffix = "-realtime" if "realtime" in steps else "-process" if "process" in steps else ""
        return name + suffix


def complaints(cycles: Cycles, anomalies: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Errors in a checker's cycles: {type: witnesses}, with the types of cycles and cases."""
    wrong = []
    shown = {name: list(anomalies.get(name, ())) for name, _, _ in CASES}
    found = [(name, w) for name, witnesses in anomalies.items() for w in witnesses if "cycle" in w]
    for within in cycles.components(cycles.kinds):
        expected = cycles.exists(within)
        for case in shown:
            mine = [frozenset(w["scc"]) for w in shown[case] if frozenset(w["scc"]) <= within]
            shown[case] = [w for w in shown[case] if not frozenset(w["scc"]) <= within]
            if len(mine) != (case in expected) or not set(mine) <= expected.get(case, set()):
                wrong.append(f"{case} within {sorted(within)}: {mine}, expected one of {expected.get(case)}")
        here = [(name, w) for name, w in found if set(w["cycle"]) <= within]
        found = [(name, w) for name, w in found if not set(w["cycle"]) <= within]
        wrong += _types(cycles, expected, here)
    wrong += [f"{name}: a component of no component: {witnesses}" for name, witnesses in shown.items() if witnesses]
    wrong += [f"{name}: a cycle outside of every component: {witness}" for name, witness in found]
    return wrong


def _types(cycles: Cycles, expected: Iterable[str], here: list[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """One cycle per case, with a type that fits it; two of the same type are reported once."""
    wrong = [
        f"{name}: {witness} is {cycles.type_of(witness['cycle'])}"
        for name, witness in here
        if cycles.type_of(witness["cycle"]) != name or not _explained(cycles, witness)
    ]
    names = {name for name, _ in here}
    if cycles.kinds != JEPSEN:  # with rw edges, a component may be shown by different cycles
        return wrong if names or not expected else [*wrong, f"no cycle where {list(expected)}"]
    choices: list[set[str]] = [set()]
    for case in expected:
        choices = [choice | {name} for choice in choices for name in TYPES[case]]
    if names not in choices:
        wrong.append(f"types {sorted(names)}, expected one for each of {list(expected)}")
    return wrong


def _explained(cycles: Cycles, witness: Mapping[str, Any]) -> bool:
    """Whether the explanation of each step is true."""
    steps = list(zip(pairwise(witness["cycle"]), witness["steps"], strict=True))
    return all(_true(cycles, a, b, step) for (a, b), step in steps)


def _true(cycles: Cycles, a: int, b: int, step: Mapping[str, Any]) -> bool:
    kind = cycles.step(a, b)
    if step["type"] != kind:
        return False
    if kind == "process":
        return bool(step["process"] == cycles.ops[a].process)
    if kind == "realtime":
        return step["a'"] == a and step["b"] == cycles.invoked[b]
    one, two, key = cycles.ops[a], cycles.ops[b], step["key"]
    a_mop, b_mop = one.value[step["a-mop-index"]], two.value[step["b-mop-index"]]
    mops = polls if kind == "rw" else sends
    if (key, step["value"]) not in [(k, v) for k, _, v in mops(one.with_(value=[a_mop]))]:
        return False
    if kind == "wr":
        return (key, step["value"]) in [(k, v) for k, _, v in polls(two.with_(value=[b_mop]))]
    places = [cycles.plain.index(key, step[name]) for name in ("value", "value'")]
    last = (key, step["value'"]) in [(k, v) for k, _, v in sends(two.with_(value=[b_mop]))]
    order = cycles.plain.order[key]
    if kind == "rw":  # the next record, although the value may occur again later
        return last and places[0] is not None and order[places[0] + 1] == step["value'"]
    return last and places[1] is not None and order[places[1] - 1] == step["value"]
