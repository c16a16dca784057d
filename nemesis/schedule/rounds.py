"""One entry of a schedule as a generator: by the clock, or when its trigger fires. Pure.

Triggers that only the outside can see come as notices: events of index -1, which nobody records. A start that
a trigger caused says so in its value, as `trigger`. Open transactions are seen in the events of the clients.

A round begins only when the same fault is off: one that is late for that waits, and what it
missed is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from harness.model.fault_and_generator_protocols import PENDING, Context, Fault, Generator, Pending
from harness.model.op import INFO, INVOKE, NEMESIS, Op, Process
from nemesis.schedule.entry import TXN_OPEN, Entry, Trigger
from nemesis.schedule.timing import patient

NOTICE: Final = "notice"
TRANSACTIONAL: Final = frozenset({"send", "poll", "txn"})

Answer = tuple[Op | Pending, Generator] | None


def notice(trigger: Trigger, text: str) -> Op:
    """The event that tells generators that a trigger has fired, and what was seen."""
    return Op(-1, -1, NEMESIS, INFO, NOTICE, {"trigger": trigger, "text": text})


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The rounds of an entry, the `number`-th of its schedule.

    begun     rounds that have begun
    beat      which multiple of `every_s` comes next
    since_ns  since when it is on; None while off
    taken     another entry has the same fault on
    rested_ns from when on the trigger is heeded
    fired     what fired the trigger; empty while nothing has
    open      (process, since) of each open transaction, the oldest first; only for TXN_OPEN
    """

    entry: Entry
    fault: Fault
    number: int
    begun: int = 0
    beat: int = 0
    since_ns: int | None = None
    taken: bool = False
    rested_ns: int = 0
    fired: str = ""
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
        if entry.when is not None and not why:
            return PENDING, self
        return self._start(ctx, why)

    def _on(self, ctx: Context, since_ns: int) -> Answer:
        stop, for_s = self.fault.rounds.stop, self.entry.for_s
        if stop is None or for_s is None:
            return PENDING, self  # the end of the load ends it
        if ctx.time_ns < since_ns + _ns(for_s) or self.fault.name in ctx.busy_faults:
            return PENDING, self
        rested = ctx.time_ns + _ns(self.entry.rest_s)
        # Other faults may be on: the end of the load is the time to wait for health.
        return patient(stop, healthy_s=0.0), replace(self, since_ns=None, rested_ns=rested)

    def _due(self, ctx: Context) -> int:
        """When the next round begins, after those that were missed by a whole period."""
        return self._at(ctx, self._next_beat(ctx))

    def _next_beat(self, ctx: Context) -> int:
        if self.entry.every_s is None:
            return self.beat
        late = (ctx.time_ns - _ns(self.entry.at_s)) // max(1, _ns(self.entry.every_s))
        return max(self.beat, late)

    def _at(self, ctx: Context, beat: int) -> int:
        jitter = self.entry.jitter_s * ctx.draw(f"schedule {self.number}", beat).random()
        return _ns(self.entry.at_s + beat * (self.entry.every_s or 0.0) + jitter)

    def _why(self, ctx: Context) -> str:
        when = self.entry.when
        if when is not None and when.kind == TXN_OPEN and self.open:
            process, since_ns = self.open[0]
            open_ns = ctx.time_ns - since_ns
            if open_ns >= _ns(when.open_s):
                return f"process {process} had a transaction open for {open_ns / 1e6:.0f} ms"
        return self.fired

    def _start(self, ctx: Context, why: str) -> Answer:
        start = self.fault.rounds.start
        if self.entry.for_s is not None:
            start = patient(start, effect_s=self.entry.for_s)
        if why:
            start = start.with_(value={**start.value, "trigger": why})
        lasts = self.fault.rounds.stop is not None
        return start, replace(
            self,
            begun=self.begun + 1,
            beat=self._next_beat(ctx) + 1,
            since_ns=ctx.time_ns if lasts else None,
            rested_ns=ctx.time_ns + _ns(self.entry.rest_s),
            fired="",
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
        heard = event.value["trigger"] == self.entry.when and not self.fired
        off = self.since_ns is None and not self.taken
        if heard and off and ctx.time_ns >= max(_ns(self.entry.at_s), self.rested_ns):
            return replace(self, fired=str(event.value["text"]))
        return self

    def _client(self, event: Op) -> Generator:
        when = self.entry.when
        if when is None or when.kind != TXN_OPEN or event.f not in TRANSACTIONAL:
            return self
        others = tuple(opened for opened in self.open if opened[0] != event.process)
        if event.type == INVOKE:
            return replace(self, open=(*others, (event.process, event.time_ns)))
        return self if len(others) == len(self.open) else replace(self, open=others)
