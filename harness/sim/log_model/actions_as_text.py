"""Programs: lists of actions as text, which people can read, edit and run.

Each line is an action, except that the first line may set the topic's settings. Every value is JSON without spaces.
Lines that start with # are comments.

    settings segment_bytes=500 tiered=true
    append producer=1 records=[["k1","v1",0],["k2",null,500]]
    read at="hw-1" isolation="read_committed" max_bytes=100
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.sim.log_model.action_types import ARGUMENTS, CHANGEABLE, CHOICES, RELATIVE, SHARE, Action, as_json
from harness.sim.log_model.records import LogSettings

POLICIES = ("delete", "compact", "compact,delete")
# kind of value -> what a message calls it; for other kinds see CHOICES
KINDS: Final = {
    "number": "a whole number",
    "text": "a text",
    "truth": "true or false",
    "position": 'a position, such as 17, "37%" or "hw-1"',
    "records": "a list of [key, value, age]",
    "any": "a value",
}


def program(settings: LogSettings, actions: Sequence[Action]) -> str:
    """Writes the topic settings and the actions as the text of a program."""
    plain, given = asdict(LogSettings()), asdict(settings)
    first = [f"{name}={as_json(value)}" for name, value in given.items() if value != plain[name]]
    return "\n".join([" ".join(["settings", *first]), *(action.text() for action in actions)]) + "\n"


def parse(text: str, where: str) -> tuple[LogSettings, list[Action]]:
    """Parses a program. Raises BadInput with `where` and the number of the line if a line is not valid."""
    settings, actions = LogSettings(), []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        place = f"{where}:{number}"
        args = dict(_argument(word, place) for word in words[1:])
        if words[0] == "settings":
            settings = _settings(args, place)
        else:
            actions.append(_action(words[0], args, place, settings))
    return settings, actions


def _argument(word: str, place: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    try:
        if equals:
            return name, json.loads(value)
    except (ValueError, RecursionError):
        pass
    raise BadInput(f"{place}: {word[:80]!r}: write name=value, with the value as JSON without spaces")


def _settings(args: Mapping[str, Any], place: str) -> LogSettings:
    known = {field.name: type(field.default) for field in fields(LogSettings)}
    for name, value in args.items():
        if type(value) is not known.get(name):
            raise BadInput(
                f"{place}: {name}={as_json(value)}: unknown setting, or a value of the wrong type. "
                f"Known settings: {', '.join(known)}"
            )
    settings = LogSettings(**args)
    if not 1 <= settings.partitions <= 16:
        raise BadInput(f"{place}: partitions={settings.partitions}: must be from 1 to 16")
    if settings.cleanup not in POLICIES or (settings.tiered and settings.compacts):
        raise BadInput(
            f"{place}: cleanup={settings.cleanup}: must be one of {', '.join(POLICIES)}; with tiered=true, only delete"
        )
    return settings


def _action(f: str, args: Mapping[str, Any], place: str, settings: LogSettings) -> Action:
    if f not in ARGUMENTS:
        raise BadInput(f"{place}: unknown action {f!r}; actions are {', '.join(ARGUMENTS)}")
    known = ARGUMENTS[f]
    for name, (kind, default) in known.items():
        value = args.get(name, default)
        if value is ... or not _is(kind, value):
            got = f"not {as_json(args[name])}" if name in args else "it is missing"
            raise BadInput(f"{place}: {f}: {name} must be {KINDS.get(kind) or _one_of(CHOICES[kind])}; {got}")
    if unknown := sorted(args.keys() - known.keys()):
        raise BadInput(f"{place}: {f} takes no argument {unknown[0]}; valid arguments: {', '.join(known) or 'none'}")
    action = Action(f, dict(args))
    if "partition" in known and not 0 <= action.arg("partition") < settings.partitions:
        raise BadInput(f"{place}: no partition {action.arg('partition')}; the topic has {settings.partitions}")
    if f == "set":
        _settable(action, place)
    return action


def _settable(action: Action, place: str) -> None:
    name, value = action.arg("name"), action.arg("value")
    if name not in CHANGEABLE:
        raise BadInput(f"{place}: {name} cannot be set; these can: {', '.join(CHANGEABLE)}")
    if (value not in POLICIES) if name == "cleanup" else (type(value) is not int):
        wanted = _one_of(POLICIES) if name == "cleanup" else KINDS["number"]
        raise BadInput(f"{place}: {name} must be {wanted}, not {as_json(value)}")


def _is(kind: str, value: Any) -> bool:
    if kind in CHOICES:
        return isinstance(value, str) and value in CHOICES[kind]
    if kind == "number":
        return type(value) is int
    if kind == "text":
        return isinstance(value, str)
    if kind == "truth":
        return isinstance(value, bool)
    if kind == "position":
        return type(value) is int or (
            isinstance(value, str) and bool(SHARE.fullmatch(value) or RELATIVE.fullmatch(value))
        )
    if kind == "records":
        return isinstance(value, list) and bool(value) and all(_is_record(record) for record in value)
    return True


def _one_of(names: Sequence[str]) -> str:
    return f"one of {', '.join(names)}"


def _is_record(record: Any) -> bool:
    texts = (str, type(None))
    return (
        isinstance(record, list)
        and len(record) == 3
        and isinstance(record[0], texts)
        and isinstance(record[1], texts)
        and type(record[2]) is int
    )
