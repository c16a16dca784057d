"""The generator of one schedule entry: starts its fault by the clock, or when its trigger fires. Pure.

This module detects triggers on open transactions itself, from the events of the clients. `triggers.Watch` detects all
other triggers, and sends a notice for each: an event with index -1 that is not recorded in the history. If a trigger
started a round, the field `trigger` in the value of the round's start op says what was seen.

A round starts only while its fault is off. If a round is due while the fault is on, it waits. If several rounds are due
meanwhile, only the last of them starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from harness.model.fault_and_generator_protocols import PENDING, Context, Fault, Generator, Pending
from harness.model.op import INFO, INVOKE, NEMESIS, Op, Process
from nemesis.schedule.entry import TXN_OPEN, Entry, Trigger
from nemesis.schedule.timing import patient

NOTICE: Final = "notice"
TRANSACTIONAL: Final = frozenset({"send", "poll", "txn"})

Answer = tuple[Op | Pending, Generator] | None


class Seen(NamedTuple):
    """A trigger that fired.

    text   what was seen
    at_s   when it happened, in seconds since the epoch; None if that is unknown
    holds  name of the rule by which the wire proxy holds a frame until the fault has started; "" if it holds none
    """

    trigger: Trigger
    text: str
    at_s: float | None = None
    holds: str = ""


def notice(seen: Seen) -> Op:
    """Returns the event by which generators learn that a trigger fired."""
    return Op(-1, -1, NEMESIS, INFO, NOTICE, seen)


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The generator of an entry's rounds. `number` is the entry's place in its schedule.

    begun      number of rounds started
    beat       index of the next round's time, from 0: the round is due at `at_s` + beat * `every_s`, plus jitter
    since_ns   time at which the current round started; None while the fault is not on because of this entry
    taken      whether the fault is on because of another entry
    rested_ns  the time before which the trigger is ignored
    fired      what was seen when the trigger fired; None if it has not fired
    open       (process, start time) of each open transaction, the oldest first; only for TXN_OPEN
    """

    entry: Entry
    fault: Fault
    number: int
    begun: int = 0
    beat: int = 0
    since_ns: int | None = None
    taken: bool = False
    rested_ns: int = 0
    fired: Seen | None = None
    open: tuple[tuple[Process, int], ...] = ()

    def op(self, ctx: Context) -> Answer:
        if self.since_ns is not None:
            return self._on(ctx, self.since_ns)
        entry = self.entry
        if entry.times is not None and self.begun >= entry.times:
            return None
        due = self._due(ctx) if entry.when is None else max(_ns(entry.at_s), self.rested_ns)
        if entry.until_s is not None and max(due, ctx.time_ns) >= _ns(entry.until_s):
            return None
        if ctx.time_ns < due or self.taken or self.fault.name in ctx.busy_faults:
            return PENDING, self
        why = self._why(ctx)
        if entry.when is not None and why is None:
            return PENDING, self
        return self._start(ctx, why)

    def _on(self, ctx: Context, since_ns: int) -> Answer:
        stop, for_s = self.fault.rounds.stop, self.entry.for_s
        if stop is None or for_s is None:
            return PENDING, self  # undone by the healing at the end of the load
        if ctx.time_ns < since_ns + _ns(for_s) or self.fault.name in ctx.busy_faults:
            return PENDING, self
        rested = ctx.time_ns + _ns(self.entry.rest_s)
        # No wait for health: other faults may be on. The healing at the end of the load waits.
        return patient(stop, healthy_s=0.0), replace(self, since_ns=None, rested_ns=rested)

    def _due(self, ctx: Context) -> int:
        """Returns when the next round starts, in ns. If several rounds are already due, this is the last of them."""
        return self._at(ctx, self._next_beat(ctx))

    def _next_beat(self, ctx: Context) -> int:
        if self.entry.every_s is None:
            return self.beat
        late = (ctx.time_ns - _ns(self.entry.at_s)) // max(1, _ns(self.entry.every_s))
        return max(self.beat, late)

    def _at(self, ctx: Context, beat: int) -> int:
        jitter = self.entry.jitter_s * ctx.draw(f"schedule {self.number}", beat).random()
        return _ns(self.entry.at_s + beat * (self.entry.every_s or 0.0) + jitter)

    def _why(self, ctx: Context) -> Seen | None:
        when = self.entry.when
        if when is not None and when.kind == TXN_OPEN and self.open:
            process, since_ns = self.open[0]
            open_ns = ctx.time_ns - since_ns
            if open_ns >= _ns(when.open_s):
                return Seen(when, f"process {process} had a transaction open for {open_ns / 1e6:.0f} ms")
        return self.fired

    def _start(self, ctx: Context, why: Seen | None) -> Answer:
        start = self.fault.rounds.start
        if self.entry.for_s is not None:
            start = patient(start, effect_s=self.entry.for_s)
        if why is not None:
            point = {"point_s": why.at_s} if why.at_s is not None else {}
            holds = {"holds": why.holds} if why.holds else {}
            start = start.with_(value={**start.value, "trigger": why.text, **point, **holds})
        lasts = self.fault.rounds.stop is not None
        return start, replace(
            self,
            begun=self.begun + 1,
            beat=self._next_beat(ctx) + 1,
            since_ns=ctx.time_ns if lasts else None,
            rested_ns=ctx.time_ns + _ns(self.entry.rest_s),
            fired=None,
        )

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.process != NEMESIS:
            return self._client(event)
        if event.f == NOTICE:
            return self._noticed(ctx, event)
        if event.extra.get("fault") != self.fault.name:
            return self
        span, phase = event.extra.get("span"), event.extra.get("phase")
        if span == "start" and phase == "invoke" and self.since_ns is None:
            return replace(self, taken=True)
        if span == "stop" and phase == "complete" and self.taken:
            return replace(self, taken=False)
        return self

    def _noticed(self, ctx: Context, event: Op) -> Generator:
        matches = event.value.trigger == self.entry.when and self.fired is None
        off = self.since_ns is None and not self.taken
        if matches and off and ctx.time_ns >= max(_ns(self.entry.at_s), self.rested_ns):
            return replace(self, fired=event.value)
        return self

    def _client(self, event: Op) -> Generator:
        when = self.entry.when
        if when is None or when.kind != TXN_OPEN or event.f not in TRANSACTIONAL:
            return self
        others = tuple(opened for opened in self.open if opened[0] != event.process)
        if event.type == INVOKE:
            return replace(self, open=(*others, (event.process, event.time_ns)))
        return self if len(others) == len(self.open) else replace(self, open=others)
