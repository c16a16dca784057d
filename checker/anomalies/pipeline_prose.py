"""Phrases for the anomalies of pipelines: the record, the instance responsible, and events around it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from checker.anomalies.prose import Witness
from harness.model.values_as_text import seconds

EVENTS_SHOWN: Final = 6
EPOCH: Final = 10**18  # nanoseconds: larger times are wall-clock times, smaller ones are relative to the run's start


def at(time_ns: int) -> str:
    """Returns a time as text: relative to the start of the run or, for a wall-clock time, as UTC date and time."""
    if time_ns < EPOCH:
        return seconds(time_ns)
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ns // 10**9))
    return f"{text}.{time_ns // 10**6 % 1000:03d}"


def who(event: Mapping[str, Any]) -> str:
    """Returns the instance of an event, its process and its group generation, as text."""
    if event.get("instance") is None:
        return "an unknown instance"
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
    """Describes an event near a witness: time, kind, offsets, and instance."""
    if event.get("instance") is None:
        return f"{at(event['time_ns'])} {event['event']}"
    return f"{at(event['time_ns'])} {event['event']}{_range(event)} by {who(event)}"


def events_around(witness: Witness) -> str:
    events: Sequence[Mapping[str, Any]] = witness.get("around") or ()
    if not events:
        return ""
    more = f"; {len(events) - EVENTS_SHOWN} more" if len(events) > EVENTS_SHOWN else ""
    return f"events around it: {'; '.join(event_text(event) for event in events[-EVENTS_SHOWN:])}{more}"
