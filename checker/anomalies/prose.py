"""Functions that describe the witness of an anomaly in sentences, shared by several anomalies.

Other anomalies have a function for this in their own module. Such a function takes the witness and a `Phrases`, which a
report provides. `Phrases` looks up the process and time of an op and similar facts in a run's tables. Without tables an
op is identified by its index alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from harness.model.values_as_text import first_of, joined, listed, many

Witness: TypeAlias = Mapping[str, Any]


class OpTimes(Protocol):
    """The process of an op, and the times of its invocation and completion."""

    @property
    def process(self) -> int: ...
    @property
    def invoke_ns(self) -> int: ...
    @property
    def complete_ns(self) -> int | None: ...


class Place(Protocol):
    """A record that was sent or polled. `offset` is None if it is unknown."""

    @property
    def offset(self) -> int | None: ...


class Phrases(Protocol):
    """Makes phrases about ops and records; a phrase is empty if nothing is known."""

    def op(self, id_: int | None, /) -> OpTimes | None: ...

    def who(self, id_: int, /) -> str:
        """Returns a phrase that names the process, the op and its time."""

    def when(self, id_: int, /) -> str:
        """Returns a phrase that names the op and its time, for sentences that have already mentioned the process."""

    def faults(self, *ids: int | None) -> str:
        """Returns, as the end of a sentence, the faults that were active while any of the ops ran."""

    def sends(self, key: Any, value: Any, /) -> Sequence[Place]: ...

    def polls(self, key: Any, value: Any, /) -> Sequence[Place]: ...

    def sent(self, key: Any, value: Any, op: int | None = None, /) -> str:
        """Returns a phrase that says who sent a value, when and with which outcome, and names the active faults."""

    def read(self, key: Any, value: Any, offset: int | None = None, /) -> str:
        """Returns a phrase that says which process was the first to read a value (at `offset`, if given)."""

    def place(self, verb: str, key: Any, op: int, value: Any, last: bool = False) -> str:
        """Returns a phrase with the offset at which an op first (or last) polled or sent a value."""

    def step(self, verb: str, key: Any, op: int, values: Sequence[Any], /) -> tuple[str, str]:
        """Returns two phrases with the offsets of two values that an op polled (or sent) consecutively."""


Prose: TypeAlias = Callable[[Witness, Phrases], str]
VERBS: Final = {"polled": "polled", "sent": "sent to"}


def fields(witness: Witness, phrases: Phrases) -> str:
    """Returns the fields of a witness as text, for anomalies without a description of their own."""
    return ", ".join(f"{name} {listed(field) if isinstance(field, list) else field}" for name, field in witness.items())


def step_inside(verb: str) -> Prose:
    """Returns a function that describes anomalies between two records of one op. `verb` is "polled" or "sent"."""

    def prose(witness: Witness, phrases: Phrases) -> str:
        key, op, (first, second) = witness["key"], witness["op"], witness["values"]
        first_place, second_place = phrases.step(verb, key, op, (first, second))
        return joined(
            f"{phrases.who(op)} {VERBS[verb]} key {key}: value {first}{first_place} and then value "
            f"{second}{second_place}, {_distance(witness, verb)}{phrases.faults(op)}",
            *_remarks(witness, phrases),
        )

    return prose


def step_between(verb: str) -> Prose:
    """Returns a function that describes anomalies between two ops of one process. `verb` is "polled" or "sent"."""

    def prose(witness: Witness, phrases: Phrases) -> str:
        key, (before, after) = witness["key"], witness["ops"]
        faults = phrases.faults(before, after)
        distance, remarks = _distance(witness, verb), _remarks(witness, phrases)
        head = f"{phrases.who(before)} {VERBS[verb]} key {key}"
        if "values" not in witness:
            return joined(f"{head}, and the next time ({phrases.when(after)}) continued, {distance}{faults}", *remarks)
        first, second = witness["values"]
        return joined(
            f"{head}: value {first}{phrases.place(verb, key, before, first, last=True)}, and the next time "
            f"({phrases.when(after)}) value {second}{phrases.place(verb, key, after, second)}, {distance}{faults}",
            *remarks,
        )

    return prose


def _distance(witness: Witness, verb: str) -> str:
    """Returns where the second record is in the log, relative to the first."""
    delta, skipped = witness["delta"], witness.get("skipped") or []
    if delta == 0:
        return "the same record again"
    if delta < 0:
        return f"which is {many(-delta, 'position')} earlier in the log"
    between = f" (value{'s' if delta > 2 else ''} {first_of(skipped, delta - 1)})" if skipped else ""
    if verb == "polled":
        return f"skipping {many(delta - 1, 'record')} of the log{between}"
    return f"with {many(delta - 1, 'other record')} between them in the log{between}"


def _remarks(witness: Witness, phrases: Phrases) -> list[str]:
    """Returns who sent the first skipped record, and which of the records is in the log more than once."""
    key, skipped = witness["key"], witness.get("skipped") or []
    found = []
    sent = phrases.sent(key, skipped[0]) if skipped else ""
    if sent:
        found.append(f"value {skipped[0]} was {sent}")
    for value in dict.fromkeys([*witness.get("values", ()), *skipped[:1]]):
        places = {place.offset for place in (*phrases.polls(key, value), *phrases.sends(key, value))} - {None}
        if len(places) > 1:
            offsets = sorted(place for place in places if place is not None)
            found.append(
                f"value {value} is in the log {len(offsets)} times (offsets {listed(offsets)}); the check uses only "
                "the last offset, so the duplicate alone may explain this anomaly"
            )
            break
    return found
