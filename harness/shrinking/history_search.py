"""Finds the smallest part of a history that still shows one witness of an anomaly.

A part consists of operations as they were recorded, but without some of their records (see `Part`).

What a part proves. The checker finds in it a witness that it also found in the whole history, with the same
operations, keys and values, and finds nothing that the whole history does not show. So the anomaly is not caused by
omitting operations. That no client read a lost record is known only from the whole history. If the whole history
shows that a log was read to its end, the part also shows this, with a final poll. The part may lack what is needed to
find the cause.

Cycles. The cycle in the part may differ from the witness of the whole history, but it is also a cycle of the whole
history: each edge between two operations of the part is an edge of the whole history, or a path of several edges.
In a part with a cycle, records may look unread because their readers were omitted. Such records are ignored if the
part does not read their logs to the end.

How the search works. It first tries the few operations that the witness names, then all operations of the same
processes, then all operations on the witness's keys, then all operations. The first of these sets that shows the
witness is reduced by delta debugging: over keys, processes, operations and records, in turn, until nothing more can
be removed. The search is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.model.check_options import CheckOptions
from harness.model.errors_and_exit_codes import BadHistory
from harness.model.op import Op, polls, sends
from harness.shrinking import find_witness
from harness.shrinking.ddmin import Budget, minimal
from harness.shrinking.find_witness import Findings, Target
from harness.shrinking.starting_points import circles
from harness.shrinking.sub_history import Name, Place, Whole, cut, name, places

ASKS_MAX: Final = 5_000
REPAIRS_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a history.

    ids      ids of the operations that it contains
    keys     keys that it contains; the operations are trimmed to these
    dropped  records that are removed from these operations
    """

    ids: frozenset[int]
    keys: frozenset[Name]
    dropped: frozenset[Place] = frozenset()


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The result of the search.

    ops        the operations of the part, in order of their indices
    units      number of operations, with invocation and completion counted as one
    questions  number of evaluations
    minimal    whether the search was completed
    """

    ops: tuple[Op, ...]
    units: int
    questions: int
    minimal: bool


class Question:
    """Determines whether a part of a history shows the target."""

    def __init__(self, whole: Whole, target: Target, options: CheckOptions) -> None:
        self.whole, self.target, self.options = whole, target, options

    def ops(self, part: Part) -> list[Op]:
        return cut(self.whole, part.ids, part.keys, part.dropped)

    def holds(self, part: Part) -> bool:
        try:
            if find_witness.is_cycle(self.target.anomaly):
                has_cycle = self.target.shown_cycle(find_witness.cycles(self.ops(part), self.options))
                return has_cycle and not self._invented(part)
            return self.target.shown(self.findings(part))
        except BadHistory:  # the part is malformed, such as a completion without its invocation
            return False

    def findings(self, part: Part) -> Findings:
        return find_witness.findings(self.ops(part), self.options, self.whole.counts)

    def _invented(self, part: Part) -> list[tuple[str, find_witness.Witness, str]]:
        """Returns what the part shows but the whole history does not.

        If the target is a cycle, unseen records in logs that the part does not read to the end are ignored.
        """
        claims = self.target.invented(self.findings(part))
        if find_witness.is_cycle(self.target.anomaly):
            return [claim for claim in claims if claim[0] != find_witness.UNSEEN or claim[1].get("complete")]
        return claims

    def repaired(self, part: Part) -> Part | None:
        """Removes records that only the part reports as lost, unseen, duplicate or phantom. Returns the changed part.

        Returns None if the changed part does not show the target.
        """
        for _ in range(REPAIRS_MAX):
            if self.holds(part):
                return part
            try:
                invented = self._invented(part)
            except BadHistory:
                return None
            wrong = frozenset(_records(invented)) - part.dropped
            if not wrong:
                return None
            part = replace(part, dropped=part.dropped | wrong)
        return None


def _records(invented: Sequence[tuple[str, find_witness.Witness, str]]) -> Iterator[Place]:
    for anomaly, witness, _ in invented:
        if anomaly in ("lost-write", "phantom-read", "duplicate"):
            yield name(witness["key"]), name(witness["value"])
        elif anomaly == find_witness.UNSEEN:
            yield from ((name(witness["key"]), name(value)) for value in witness["messages"])


def shrink(whole: Whole, target: Target, keys: frozenset[Name], options: CheckOptions) -> Shrunk | None:
    """Returns the smallest part that shows the target; None if not even all operations of `whole` show it."""
    question = Question(whole, target, options)
    for ids in circles(whole, target, keys):
        part = question.repaired(Part(ids, keys))
        if part is not None:
            return _smaller(question, part)
    return None


def _smaller(question: Question, part: Part) -> Shrunk:
    budget = Budget(ASKS_MAX)
    size: tuple[int, ...] = ()
    while size != (size := _size(part)) and budget.left:
        part = _fewer_keys(question, part, budget)
        part = _fewer_units(question, part, budget)
        part = _fewer_records(question, part, budget)
    ops = tuple(question.ops(part))
    return Shrunk(ops, len(part.ids), ASKS_MAX - budget.left, budget.left > 0)


def _size(part: Part) -> tuple[int, ...]:
    return len(part.ids), len(part.keys), len(part.dropped)


def _fewer_keys(question: Question, part: Part, budget: Budget) -> Part:
    def holds(keys: Sequence[Name]) -> bool:
        return question.holds(replace(part, keys=frozenset(keys)))

    kept = minimal(sorted(part.keys, key=lambda key: (type(key) is not int, key)), holds, budget)
    return replace(part, keys=frozenset(kept))


def _fewer_units(question: Question, part: Part, budget: Budget) -> Part:
    """Removes operations from a part: first all those of a process at a time, then single operations."""
    process = {unit.id: name(unit.last.process) for unit in question.whole.units if unit.id in part.ids}

    def by_process(kept: Sequence[Name]) -> bool:
        chosen = set(kept)
        return question.holds(replace(part, ids=frozenset(id_ for id_ in part.ids if process[id_] in chosen)))

    of = list(dict.fromkeys(process[id_] for id_ in sorted(part.ids)))
    chosen = set(minimal(of, by_process, budget))
    ids = sorted(id_ for id_ in part.ids if process[id_] in chosen)
    kept = minimal(ids, lambda some: question.holds(replace(part, ids=frozenset(some))), budget)
    return replace(part, ids=frozenset(kept))


def _fewer_records(question: Question, part: Part, budget: Budget) -> Part:
    ops = question.ops(part)
    records = list(dict.fromkeys(place for op in ops for place in places(sends(op) + polls(op))))

    def holds(kept: Sequence[Place]) -> bool:
        removed = frozenset(records) - frozenset(kept)
        return question.holds(replace(part, dropped=part.dropped | removed))

    kept = minimal(records, holds, budget)
    return replace(part, dropped=part.dropped | (frozenset(records) - frozenset(kept)))
