"""Reduces a history to some of its operations, keys and records.

The invocation and the completion of an operation are kept or removed together, as one `Unit`. A record is a value of a
key. If all operations that sent a record are removed, the record is also removed from every poll: otherwise a poll
would return a record that nobody sent. Nothing else changes. No operation is added or moved, and indices and times stay
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checker.tables.coding import text_of
from checker.tables.read_history import Notes, read
from harness.model import op_json
from harness.model.op import INVOKE, NEMESIS, Op, polls, sends

Name = int | str
Place = tuple[Name, Name]  # a record: key and value
MICRO: Final = ("send", "poll", "txn")
ASSIGNING: Final = ("assign", "subscribe")
PAIRED: Final = ("positions", "ends", "committed")  # of `extra`: lists of [key, ...]


def name(value: Any) -> Name:
    """Returns a hashable stand-in for a key or a value of any type."""
    return value if type(value) is int else text_of(value)


@dataclass(frozen=True, slots=True)
class Unit:
    """An operation: its invocation and its completion.

    done  the completion; None if the operation never completed
    id    the index by which witnesses name the operation: the index of its completion or, without one, its invocation
    """

    invoked: Op | None
    done: Op | None

    @property
    def last(self) -> Op:
        found = self.done or self.invoked
        assert found is not None
        return found

    @property
    def id(self) -> int:
        return self.last.index

    @property
    def ops(self) -> list[Op]:
        return [op for op in (self.invoked, self.done) if op is not None]


@dataclass(frozen=True, slots=True)
class Whole:
    """The operations of a history (all, or those that concern certain keys), and its faults.

    counts   f -> type -> number of operations on all keys
    writers  record -> ids of the operations that sent it
    """

    units: tuple[Unit, ...]
    nemesis: tuple[Op, ...]
    counts: Mapping[str, Mapping[str, int]]
    writers: Mapping[Place, tuple[int, ...]] = field(default_factory=dict)
    header: Mapping[str, Any] = field(default_factory=dict)


def load(run: Path, keys: AbstractSet[Name] | None) -> Whole:
    """Reads a run's history line by line. Raises BadHistory for the same reasons as the checker.

    keys  only operations on these keys are returned, without their sends and polls of other keys; None: all keys
    """
    units: list[Unit] = []
    nemesis: list[Op] = []
    counts: dict[str, dict[str, int]] = {}
    open_: dict[Name, Op] = {}

    def take(unit: Unit) -> None:
        f, kind = unit.last.f, unit.last.type if unit.done is not None else "info"
        counts.setdefault(f, {}).setdefault(kind, 0)
        counts[f][kind] += 1
        if keys is None:
            units.append(unit)
            return
        trimmed = Unit(*(None if op is None else of_keys(op, keys) for op in (unit.invoked, unit.done)))
        if touches(trimmed.last):
            units.append(trimmed)

    for line in read(run, Notes()):
        op = op_json.from_data({"value": None, **line[0]})
        if op.process == NEMESIS:
            nemesis.append(op)
        elif op.type == INVOKE:
            open_[name(op.process)] = op
        else:
            take(Unit(open_.pop(name(op.process), None), op))
    for op in open_.values():
        take(Unit(op, None))
    units.sort(key=lambda unit: unit.id)
    return Whole(tuple(units), tuple(nemesis), counts, _writers(units))


def _writers(units: Iterable[Unit]) -> dict[Place, tuple[int, ...]]:
    found: dict[Place, list[int]] = {}
    for unit in units:
        for place in places(sends(unit.last)):
            found.setdefault(place, []).append(unit.id)
    return {place: tuple(ids) for place, ids in found.items()}


def places(rows: Iterable[tuple[Any, Any, Any]]) -> list[Place]:
    """Returns the records in (key, offset, value) rows, without their offsets."""
    return [(name(key), name(value)) for key, _, value in rows]


def touches(op: Op) -> bool:
    """Returns whether an operation still contains anything, after everything about other keys was removed."""
    if op.f in MICRO and isinstance(op.value, list):
        spoken = any(len(mop) == 3 or (len(mop) == 2 and mop[1]) for mop in op.value)
        return spoken or any(op.extra.get(field) for field in PAIRED)
    return bool(op.f in (*ASSIGNING, "debug-topic-partitions", "delete-records") and op.value)


def of_keys(op: Op, keys: AbstractSet[Name]) -> Op:
    """Returns an op without the parts about keys that are not in `keys`."""
    return _trimmed(op, lambda key: name(key) in keys, lambda key, value: True)


def cut(whole: Whole, ids: AbstractSet[int], keys: AbstractSet[Name], dropped: AbstractSet[Place]) -> list[Op]:
    """Returns the invocations and completions of chosen operations, in order of their indices.

    ids      ids of the chosen operations
    keys     everything about other keys is removed
    dropped  records that are also removed
    """
    writers = whole.writers

    def stays(key: Any, value: Any) -> bool:
        place = (name(key), name(value))
        if place in dropped:
            return False
        return place not in writers or any(id_ in ids for id_ in writers[place])

    kept = [op for unit in whole.units if unit.id in ids for op in unit.ops]
    trimmed = [_trimmed(op, lambda key: name(key) in keys, stays) for op in kept]
    return sorted(trimmed, key=lambda op: op.index)


def _trimmed(op: Op, wanted: Callable[[Any], bool], stays: Callable[[Any, Any], bool]) -> Op:
    value, extra = op.value, op.extra
    if isinstance(value, list):
        if op.f in MICRO:
            value = [mop for mop in (_mop(mop, wanted, stays) for mop in value) if mop is not None]
        elif op.f in ASSIGNING:
            value = [key for key in value if wanted(key)]
        else:
            value = [row for row in value if wanted(row[0] if isinstance(row, list) and row else row)]
    if extra:
        extra = {field: _extra_field(field, content, wanted) for field, content in extra.items()}
    return op.with_(value=value, extra=extra)


def _mop(mop: Any, wanted: Callable[[Any], bool], stays: Callable[[Any, Any], bool]) -> Any:
    """Returns a micro-op without the removed keys and records; None if it is a send that was removed.

    wanted  returns whether a key stays
    stays   returns whether a record (key, value) stays
    """
    if not isinstance(mop, list) or not mop:
        return mop
    if mop[0] == "send" and len(mop) == 3:
        value = mop[2][1] if isinstance(mop[2], list) and len(mop[2]) == 2 else mop[2]
        return mop if wanted(mop[1]) and stays(mop[1], value) else None
    if mop[0] == "poll" and len(mop) == 2 and isinstance(mop[1], list):
        rows = []
        for key, pairs in mop[1]:
            kept = [pair for pair in pairs or () if stays(key, pair[1])] if wanted(key) else []
            if wanted(key) and (kept or not pairs):
                rows.append([key, kept])
        return ["poll", rows]
    return mop


def _extra_field(field: str, value: Any, wanted: Callable[[Any], bool]) -> Any:
    if field in PAIRED and isinstance(value, list):
        return [row for row in value if wanted(row[0])]
    if field == "rebalance_log" and isinstance(value, list):
        return [_event(event, wanted) if isinstance(event, dict) else event for event in value]
    return value


def _event(event: Mapping[str, Any], wanted: Callable[[Any], bool]) -> dict[str, Any]:
    kept = dict(event)
    if isinstance(event.get("keys"), list):
        kept["keys"] = [key for key in event["keys"] if wanted(key)]
    if isinstance(event.get("committed"), list):
        kept["committed"] = [row for row in event["committed"] if wanted(row[0])]
    return kept


def keys_of(units: Sequence[Unit]) -> list[Name]:
    """Returns the keys that these operations name, without duplicates, in order of their first occurrence."""
    found: dict[Name, None] = {}
    for unit in units:
        op = unit.last
        rows = sends(op) + polls(op)
        found.update((key, None) for key, _ in places(rows))
        if op.f in ASSIGNING and isinstance(op.value, list):
            found.update((name(key), None) for key in op.value)
        elif isinstance(op.value, list) and op.f not in MICRO:
            found.update((name(row[0] if isinstance(row, list) and row else row), None) for row in op.value)
        for part in PAIRED:
            found.update((name(row[0]), None) for row in op.extra.get(part) or ())
    return list(found)
