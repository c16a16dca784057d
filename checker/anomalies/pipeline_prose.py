"""Phrases of anomalies of pipelines: which record, who did it, and what happened around it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from checker.anomalies.prose import Witness
from harness.model.values_as_text import seconds

EVENTS_SHOWN: Final = 6
EPOCH: Final = 10**18  # nanoseconds: later than this is a time of day, not one since a run began


def at(time_ns: int) -> str:
    """A time since the run began; the time of day where it is one since 1970."""
    if time_ns < EPOCH:
        return seconds(time_ns)
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ns // 10**9))
    return f"{text}.{time_ns // 10**6 % 1000:03d}"


def who(event: Mapping[str, Any]) -> str:
    """An instance, its process, and the generation that it was in."""
    if event.get("instance") is None:
        return "nobody knows who"
    generation = f", generation {event['generation']}" if event.get("generation") is not None else ""
    return f"instance {event['instance']} (process {event.get('incarnation')}{generation})"


def record_of(witness: Witness) -> str:
    if witness.get("topic") is None:
        return ""
    offset = f" offset {witness['offset']}" if witness.get("offset") is not None else ""
    return f"{witness['topic']}-{witness['partition']}{offset}"


def _range(event: Mapping[str, Any]) -> str:
    first, last = event.get("first"), event.get("last")
    if first is None:
        return ""
    return f" {first}" if last is None or last == first else f" {first} to {last}"


def event_text(event: Mapping[str, Any]) -> str:
    """An event around a witness: when, what, of which offsets, by whom."""
    if event.get("instance") is None:
        return f"{at(event['time_ns'])} {event['event']}"
    return f"{at(event['time_ns'])} {event['event']}{_range(event)} by {who(event)}"


def events_around(witness: Witness) -> str:
    events: Sequence[Mapping[str, Any]] = witness.get("around") or ()
    if not events:
        return ""
    more = f"; {len(events) - EVENTS_SHOWN} more" if len(events) > EVENTS_SHOWN else ""
    return f"around it: {'; '.join(event_text(event) for event in events[-EVENTS_SHOWN:])}{more}"
