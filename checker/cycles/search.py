"""The search for cycles in the dependency graph: the types of cycles found, and a witness per component and type.

The search has three stages, and the last two run only if there are backward edges:

1. Each bucket stores its edges (checker.cycles.dependency_edges, checker.cycles.windows).
2. One task per group of windows finds the strongly connected components and determines the types of cycles in each
   (checker.cycles.types_and_levels).
3. The buckets explain the steps of the cycles found.

No stage has a time limit. Whether a component can contain a type of cycle follows from the components of subgraphs,
which take time proportional to the number of edges. Only a cycle that can serve as the witness has to be searched for.
In components of more than EXPLAINED_MAX ops this search is skipped, and the witness has the component's size and ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker.cycles import dependency_edges, elle_search
from checker.cycles.component import Component, Cycle, Tangle, split
from checker.cycles.dependency_edges import KINDS, PROCESS, REALTIME, RW
from checker.cycles.event_cycles import circles, impossible
from checker.cycles.realtime_and_components import components, ops_of, places
from checker.cycles.shortest import STARTS_MAX, Adjacent, find, steps
from checker.cycles.types_and_levels import EXISTS, IMPLIED, LEVELS, SPECS, WEAKER, Spec, kinds_of, name_of
from checker.cycles.windows import Stored, Windows, windows, within
from checker.kernels.bucket_of_keys import Bucket
from checker.tables.buckets_of_a_history import Part, Source
from checker.tables.packing import Ints, empty
from harness.model.check_options import CheckOptions

EXPLAINED_MAX: Final = 20_000
GROUPS_PER_CORE: Final = 2
_RW: Final = 1 << RW


def _levels(component: Component, kinds: int) -> Iterator[Cycle]:
    """Yields the weakest isolation levels that the component violates, as cycles without steps."""
    broken: set[str] = set()
    for level in LEVELS:
        if WEAKER[level.name] & broken:
            continue
        members = component.smallest(level.kinds & kinds)
        if members:
            broken.add(level.name)
            yield Cycle(level.name + EXISTS, (), (), component.named(members))


def _types(component: Component, kinds: int, as_elle: bool) -> Iterator[Cycle]:
    """Yields a cycle for each type found in the component, except for types that an earlier type implies.

    `as_elle`: for types without rw edges, yields the cycle that Elle would report, instead of a short one.
    """
    implied: set[str] = set()
    explain = len(component.ops) <= EXPLAINED_MAX
    for spec in SPECS:
        if spec.name in implied or (spec.rw != "none" and not kinds & _RW):
            continue
        subgraph = _subgraph(spec, kinds)
        members = component.smallest(subgraph)
        if not members or (not explain and spec.rw != "none"):
            continue
        if not explain:
            implied |= IMPLIED[spec.name]
            yield Cycle(spec.name, (), (), component.named(members))
            continue
        cycle = (_first if as_elle and spec.rw == "none" else _shortest)(component, spec, kinds)
        if cycle is not None:
            implied |= IMPLIED[spec.name]
            step_kinds = steps(component.adjacent, cycle)
            yield component.cycle(name_of(step_kinds), cycle, step_kinds, range(len(component.ops)))


def _shortest(component: Component, spec: Spec, kinds: int) -> list[int] | None:
    """Returns a short cycle of a type; None if none was found."""
    subgraph = _subgraph(spec, kinds)
    around = np.flatnonzero(component.labels[subgraph] >= 0).tolist()
    starts = around if spec.rw != "none" or len(around) <= STARTS_MAX else component.smallest(subgraph)
    graph = component.adjacent
    return find(graph, spec.kinds & kinds, spec.rw, starts, partial(_is, graph, spec.name))


def _first(component: Component, spec: Spec, kinds: int) -> list[int] | None:
    """Returns the cycle that Elle would report when it searches for this type; None if Elle would find none.

    If Elle's search would take too long, returns a short cycle instead.
    """
    try:
        return elle_search.find(component.adjacent, component.ops.op, spec.kinds & kinds, spec.needed)
    except elle_search.TooManyPathsError:
        return _shortest(component, spec, kinds)


def _subgraph(spec: Spec, kinds: int) -> int:
    """Returns the kinds of edges that a cycle of this type may contain."""
    return (spec.kinds if spec.rw == "none" else spec.kinds | _RW) & kinds


def _is(graph: Adjacent, name: str, cycle: list[int]) -> bool:
    """Returns whether the cycle is of the type `name`, given the kinds of edges that explain its steps."""
    return name_of(steps(graph, cycle)) == name


def classify(component: Component, options: CheckOptions) -> list[Cycle]:
    """Returns a cycle for each type found in the component.

    Under the harness's own rules, each type occurs once. Under Jepsen's rules, a type can occur several times, because
    Elle's search for one type may report a cycle of another type.
    """
    kinds = kinds_of(drawn(options))
    if options.jepsen_compatible:
        return [*_levels(component, kinds), *_types(component, kinds, as_elle=True)]
    found: dict[str, Cycle] = {}
    forbidden = impossible(component, options, EXPLAINED_MAX)
    if forbidden is not None:
        found[forbidden.name] = forbidden
    for cycle in (*_levels(component, kinds), *_types(component, kinds, as_elle=False)):
        found.setdefault(cycle.name, cycle)
    return list(found.values())


def drawn(options: CheckOptions) -> frozenset[str]:
    """Returns the kinds of edges of the dependency graph that the options request."""
    return options.edges if options.ww_deps else options.edges - {"ww"}


# --- stages ------------------------------------------------------------------------------------------


def _search(part: Part, options: CheckOptions, found: Sequence[Stored], group: Windows) -> list[Cycle]:
    """Returns the cycles of all components in a group of windows (intervals of op ids).

    `found`: the edges of each bucket.
    """
    kinds = kinds_of(drawn(options))
    tangle = _tangle(part, kinds, found, group)
    if len(tangle.ops) == 0:
        return []
    subgraphs = {level.kinds & kinds for level in LEVELS} | {_subgraph(spec, kinds) for spec in SPECS}
    labels = {some: tangle.labels(some) for some in subgraphs}
    event_circles = circles(tangle, options)
    tangle = tangle.ordered(kinds, EXPLAINED_MAX)
    return [cycle for one in split(tangle, labels, event_circles) for cycle in classify(one, options)]


def _tangle(part: Part, kinds: int, found: Sequence[Stored], group: Windows) -> Tangle:
    """Returns the components of the graph of ops in a group of windows (intervals of op ids).

    `found`: the edges of each bucket.
    """
    graph = within(found, group)
    ops = ops_of(part.ops_between(int(group.starts[0]), int(group.ends[-1])))
    ops = ops.where(group.of(ops.op) >= 0)
    source, target, kind = places(ops, graph)
    label = components(ops, source, target, kinds)
    inside = (label[source] >= 0) & (label[source] == label[target])
    members = np.flatnonzero(label >= 0)
    source, target = (np.searchsorted(members, side[inside]) for side in (source, target))
    return Tangle(ops.where(members), label[members], source, target, kind[inside])


def search(source: Source, options: CheckOptions, found: Sequence[Stored | None]) -> list[Cycle]:
    """Returns the cycles of a history, ordered by the ops involved. `found` has the edges of each bucket."""
    stored_edges = [one for one in found if one is not None]
    if not stored_edges:
        return []
    spans = windows(stored_edges)
    if len(spans) == 0:
        return []
    groups = spans.slices(source.cores * GROUPS_PER_CORE)
    task = partial(_search, source.parts[0], options, stored_edges)
    answers = [cycle for some in source.spread(task, groups) for cycle in some]
    return sorted(answers, key=lambda cycle: (cycle.members, cycle.name))


def explain(bucket: Bucket, options: CheckOptions, ops: Ints) -> pa.Table:
    """Returns those reasons for the edges between these ops that follow from the keys of one bucket."""
    return dependency_edges.details(bucket, drawn(options), ops)


def wanted(cycles: Sequence[Cycle]) -> Ints:
    """Returns the ids of all ops in the cycles, ascending. The edges between these ops have to be explained."""
    ops = {op for cycle in cycles for op in cycle.ops}
    return np.array(sorted(ops), np.int64) if ops else empty()


def witnesses(cycles: Sequence[Cycle], details: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """Returns the witnesses by type, shortest cycles first, with keys and values as codes.

    `details` contains the reasons for edges from all buckets (see `explain`).
    """
    why: dict[tuple[int, int, int], tuple[Any, ...]] = {}
    if details.num_rows:
        ordered = details.sort_by([(name, "ascending") for name in details.schema.names])
        columns = [column.to_pylist() for column in ordered.columns]
        for source, target, kind, *rest in zip(*columns, strict=True):
            why.setdefault((source, target, kind), tuple(rest))
    found: dict[str, list[dict[str, Any]]] = {}
    for cycle in sorted(cycles, key=lambda one: (len(one.ops) or len(one.members), one.members)):
        found.setdefault(cycle.name, []).append(_witness(cycle, why))
    return found


Why = Mapping[tuple[int, int, int], tuple[Any, ...]]


def _witness(cycle: Cycle, why: Why) -> dict[str, Any]:
    witness: dict[str, Any] = {"type": cycle.name}
    if cycle.name.endswith(EXISTS):
        level = next(level for level in LEVELS if level.name + EXISTS == cycle.name)
        witness |= {"not": level.friendly, "subgraph": list(level.subgraph)}
    if not cycle.ops:
        return witness | {"scc-size": len(cycle.members), "scc": list(cycle.members)}
    return witness | {
        "cycle": list(cycle.ops),
        "steps": [_step(cycle, place, why) for place in range(len(cycle.kinds))],
        "scc-size": len(cycle.members),
        "forbidden": cycle.forbidden,
    }


def _step(cycle: Cycle, place: int, why: Why) -> dict[str, Any]:
    """Returns data for the witness: why the op at position `place` of the cycle precedes the next op.

    `why` has the reasons for the edges.
    """
    a, b, kind = cycle.ops[place], cycle.ops[place + 1], cycle.kinds[place]
    step: dict[str, Any] = {"type": KINDS[kind]}
    if kind == REALTIME:
        return step | {"a'": a, "b": cycle.invoked[place + 1]}
    if kind == PROCESS:
        return step | {"process": cycle.processes[place]}
    key, value, following, a_mop, b_mop = why[a, b, kind]
    step |= {"key": key, "value": value, "a-mop-index": a_mop, "b-mop-index": b_mop}
    return step | ({"value'": following} if KINDS[kind] != "wr" else {})
