"""Finds sets of operations with which the reduction of a history can start: those that a witness names, then larger
sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from harness.model.op import OK, polls, sends
from harness.report.text.involved_ops import named_ops, pairs
from harness.shrinking.find_witness import Target
from harness.shrinking.sub_history import ASSIGNING, Name, Place, Unit, Whole, name, places

WRITERS_MAX: Final = 4
READERS_MAX: Final = 4


def circles(whole: Whole, target: Target, keys: AbstractSet[Name]) -> Iterator[frozenset[int]]:
    """Yields sets of ids of operations, each larger than the previous one.

    The first set contains the operations that the witness names, and the writers and readers of the witness's records.
    The last set contains all operations.
    """
    units = {unit.id: unit for unit in whole.units}
    named = _named(whole, units, target)
    ends = [unit.id for unit in _last_looks(whole.units, keys)]
    beyond = _beyond([units[id_] for id_ in (*named, *ends)], whole)
    near = frozenset({*named, *ends, *beyond} & units.keys())
    processes = {name(units[id_].last.process) for id_ in near}
    assigned = {u.id for u in whole.units if u.last.f in ASSIGNING and name(u.last.process) in processes}
    theirs = {u.id for u in whole.units if name(u.last.process) in processes}
    wider = (frozenset(named & units.keys()), near, near | assigned, near | theirs, frozenset(units))
    yield from dict.fromkeys(wider)


def _named(whole: Whole, units: Mapping[int, Unit], target: Target) -> set[int]:
    """Returns the operations that the witness names, and the writers and readers of its records."""
    witness = target.witness
    found = set(named_ops(witness)) & units.keys()
    wanted = {(name(key), name(value)) for key, value in pairs(witness)}
    for field in ("skipped", "messages"):
        values = list(witness.get(field) or ())[:WRITERS_MAX]
        wanted |= {(name(witness.get("key")), name(value)) for value in values}
    if not wanted:  # the witness is a whole operation, as for a torn transaction
        wanted = {place for id_ in found for place in places(sends(units[id_].last))}
    for place in sorted(wanted, key=repr):
        found.update(whole.writers.get(place, ())[:WRITERS_MAX])
    found |= _readers(whole.units, wanted)
    return found


def _readers(units: Iterable[Unit], wanted: AbstractSet[Place]) -> set[int]:
    """Returns, for each wanted record and each offset at which it was read, the operation that read it first.

    At most READERS_MAX offsets of each record are used.
    """
    seen: dict[tuple[Place, int], int] = {}
    each: dict[Place, int] = {}
    for unit in units:
        if unit.last.type != OK:
            continue
        for key, offset, value in polls(unit.last):
            place = (name(key), name(value))
            if place in wanted and (place, offset) not in seen and each.get(place, 0) < READERS_MAX:
                seen[place, offset] = unit.id
                each[place] = each.get(place, 0) + 1
    return set(seen.values())


def _last_looks(units: Iterable[Unit], keys: AbstractSet[Name]) -> list[Unit]:
    """Returns, for each key, the final poll that reached the highest position; if there are several, the latest."""
    best: dict[Name, tuple[int, int, Unit]] = {}
    for unit in units:
        op = unit.last
        if op.type != OK or not op.extra.get("final"):
            continue
        for key, position in op.extra.get("positions") or ():
            if name(key) in keys and position is not None:
                rank = (position, unit.id, unit)
                if name(key) not in best or rank[:2] >= best[name(key)][:2]:
                    best[name(key)] = rank
    return list({unit.id: unit for _, _, unit in best.values()}.values())


def _beyond(units: Iterable[Unit], whole: Whole) -> set[int]:
    """Returns, for each operation and key, the writer of the record with the highest offset that the
    operation polled."""
    found: set[int] = set()
    for unit in units:
        top: dict[Name, tuple[int, Any]] = {}
        for key, offset, value in polls(unit.last):
            if offset is not None and offset >= top.get(name(key), (-1, None))[0]:
                top[name(key)] = (offset, value)
        for key, (_, value) in top.items():
            found.update(whole.writers.get((key, name(value)), ())[:1])
    return found
