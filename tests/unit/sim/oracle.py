"""The rules of the anomalies in as little code as possible: an oracle for the simulated log.

Quadratic where that is shorter, in memory, no options. It is not a general checker: its excuses are the simplest that
are right for simulated histories (a rebalance excuses the key from then until the process next reports it).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from harness.model.op import FAIL, INFO, INVOKE, OK, Op, polls, sends
from tests.unit.partners import partners


def anomalies(ops: Sequence[Op]) -> set[str]:
    """Names of the anomalies in a run with final polls, under read_committed."""
    done: list[Op] = []
    invoked_ns: dict[int, int] = {}
    for op, completion in zip(ops, partners(ops), strict=True):
        if op.type != INVOKE:
            done.append(op)
        elif completion is None:
            done.append(op.with_(type=INFO))
            invoked_ns[op.index] = op.time_ns
        else:
            invoked_ns[completion.index] = op.time_ns
    return Oracle(done, invoked_ns).found


class Oracle:
    def __init__(self, done: Sequence[Op], invoked_ns: Mapping[int, int]) -> None:
        self.done = done
        self.invoked_ns = invoked_ns
        self.found: set[str] = set()
        self.writer = {(k, v): op for op in done for k, _, v in sends(op)}
        self.read_ok = {(k, v) for op in done if op.type == OK for k, _, v in polls(op)}
        self.committed = [
            op
            for op in done
            if op.type == OK or (op.type == INFO and any((k, v) in self.read_ok for k, _, v in sends(op)))
        ]
        self.index = self._versions()
        self._values()
        self._losses()
        self._within_ops()
        self._between_ops()
        self._order_of_appends()
        self._information_flow()
        self._offsets()
        self._owners()
        self._beginnings()

    def _versions(self) -> dict[tuple[int, int], int]:
        log: defaultdict[int, defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for op in self.committed:
            for k, offset, v in sends(op):
                if offset is not None:
                    log[k][offset].add(v)
        for op in self.done:
            for k, offset, v in polls(op):
                log[k][offset].add(v)
        index: dict[tuple[int, int], int] = {}
        for k, offsets in log.items():
            for at, offset in enumerate(sorted(offsets)):
                if len(offsets[offset]) > 1:
                    self.found.add("inconsistent-offsets")
                for v in offsets[offset]:
                    if (k, v) in index:
                        self.found.add("duplicate")
                    index[k, v] = at
        return index

    def _values(self) -> None:
        for op in self.done:
            own = {(k, v) for k, _, v in sends(op)}
            for k, _, v in polls(op):
                if (k, v) not in self.writer:
                    self.found.add("phantom-read")
                elif op.type == OK and self.writer[k, v].type == FAIL:
                    self.found.add("G1a")
                if (k, v) in own:
                    self.found.add("precommitted-read")

    def _losses(self) -> None:
        for op in self.committed:
            wrote = {(k, v) for k, _, v in sends(op)}
            lost = wrote - self.read_ok
            if lost:
                # Final polls have read every log to its end, so a record that was never read is not in its log.
                self.found.add("lost-write")
                if op.type == OK:
                    self.found.add("unseen")
                if len(wrote) > len(lost):
                    self.found.add("torn-transaction")

    def _delta(self, k: int, first: int, second: int) -> int:
        if (k, first) not in self.index or (k, second) not in self.index:
            return 1
        return self.index[k, second] - self.index[k, first]

    def _compare(self, prefix: str, kind: str, pairs: Iterable[tuple[int, int, int]]) -> None:
        for k, first, second in pairs:
            delta = self._delta(k, first, second)
            if delta > 1 and not (kind == "send" and not prefix):
                self.found.add(f"{prefix}{kind}-skip")
            if delta < 1:
                self.found.add(f"{prefix}nonmonotonic-{kind}")

    def _within_ops(self) -> None:
        for op in self.done:
            rebalanced = _rebalanced(op)
            self._compare("int-", "poll", _neighbours(polls(op), rebalanced))
            if op.type != FAIL:
                self._compare("int-", "send", _neighbours(sends(op), set()))

    def _between_ops(self) -> None:
        polled: defaultdict[object, dict[int, int]] = defaultdict(dict)
        sent: defaultdict[object, dict[int, int]] = defaultdict(dict)
        for op in self.done:
            last, wrote = polled[op.process], sent[op.process]
            if op.f in ("assign", "subscribe") and op.type == OK:
                for k in [k for k in last if k not in op.value]:
                    del last[k]
            rebalanced = _rebalanced(op)
            for k in rebalanced:
                last.pop(k, None)
            if op.f == "subscribe":
                last.clear()
            ends: dict[int, int] = {}
            for k, _, v in polls(op):
                if k not in ends and k in last:
                    self._compare("", "poll", [(k, last[k], v)])
                ends[k] = v
            if op.type == OK:
                last.update({k: v for k, v in ends.items() if k not in rebalanced})
            if op.type != FAIL:
                ends = {}
                for k, _, v in sends(op):
                    if k not in ends and k in wrote:
                        self._compare("", "send", [(k, wrote[k], v)])
                    ends[k] = v
                wrote.update(ends)

    def _order_of_appends(self) -> None:
        """Acknowledged records come before those that were sent later."""
        offsets = {(k, v): offset for op in self.done for k, offset, v in polls(op)}
        if {"duplicate", "inconsistent-offsets"} & self.found:
            return
        rows = [(op, k, v) for op in self.done for k, _, v in sends(op) if (k, v) in offsets]
        for first, k, v in rows:
            if first.type == OK and any(
                first.time_ns < self.invoked_ns[second.index] and offsets[k, w] < offsets[k, v]
                for second, key, w in rows
                if key == k
            ):
                self.found.add("stale-send")

    def _offsets(self) -> None:
        """A group's offsets never go back, and none is from an aborted transaction."""
        commits = [(op, k, at) for op in self.done for k, at in op.extra.get("committed", ())]
        for op in self.done:
            events = op.extra.get("rebalance_log", ())
            fetched = [(k, -1 if at is None else at) for e in events for k, at in e.get("committed", ())]
            for k, at in fetched + [(k, at) for who, k, at in commits if who is op and op.type == OK]:
                earlier = [
                    a
                    for c, j, a in commits
                    if j == k and c.type == OK and c.time_ns <= self.invoked_ns[op.index] and c is not op
                ]
                if at < max(earlier, default=-1):
                    self.found.add("offset-regression")
            for k, at in fetched:
                types = {c.type for c, j, a in commits if (j, a) == (k, at)}
                if types == {FAIL}:
                    self.found.add("offset-regression")

    def _owners(self) -> None:
        """No key has two members whose commits the group accepts after it was assigned to both."""
        stints: list[tuple[object, int, Op, list[Op]]] = []
        current: dict[tuple[object, object], tuple[object, int, Op, list[Op]] | None] = {}
        for op in self.done:
            for event in op.extra.get("rebalance_log", ()):
                for k in event["keys"]:
                    current[op.process, k] = (op.process, k, op, []) if event["event"] == "assigned" else None
                    stints += [current[op.process, k]] if current[op.process, k] else []  # type: ignore[list-item]
            for k, _ in op.extra.get("committed", ()):
                stint = current.get((op.process, k))
                if op.type == OK and stint:
                    stint[3].append(op)
        for (a, k, first, ours), (b, j, second, theirs) in itertools.combinations(stints, 2):
            after = max(first.time_ns, second.time_ns)
            if (
                a != b
                and k == j
                and all(any(self.invoked_ns[op.index] > after for op in ops) for ops in (ours, theirs))
            ):
                self.found.add("concurrent-owners")

    def _beginnings(self) -> None:
        """A process that is assigned a key starts to read it at the group's committed offset."""
        offsets = {(k, v): at for op in self.done for k, at, v in polls(op)}
        begin: defaultdict[object, dict[int, int]] = defaultdict(dict)
        for op in self.done:
            mine = begin[op.process]
            if op.f in ("assign", "subscribe"):
                mine.clear()
            read: dict[int, int] = {}
            for k, at, _ in polls(op):
                read.setdefault(k, at)
            events = op.extra.get("rebalance_log", ())
            moved = [k for event in events for k in event["keys"]]
            for event in events:
                for k in event["keys"]:
                    mine.pop(k, None)
                mine.update({k: at or 0 for k, at in event.get("committed", ())})
            for k, at in read.items():
                committed = mine.pop(k, None)
                if committed is None or moved.count(k) > 1:  # its polls may come from an earlier assignment
                    continue
                first = min((a for (key, _), a in offsets.items() if key == k and a >= committed), default=at)
                if at != first:
                    self.found.add("poll-skip" if at > first else "nonmonotonic-poll")

    def _information_flow(self) -> None:
        """No op polls records that depend on its own sends."""
        after: defaultdict[int, set[int]] = defaultdict(set)
        for op in self.done:
            for k, _, v in polls(op):
                if (k, v) in self.writer and self.writer[k, v].index != op.index:
                    after[self.writer[k, v].index].add(op.index)
        for start in list(after):
            reached, edge = set[int](), set(after[start])
            while edge:
                reached |= edge
                edge = {later for at in edge for later in after.get(at, ())} - reached
            if start in reached:
                self.found.add("G1c")


def _rebalanced(op: Op) -> set[int]:
    return {key for event in op.extra.get("rebalance_log", ()) for key in event["keys"]}


def _neighbours(rows: Sequence[tuple[int, int | None, int]], without: set[int]) -> Iterable[tuple[int, int, int]]:
    last: dict[int, int] = {}
    for k, _, v in rows:
        if k in last and k not in without:
            yield k, last[k], v
        last[k] = v
