"""Deletes the topics of the share workload once, halfway through the load, and creates them again.

The groups keep polling meanwhile. The senders stop first: a record that is sent while the topics are deleted may end in
the old or in the new topic, and the history could not tell which. Offsets begin at 0 again, so the records of the new
topics have keys of their own, which are higher by `PARTITIONS_MAX`; ops name this *incarnation* of the topics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from harness.generator import op
from harness.model.fault_and_generator_protocols import PENDING, Context, Generator, Pending
from harness.model.op import FAIL, INVOKE, OK, Op

Answer = tuple[Op | Pending, Generator] | None

F: Final = "share-recreate"
PARTITIONS_MAX: Final = 100
# load: before the deletion; quiet: the senders have stopped; asked: the op runs; stopped: its outcome is unknown.
Stage = Literal["load", "quiet", "asked", "stopped", "recreated"]


def of_incarnation(made: Op, incarnation: int) -> Op:
    """Returns the op for an incarnation of the topics: with the keys of its sends, and named in `extra`."""
    if incarnation == 0:
        return made
    value: Any = made.value
    if made.f == "send":
        value = [[mop[0], mop[1] + incarnation * PARTITIONS_MAX, *mop[2:]] for mop in value]
    return made.with_(value=value, extra={**made.extra, "incarnation": incarnation})


@dataclass(frozen=True, slots=True)
class Recreation:
    """Generates the ops of `inner`, the load, and once in between the op that deletes and creates the topics.

    at_ns    how long after its first op the load stops for this
    writers  number of slots that send; they are the first ones
    sending  processes whose send has not completed
    """

    inner: Generator
    at_ns: int
    writers: int
    stage: Stage = "load"
    began_ns: int | None = None
    sending: frozenset[Any] = frozenset()

    def op(self, ctx: Context) -> Answer:
        began_ns = ctx.time_ns if self.began_ns is None else self.began_ns
        state = replace(self, began_ns=began_ns)
        if self.stage == "load" and ctx.time_ns - began_ns >= self.at_ns:
            state = replace(state, stage="quiet")
        first = ctx.all[0]
        if state.stage == "quiet" and not state.sending and first in ctx.free:
            return op(F).with_(process=first), replace(state, stage="asked")
        if state.stage in ("quiet", "asked", "stopped"):
            members = tuple(process for process in ctx.free if ctx.all.index(process) >= self.writers)
            if not members:
                return PENDING, state
            ctx = replace(ctx, free=members)
        answer = state.inner.op(ctx)
        if answer is None:
            return None
        made = answer[0]
        if not isinstance(made, Pending) and made.f in ("send", "share-offsets"):
            made = of_incarnation(made, int(state.stage == "recreated"))
        return made, replace(state, inner=answer[1])

    def update(self, ctx: Context, event: Op) -> Generator:
        state = replace(self, inner=self.inner.update(ctx, event))
        if event.f == "send":
            one = frozenset({event.process})
            return replace(state, sending=self.sending | one if event.type == INVOKE else self.sending - one)
        if event.f != F or event.type == INVOKE:
            return state
        if event.type == FAIL:  # nothing was deleted
            return replace(state, stage="quiet")
        return replace(state, stage="recreated" if event.type == OK else "stopped")


@dataclass(frozen=True, slots=True)
class Afterwards:
    """Generates the ops of `inner`, the final phase, for the incarnation of the topics that the load has left."""

    inner: Generator
    incarnation: int = 0

    def op(self, ctx: Context) -> Answer:
        answer = self.inner.op(ctx)
        if answer is None:
            return None
        made = answer[0] if isinstance(answer[0], Pending) else of_incarnation(answer[0], self.incarnation)
        return made, replace(self, inner=answer[1])

    def update(self, ctx: Context, event: Op) -> Generator:
        recreated = event.f == F and event.type == OK
        return Afterwards(self.inner.update(ctx, event), self.incarnation + int(recreated))
