"""Loads and validates the file of `harness offsets --pattern`, which describes the log lines that contain offsets.

time: "%Y-%m-%d %H:%M:%S,%f"
line: '^\\[(?P<time>[^\\]]+)\\] .*clientId=(?P<instance>[^,\\]]+)'
events:
  - event: assigned
    match: 'Adding newly assigned partitions: (?P<partitions>.*)'
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from checker.pipeline import foreign_logs
from checker.pipeline.foreign_logs import EventPattern, LogPattern
from checker.pipeline.offset_machine import OF_OFFSET, OF_PARTITIONS, OF_RANGE
from harness import yaml_data
from harness.model.errors_and_exit_codes import BadInput
from harness.yaml_data import Loaded, Place

WHAT: Final = "patterns of log lines"
KEYS: Final = ("time", "line", "instance", "each", "events")
EXAMPLES: Final = Path(__file__).parent / "log_patterns"


def load(path: Path) -> LogPattern:
    """Reads a file of patterns, or a built-in one if the path is its name ("java"). Raises BadInput with file, line and
    column."""
    example = EXAMPLES / f"{path}.yaml"
    if not path.exists() and len(path.parts) == 1 and example.is_file():
        path = example
    loaded = yaml_data.load(path, WHAT)
    data = loaded.data
    if not isinstance(data, dict):
        raise BadInput(f"{path}:1:1: not {WHAT}: write it as keys and values; the keys are {', '.join(KEYS)}")
    for key in data:
        if key not in KEYS:
            hint = yaml_data.did_you_mean(str(key), KEYS) or f"the keys are {', '.join(KEYS)}"
            raise BadInput(f"{loaded.where((key,))}: {key}: no such key; {hint.strip()}")
    form = _time(loaded)
    line, each = _regex(loaded, ("line",), ""), _regex(loaded, ("each",), foreign_logs.ONE_PARTITION)
    if not {"topic", "partition"} <= foreign_logs.groups(each):
        raise BadInput(
            f"{loaded.where(('each',), True)}: each: the pattern needs the named groups `topic` and `partition`"
        )
    return LogPattern(_events(loaded, line), form, line, _text(loaded, ("instance",), ""), each)


def _value_at(loaded: Loaded, place: Place) -> Any:
    found = loaded.data
    for part in place:
        found = found.get(part) if isinstance(found, dict) else found[part]
    return found


def _text(loaded: Loaded, place: Place, default: str | None = None) -> str:
    found = _value_at(loaded, place)
    if found is None and default is not None:
        return default
    if not isinstance(found, str) or not found:
        raise BadInput(f"{loaded.where(place, True)}: {place[-1]}: must be a non-empty text")
    return found


def _regex(loaded: Loaded, place: Place, default: str | None = None) -> str:
    """Returns the regular expression at a place in the file.

    Raises BadInput unless it has RE2's syntax, and all its groups have one of the known names.
    """
    found = _text(loaded, place, default)
    at = loaded.where(place, True)
    if why := foreign_logs.wrong(found):
        raise BadInput(f"{at}: {place[-1]}: not a valid regular expression ({why}); use RE2's syntax and named groups")
    if unknown := sorted(foreign_logs.groups(found) - foreign_logs.GROUPS):
        hint = yaml_data.did_you_mean(unknown[0], sorted(foreign_logs.GROUPS))
        raise BadInput(
            f"{at}: {place[-1]}: unknown group {unknown[0]!r}; {hint}"
            f"the groups are {', '.join(sorted(foreign_logs.GROUPS))}"
        )
    return found


def _time(loaded: Loaded) -> str:
    form = _text(loaded, ("time",))
    if form in foreign_logs.EPOCHS:
        return form
    if not foreign_logs.is_time_format(form):
        raise BadInput(
            f"{loaded.where(('time',), True)}: time {form}: not a time format; must be a format of strptime "
            f"(such as %Y-%m-%d %H:%M:%S,%f), or one of {', '.join(foreign_logs.EPOCHS)}"
        )
    return form


def _events(loaded: Loaded, line: str) -> tuple[EventPattern, ...]:
    listed = _value_at(loaded, ("events",))
    if not isinstance(listed, list) or not listed:
        raise BadInput(f"{loaded.where(('events',))}: events: must be a list of items with the keys event and match")
    return tuple(_event(loaded, ("events", number), line) for number in range(len(listed)))


def _event(loaded: Loaded, place: Place, line: str) -> EventPattern:
    event, at = _value_at(loaded, place), loaded.where(place)
    if not isinstance(event, dict) or not set(event) <= {"event", "match"} or "match" not in event:
        raise BadInput(f"{at}: an event must have the key 'match', may have the key 'event', and has no other keys")
    match = _regex(loaded, (*place, "match"))
    kind = _text(loaded, (*place, "event"), "")
    named = foreign_logs.groups(match) | (foreign_logs.groups(line) if line else frozenset())
    if kind and kind not in foreign_logs.KINDS:
        hint = yaml_data.did_you_mean(kind, sorted(foreign_logs.KINDS))
        kinds = ", ".join(sorted(foreign_logs.KINDS))
        raise BadInput(
            f"{loaded.where((*place, 'event'), True)}: event {kind}: unknown event; {hint}the events are {kinds}"
        )
    if not kind and "event" not in named:
        raise BadInput(f"{at}: name the event with the key `event`, or with a named group `event` in match")
    if lacking := _lacking(kind, named):
        what = f"the event {kind}" if kind else "this event"
        raise BadInput(f"{loaded.where((*place, 'match'), True)}: match: {what} needs {lacking}")
    return EventPattern(match, kind)


def _lacking(kind: str, named: frozenset[str]) -> str:
    """Describes the named groups that an event of this kind needs but that are not in `named`; "" if there are none."""
    of_one = {"topic", "partition"} <= named
    if "time" not in named:
        return "the named group `time` (in match or in line)"
    if kind in OF_PARTITIONS and not of_one and "partitions" not in named:
        return "the named group `partitions`, or the named groups `topic` and `partition`"
    if kind in OF_OFFSET | OF_RANGE and not of_one:
        return "the named groups `topic` and `partition`"
    if kind in OF_OFFSET and not named & {"offset", "last"}:
        return "the named group `offset`, or `last` (the offset minus 1)"
    if kind in OF_RANGE and not {"first", "last"} <= named:
        return "the named groups `first` and `last`"
    return "the named group `generation`" if kind == foreign_logs.GENERATION and "generation" not in named else ""
