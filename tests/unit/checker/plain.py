"""A plain, slow checker of the analyses without cycles, directly from the rules of jepsen.tests.kafka: an oracle.

Only dictionaries and loops, Jepsen-compatible rules, one set of witnesses per type. It shares only definitions
with the kernels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from checker.kernels.clojure_set_order import set_order
from harness.model.op import Op, polls, sends

Witness = tuple[Any, ...]
MICRO = ("send", "poll", "txn")


def pick(values: set[Any]) -> Any:
    """The value that determines the index of an offset: the first in the order of Clojure's sets."""
    return min(values, key=lambda value: int(set_order(np.array([value], np.int64))[0]))


def _by_key(rows: Iterable[tuple[Any, Any, Any]]) -> dict[Any, list[Any]]:
    grouped: dict[Any, list[Any]] = {}
    for key, _, value in rows:
        grouped.setdefault(key, []).append(value)
    return grouped


def _named(op: Op) -> dict[Any, list[Any]]:
    """The keys that an op's polls name, with or without records."""
    return {key: [] for mop in op.value if mop[0] == "poll" and len(mop) > 1 for key, _ in mop[1]}


def completed(ops: Sequence[Op]) -> list[Op]:
    """The completions by index, with `info` for invocations that never completed."""
    done: list[Op] = []
    open_: dict[Any, Op] = {}
    for op in ops:
        if op.type == "invoke":
            open_[op.process] = op
        else:
            open_.pop(op.process, None)
            done.append(op)
    return sorted([*done, *(op.with_(type="info") for op in open_.values())], key=lambda op: op.index)


class Plain:
    """All findings for one history, by looping over it. `chosen`: picks the value that has the index of an offset."""

    def __init__(self, ops: Sequence[Op], chosen: Callable[[set[Any]], Any] = pick) -> None:
        self.done = completed(ops)
        micro = [op for op in self.done if op.f in MICRO]
        self.polled_ok = {(k, v) for op in micro if op.type == "ok" for k, _, v in polls(op)}
        self.writer = {(k, v): op for op in micro for k, _, v in sends(op)}
        self.micro = micro
        logs: dict[Any, dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
        for op in micro:
            rows = polls(op) + (sends(op) if self.committed(op) else [])
            for key, offset, value in rows:
                if offset is not None:
                    logs[key][offset].add(value)
        self.logs = {key: [(offset, log[offset]) for offset in sorted(log)] for key, log in logs.items()}
        self.order = {key: [chosen(values) for _, values in log] for key, log in self.logs.items()}

    def committed(self, op: Op) -> bool:
        """Whether the op happened: ok, or info with a write that an ok op read."""
        if op.type == "info":
            return any((k, v) in self.polled_ok for k, _, v in sends(op))
        return op.type == "ok"

    def index(self, key: Any, value: Any) -> int | None:
        places = [i for i, v in enumerate(self.order.get(key, [])) if v == value]
        return places[-1] if places else None

    def places(self, key: Any, value: Any) -> list[int]:
        return [i for i, (_, values) in enumerate(self.logs.get(key, [])) if value in values]

    def delta(self, key: Any, a: Any, b: Any) -> int:
        i, j = self.index(key, a), self.index(key, b)
        return 1 if i is None or j is None else j - i

    def within(self, rows: Callable[[Op], list[Any]], excused: bool) -> list[tuple[int, Any, Any, Any, int]]:
        """(op, key, a, b, delta) of steps within ops."""
        found = []
        for op in self.micro:
            moved = {key for event in op.extra.get("rebalance_log", ()) for key in event["keys"]}
            for key, values in _by_key(rows(op)).items():
                for a, b in pairwise(values):
                    if not (excused and key in moved):
                        found.append((op.index, key, a, b, self.delta(key, a, b)))
        return found

    def across(
        self,
        rows: Callable[[Op], list[Any]],
        named: Callable[[Op], dict[Any, list[Any]]],
        reference: tuple[str, ...],
        seen: tuple[str, ...],
    ) -> Any:
        """(previous op, op, key, a, b, delta) of steps between ops of a process."""
        found = []
        last: dict[Any, dict[Any, tuple[int, Any]]] = defaultdict(dict)
        for op in self.done:
            mine = last[op.process]
            if op.f in ("assign", "subscribe") and op.type != "fail":
                last[op.process] = {key: place for key, place in mine.items() if key in op.value}
            elif op.f in MICRO and op.type in seen:
                # After a poll that names a key without any record, the position is unknown.
                for key, values in {**named(op), **_by_key(rows(op))}.items():
                    if key in mine and values and mine[key][1] is not None:
                        before, value = mine[key]
                        found.append((before, op.index, key, value, values[0], self.delta(key, value, values[0])))
                    if op.type in reference:
                        mine[key] = (op.index, values[-1] if values else None)
        return found

    def lost(self) -> set[Witness]:
        found = set()
        for key in {key for key, _ in self.polled_ok}:
            firsts = [self.places(k, v)[0] for k, v in self.polled_ok if k == key and self.places(k, v)]
            for (k, value), writer in self.writer.items():
                places = self.places(key, value)
                below = k == key and places and places[-1] <= max(firsts, default=-1)
                if below and (key, value) not in self.polled_ok and self.committed(writer):
                    bound = max(firsts)
                    found.add((key, value, places[0], bound, writer.index, self.max_reader(key, bound)))
        return found

    def max_reader(self, key: Any, bound: int) -> int | None:
        """The first op that polled the value that Jepsen chooses among those last at the bound."""
        if bound < 0:
            return None
        top = {value for value in self.logs[key][bound][1] if self.places(key, value)[-1] == bound}
        readers = [op.index for op in self.micro for k, _, v in polls(op) if top and (k, v) == (key, pick(top))]
        return min(readers, default=None)

    def skipped(self, key: Any, a: Any, delta: int) -> tuple[Any, ...]:
        """The values that a step of delta > 1 from `a` skipped."""
        place = self.index(key, a)
        return () if place is None else tuple(self.order[key][place + 1 : place + delta])

    def skips(self, steps: Iterable[tuple[int, Any, Any, Any, int]]) -> set[Witness]:
        """The steps within ops that skip values, with these values."""
        return {(*step, self.skipped(step[1], step[2], step[-1])) for step in steps if step[-1] > 1}

    def unseen(self) -> dict[Any, set[Any]]:
        """Key -> values left at the last point of Jepsen's series, whose merge keeps keys that were only polled."""
        left: dict[Any, set[Any]] = {}
        polled: dict[Any, set[Any]] = {}
        for op in self.micro:
            if op.type != "ok":
                continue
            for key, _, value in sends(op):
                left.setdefault(key, set()).add(value)
            for mop in op.value:
                for key, pairs in mop[1] if mop[0] == "poll" and len(mop) > 1 else ():
                    polled.setdefault(key, set()).update(value for _, value in pairs)
            left = {
                key: left[key] - polled.get(key, set()) if key in left else set(polled[key])
                for key in left.keys() | polled.keys()
            }
        return {key: values for key, values in left.items() if values}

    def phantoms(self) -> set[Witness]:
        """(key, value, offset and op of the first poll, number of polls) of values that were never sent."""
        seen: dict[tuple[Any, Any], list[tuple[int, int]]] = {}
        for op in self.micro:
            for key, offset, value in polls(op):
                if (key, value) not in self.writer:
                    seen.setdefault((key, value), []).append((offset, op.index))
        return {(*pair, *places[0], len(places)) for pair, places in seen.items()}

    def answer(self) -> dict[str, set[Witness]]:
        """Witnesses by type; types without witnesses are omitted."""
        failed = {(k, v) for op in self.micro if op.type == "fail" for k, _, v in sends(op)}
        poll_steps, send_steps = self.within(polls, True), self.within(sends, False)
        reads = self.across(polls, _named, ("ok",), ("ok", "info", "fail"))
        writes = self.across(sends, lambda op: {}, ("ok", "info"), ("ok", "info"))
        found: dict[str, set[Witness]] = {
            "G1a": {
                (key, value, self.writer[(key, value)].index, op.index)
                for op in self.micro
                if op.type == "ok"
                for key, _, value in polls(op)
                if (key, value) in failed
            },
            "precommitted-read": {
                (op.index,)
                for op in self.micro
                if {(k, v) for k, _, v in sends(op)} & {(k, v) for k, _, v in polls(op)}
            },
            "lost-write": self.lost(),
            "inconsistent-offsets": {
                (key, offset, i, tuple(sorted(values)))
                for key, log in self.logs.items()
                for i, (offset, values) in enumerate(log)
                if len(values) > 1
            },
            "duplicate": {
                (key, value, tuple(self.logs[key][i][0] for i in self.places(key, value)))
                for key, log in self.logs.items()
                for value in {v for _, values in log for v in values}
                if len(self.places(key, value)) > 1
            },
            "phantom-read": self.phantoms(),
            "unseen": {(key, tuple(sorted(values))) for key, values in self.unseen().items()},
            "int-poll-skip": self.skips(poll_steps),
            "int-nonmonotonic-poll": {step for step in poll_steps if step[-1] < 1},
            "int-send-skip": self.skips(send_steps),
            "int-nonmonotonic-send": {step for step in send_steps if step[-1] < 1},
            "poll-skip": {(a, b, key, d, self.skipped(key, v, d)) for a, b, key, v, _, d in reads if d > 1},
            "nonmonotonic-poll": {step for step in reads if step[-1] < 1},
            "nonmonotonic-send": {step for step in writes if step[-1] < 1},
        }
        return {name: witnesses for name, witnesses in found.items() if witnesses}


def shaped(name: str, witness: dict[str, Any]) -> Witness:
    """A witness of the kernels in the oracle's form."""
    w = witness
    if name in ("int-poll-skip", "int-send-skip"):
        return (w["op"], w["key"], *w["values"], w["delta"], tuple(w["skipped"]))
    if name in ("int-nonmonotonic-poll", "int-nonmonotonic-send"):
        return (w["op"], w["key"], *w["values"], w["delta"])
    if name == "poll-skip":
        return (*w["ops"], w["key"], w["delta"], tuple(w["skipped"]))
    if name in ("nonmonotonic-poll", "nonmonotonic-send"):
        return (*w["ops"], w["key"], *w["values"], w["delta"])
    if name == "inconsistent-offsets":
        return (w["key"], w["offset"], w["index"], tuple(w["values"]))
    if name == "duplicate":
        return (w["key"], w["value"], tuple(w["offsets"]))
    names = {
        "G1a": ("key", "value", "writer", "reader"),
        "lost-write": ("key", "value", "index", "max-read-index", "writer", "max-read"),
        "phantom-read": ("key", "value", "offset", "op", "count"),
    }
    return tuple(w[field] for field in names.get(name, ("op",)))


def shaped_all(name: str, witnesses: Sequence[Any]) -> set[Witness]:
    """All witnesses of one type in the oracle's form; `unseen` has one for all keys."""
    if name != "unseen":
        return {shaped(name, witness) for witness in witnesses}
    ((messages),) = [witness["messages"] for witness in witnesses]
    return {(_original(key), tuple(sorted(values))) for key, values in messages.items()}


def _original(key: str) -> Any:
    """Keys of JSON objects are strings; the histories compared here have integers."""
    return int(key) if key.lstrip("-").isdigit() else key
