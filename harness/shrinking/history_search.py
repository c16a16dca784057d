"""Reduces a history to a few operations that still show one witness of an anomaly.

The reduced history (a `Part`) consists of operations as they were recorded, but some of their records may be removed.

What a reduced history proves. In a reduced history, the checker finds a witness that it also found in the original
history, with the same operations, keys and values. The checker finds nothing that the original history does not show,
so the anomaly is not caused by the removal of operations. Only the original history can prove that no client read a
lost record. If the original history shows that a log was read to its end, the reduced history also shows this, with a
final poll. Operations that point to the cause of the anomaly may have been removed.

Cycles. The cycle may differ from the witness in the original history, but it is also a cycle of the original history:
each of its edges is an edge there, or stands for a path of several edges. In a reduced history with a cycle, records
may look unread because their readers were removed. Such records are ignored if the reduced history does not read their
logs to the end.

How the search works. The search tries larger and larger sets of operations (see `starting_points`), from the operations
that the witness names up to all operations. The first set that shows the witness is reduced by delta debugging: keys,
processes, operations and records are removed in turn, until nothing more can be removed. The search is deterministic.
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
    """A choice of operations and records: a reduced history.

    ids      ids of the operations that it contains
    keys     keys that it contains; whatever the operations do with other keys is removed
    dropped  records that are removed from these operations
    """

    ids: frozenset[int]
    keys: frozenset[Name]
    dropped: frozenset[Place] = frozenset()


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The result of the search.

    ops        the operations of the reduced history, in order of their indices
    units      number of operations, with invocation and completion counted as one
    questions  how many times the checker was run on a candidate
    minimal    whether the search was completed, so that nothing more can be removed
    """

    ops: tuple[Op, ...]
    units: int
    questions: int
    minimal: bool


class Question:
    """Answers whether a reduced history still shows the target, by running the checker on it."""

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
        """Returns what the reduced history shows although the original history does not.

        If the target is a cycle, unseen records are ignored, unless the reduced history reads their logs to the end.
        """
        claims = self.target.invented(self.findings(part))
        if find_witness.is_cycle(self.target.anomaly):
            return [claim for claim in claims if claim[0] != find_witness.UNSEEN or claim[1].get("complete")]
        return claims

    def repaired(self, part: Part) -> Part | None:
        """Removes the records that are reported as lost, unseen, duplicate or phantom only because operations were
        removed.

        Returns the changed part; None if it does not show the target.
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
    """Returns the smallest reduced history that the search finds; None if even all operations do not show
    the target."""
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
    """Removes operations: first all operations of a process at once, for each process, then single ones."""
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
