"""The order of the steps of an upgrade, and their turns with other faults. Pure.

The verbs upgrade, roll-back, finalize and downgrade do one step per op, such as the restart of one server. The value of
an op says how far its verb has come: `complete` if the verb has nothing left to do, `half` if half of the servers run
the new version. The course runs the chosen verbs in this order, whatever the order in which they were named:

    upgrade until half of the servers are upgraded, roll-back     only if roll-back is chosen
    upgrade of all servers
    finalize:features, finalize:kraft, downgrade                  if they are chosen

A migration from ZooKeeper to KRaft goes forth until it is complete or, if `migrate:back` is chosen, until half of the
brokers run as KRaft brokers, and then back.

Between two steps, the other faults of the group have one round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from harness.generator import After, Once
from harness.model.fault_and_generator_protocols import Context, Fault, Generator, Pending
from harness.model.op import Op
from nemesis.schedule.timing import Timing

UPGRADE: Final = "upgrade"
ROLL_BACK: Final = "roll-back"
FINALIZE: Final = "finalize"
DOWNGRADE: Final = "downgrade"
MIGRATE: Final = "migrate"
VERBS: Final = (UPGRADE, ROLL_BACK, FINALIZE, DOWNGRADE, MIGRATE)
FORTH, BACK = f"{MIGRATE}:to-kraft", f"{MIGRATE}:back"
COMPLETE: Final = "complete"
HALF: Final = "half"

Answer = tuple[Op | Pending, Generator] | None
Phase = tuple[str, str]
"""The name of a fault, and the field of its op's value that ends the phase."""


def verb_of(fault: str) -> str:
    """Returns the verb of a fault's name, if it is one of VERBS; otherwise ""."""
    verb = fault.partition(":")[0]
    return verb if verb in VERBS else ""


def phases(faults: Sequence[str]) -> tuple[Phase, ...]:
    """Returns the phases of a course with the faults of these names, in order."""
    ordered = sorted(faults, key=lambda name: VERBS.index(verb_of(name)))
    of = {verb: [name for name in ordered if verb_of(name) == verb] for verb in VERBS}
    half_way = [*((name, HALF) for name in of[UPGRADE]), *((name, COMPLETE) for name in of[ROLL_BACK])]
    rest = (*of[UPGRADE], *of[FINALIZE], *of[DOWNGRADE])
    if of[MIGRATE]:
        return ((FORTH, HALF), (BACK, COMPLETE)) if BACK in faults else ((FORTH, COMPLETE),)
    return (*(half_way if of[ROLL_BACK] else ()), *((name, COMPLETE) for name in rest))


@dataclass(frozen=True, slots=True)
class Course:
    """The generator of a course's steps and of the rounds of the faults between them.

    steps    name of a fault -> the op of one step
    others   the faults that have a round after each step, one of them each time
    left     the phases that are not complete
    turn     number of completed rounds and steps
    current  the generator of the current round or step
    """

    steps: Mapping[str, Op]
    others: Sequence[Fault]
    timing: Timing
    left: tuple[Phase, ...]
    turn: int = 0
    current: Generator | None = field(default=None)

    def op(self, ctx: Context) -> Answer:
        turn = self.turn
        current = self.current if self.current is not None else self._make(turn)
        for _ in range(3):
            answer = None if current is None else current.op(ctx)
            if answer is not None:
                return answer[0], replace(self, turn=turn, current=answer[1])
            turn += 1
            current = self._make(turn)
        return None

    def _make(self, turn: int) -> Generator | None:
        """Returns the generator of a turn: even turns are steps, and odd turns are rounds of other faults."""
        if turn % 2 == 1:
            return self.others[turn // 2 % len(self.others)].rounds(turn) if self.others else None
        if not self.left:
            return None
        wait_s = self.timing.first_s if turn == 0 else self.timing.interval_s / 2
        return After(int(wait_s * 1e9), Once(self.steps[self.left[0][0]]))

    def update(self, ctx: Context, event: Op) -> Generator:
        current = None if self.current is None else self.current.update(ctx, event)
        left = self.left
        if left and event.extra.get("phase") == "complete" and event.extra.get("fault") == left[0][0]:
            done = isinstance(event.value, Mapping) and event.value.get(left[0][1])
            left = left[1:] if done else left
        if current is self.current and left is self.left:
            return self
        return replace(self, current=current, left=left)


def of_group(faults: Sequence[Fault], timing: Timing) -> Course | None:
    """Returns the course of a group of faults that take turns; None if no fault of the group belongs to an upgrade."""
    steps = {fault.name: fault.rounds.start for fault in faults if verb_of(fault.name)}
    if not steps:
        return None
    others = [fault for fault in faults if not verb_of(fault.name)]
    return Course(steps, others, timing, phases(list(steps)))
