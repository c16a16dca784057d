"""How an anomaly's witness is told: a function of the witness and of phrases, which a report has.

An anomaly has its own such function in its module; here is what several share. `Phrases` says who did an op,
when, and so on, as far as a run's tables are there; without them ops are named by their index alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from harness.model.values_as_text import first_of, joined, listed, many

Witness: TypeAlias = Mapping[str, Any]


class OpTimes(Protocol):
    """What is known of an op."""

    @property
    def process(self) -> int: ...
    @property
    def invoke_ns(self) -> int: ...
    @property
    def complete_ns(self) -> int | None: ...


class Place(Protocol):
    """A record that was sent or polled; `offset` None: not known."""

    @property
    def offset(self) -> int | None: ...


class Phrases(Protocol):
    """Phrases about ops and records; empty where nothing is known."""

    def op(self, id_: int | None, /) -> OpTimes | None: ...

    def who(self, id_: int, /) -> str:
        """Process, op and time."""

    def when(self, id_: int, /) -> str:
        """Op and time, where the process has been named."""

    def faults(self, *ids: int | None) -> str:
        """The faults that were on while any of the ops ran, as the end of a sentence."""

    def sends(self, key: Any, value: Any, /) -> Sequence[Place]: ...

    def polls(self, key: Any, value: Any, /) -> Sequence[Place]: ...

    def sent(self, key: Any, value: Any, op: int | None = None, /) -> str:
        """Who sent a value, when, how that ended, and what fault was on."""

    def read(self, key: Any, value: Any, offset: int | None = None, /) -> str:
        """Who first read a value, at an offset if one is given."""

    def place(self, verb: str, key: Any, op: int, value: Any, last: bool = False) -> str:
        """The offset at which an op first (or last) polled or sent a value."""

    def step(self, verb: str, key: Any, op: int, values: Sequence[Any], /) -> tuple[str, str]:
        """The offsets of two values that an op polled (or sent) one after the other."""


Prose: TypeAlias = Callable[[Witness, Phrases], str]
VERBS: Final = {"polled": "polled", "sent": "sent to"}


def fields(witness: Witness, phrases: Phrases) -> str:
    """The fields of a witness, for want of a prose of its own."""
    return ", ".join(f"{name} {listed(field) if isinstance(field, list) else field}" for name, field in witness.items())


def step_inside(verb: str) -> Prose:
    """Of anomalies between two records of one op."""

    def prose(witness: Witness, phrases: Phrases) -> str:
        key, op, (first, second) = witness["key"], witness["op"], witness["values"]
        first_place, second_place = phrases.step(verb, key, op, (first, second))
        distance, between = _apart(witness, phrases)
        return joined(
            f"{phrases.who(op)} {VERBS[verb]} key {key}: value {first}{first_place} and then value "
            f"{second}{second_place}, {distance}{phrases.faults(op)}",
            between,
        )

    return prose


def step_between(verb: str) -> Prose:
    """Of anomalies between two ops of one process."""

    def prose(witness: Witness, phrases: Phrases) -> str:
        key, (before, after) = witness["key"], witness["ops"]
        faults = phrases.faults(before, after)
        distance, between = _apart(witness, phrases)
        head = f"{phrases.who(before)} {VERBS[verb]} key {key}"
        if "values" not in witness:
            return joined(f"{head}, and the next time ({phrases.when(after)}) went on {distance}{faults}", between)
        first, second = witness["values"]
        return joined(
            f"{head}: value {first}{phrases.place(verb, key, before, first, last=True)}, and the next time "
            f"({phrases.when(after)}) value {second}{phrases.place(verb, key, after, second)}, {distance}{faults}",
            between,
        )

    return prose


def _apart(witness: Witness, phrases: Phrases) -> tuple[str, str]:
    """(how the second record stands to the first, what is known of those between)."""
    delta, skipped = witness["delta"], witness.get("skipped") or []
    if delta == 0:
        return "the same record again", ""
    if delta < 0:
        return f"which stands {-delta:,} before it in the log", ""
    between = f" ({first_of(skipped, delta - 1)})" if skipped else ""
    sent = phrases.sent(witness["key"], skipped[0]) if skipped else ""
    return (
        f"beyond {many(delta - 1, 'record')}{between}",
        f"value {skipped[0]} was {sent}" if sent else "",
    )
