"""Spans of faults, joined from the nemesis's ops.

    start invoke ----- start complete ----- stop invoke ----- stop complete
    being applied      in effect            being healed      healed

A fault without a span (a client killed) is one moment: its invocation and completion. Ops that name no fault
(the wait for a healthy cluster) make no span, and neither does a stop of what is not on. Where the history
ends before the stop, the span is open: `stop_ns` is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.model.op import EMPTY

NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Event:
    """One nemesis op. `value` is decoded; `phase` is invoke or complete."""

    time_ns: int
    f: str
    value: Any
    fault: str
    span: str
    phase: str


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of one fault.

    fault        its name, "kill:leader"
    hit          nodes and clients that it hit, as far as the history says
    start_ns     when it began to be applied
    effect_ns    when its start completed, or None
    stop_ns      when healing it was asked for, or None
    healed_ns    when that completed, or None
    took_effect  what the completion of its start says; None when there is none
    detail       the value of that completion
    """

    fault: str
    hit: tuple[str, ...]
    start_ns: int
    effect_ns: int | None = None
    stop_ns: int | None = None
    healed_ns: int | None = None
    took_effect: bool | None = None
    detail: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    @property
    def label(self) -> str:
        """Name and what it hit: "kill:leader n2"."""
        return " ".join((self.fault, *self.hit))

    def end_ns(self, otherwise: int = NEVER) -> int:
        """When it was over: healed, or at least asked to stop; `otherwise` when it never was."""
        for end in (self.healed_ns, self.stop_ns):
            if end is not None:
                return end
        return otherwise

    def overlaps(self, since_ns: int, until_ns: int) -> bool:
        """Whether it was on at any moment between two times, both included."""
        return self.start_ns <= until_ns and since_ns <= self.end_ns()


def _hit(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Mapping):
        return ()
    named = [value.get(field) for field in ("nodes", "clients")]
    return tuple(str(one) for group in named if isinstance(group, list | tuple) for one in group)


def _took(value: Any) -> bool | None:
    took = value.get("took_effect") if isinstance(value, Mapping) else None
    return took if isinstance(took, bool) else None


@dataclass(slots=True)
class _Open:
    fault: str
    start_ns: int
    moment: bool
    effect_ns: int | None = None
    stop_ns: int | None = None
    value: Any = None

    def closed(self, healed_ns: int | None) -> Span:
        return Span(
            self.fault,
            _hit(self.value),
            self.start_ns,
            self.effect_ns,
            self.stop_ns,
            healed_ns,
            _took(self.value),
            self.value if isinstance(self.value, Mapping) else EMPTY,
        )


def spans(events: Iterable[Event]) -> list[Span]:
    """The spans of every fault, by start. `events` in time order."""
    done: list[Span] = []
    open_: dict[str, _Open] = {}
    for event in events:
        if not event.fault:
            continue
        held = open_.get(event.fault)
        if event.phase == "invoke" and event.span in ("start", ""):
            if held is not None:  # started again without a stop: the first one ends here
                held.stop_ns = held.stop_ns or event.time_ns
                done.append(held.closed(None))
            open_[event.fault] = _Open(event.fault, event.time_ns, event.span == "")
        elif held is None:
            continue
        elif event.span == "stop":
            if event.phase == "invoke":
                held.stop_ns = event.time_ns
            else:
                held.stop_ns = held.stop_ns or event.time_ns
                done.append(open_.pop(event.fault).closed(event.time_ns))
        else:
            held.effect_ns, held.value = event.time_ns, event.value
            if held.moment:
                held.stop_ns = event.time_ns
                done.append(open_.pop(event.fault).closed(event.time_ns))
    done.extend(held.closed(None) for held in open_.values())
    return sorted(done, key=lambda span: (span.start_ns, span.fault))


def during(all_spans: Iterable[Span], since_ns: int, until_ns: int | None = None) -> list[Span]:
    """Faults that were on at a moment, or at any moment of a stretch."""
    until = since_ns if until_ns is None else until_ns
    return [span for span in all_spans if span.overlaps(since_ns, until)]
