"""Reads YAML files written by users as plain data, with the position of each value in the file.

Duplicate keys are errors, and so are tags that construct objects. Size, depth and number of values are limited; a value
that aliases repeat counts each time. Every error message starts with file:line:column, counted from 1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from harness.model.errors_and_exit_codes import BadInput

BYTES_MAX: Final = 1 << 20
PLAIN: Final = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
VALUES_MAX: Final = 100_000
DEPTH_MAX: Final = 50
UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

# Path from the top of a document, of keys and list indices: ("schedule", 2, "for").
Place = tuple[str | int, ...]
Mark = tuple[int, int]
Where = Callable[[Place, bool], str]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of a YAML file, with positions. A place is the path to a value: a tuple of keys and list indices.

    data    mappings, lists and plain values
    keys    place -> (line, column) where the key of a mapping, or the item of a list, begins
    values  place -> (line, column) where the value begins
    """

    path: Path
    data: Any
    keys: Mapping[Place, Mark]
    values: Mapping[Place, Mark]

    def where(self, place: Place, value: bool = False) -> str:
        """Returns file:line:column of the key at a place; of its value if `value` is true.

        If the place does not exist, returns the position of the innermost existing mapping or list that would contain
        it.
        """
        existing: Place = place
        while existing not in self.values and existing:
            existing = existing[:-1]
        marks = self.values if value or existing not in self.keys else self.keys
        line, column = marks[existing]
        return f"{self.path}:{line}:{column}"


def load(path: Path, what: str) -> Loaded:
    """Returns the content of a YAML file. Raises BadInput.

    what  what the file should contain, such as "a plan"; used in messages
    """
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot read {what} ({error.strerror})") from None
    if len(raw) > BYTES_MAX:
        raise BadInput(f"{path}: not {what} (larger than {BYTES_MAX} bytes)")
    try:
        loader = yaml.SafeLoader(raw)
        node = loader.get_single_node()
        return _Reader(path, what, loader).read(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        reason = str(getattr(error, "problem", None) or getattr(error, "reason", error)).splitlines()[0]
        raise BadInput(f"{path}{at}: not {what} ({reason})") from None
    except (RecursionError, ValueError) as error:  # ValueError: an invalid date, for example
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadInput(f"{path}: not {what} ({reason})") from None


class _Reader:
    """Converts the nodes of a YAML document to plain data, and records their positions."""

    def __init__(self, path: Path, what: str, loader: yaml.SafeLoader) -> None:
        self._path, self._what, self._loader = path, what, loader
        self._keys: dict[Place, Mark] = {}
        self._values: dict[Place, Mark] = {(): (1, 1)}

    def read(self, node: yaml.Node | None) -> Loaded:
        data = None if node is None else self._value((), node)
        return Loaded(self._path, data, self._keys, self._values)

    def _value(self, place: Place, node: yaml.Node) -> Any:
        if len(self._values) > VALUES_MAX or len(place) > DEPTH_MAX:
            raise self._wrong(node, "nested too deeply" if len(place) > DEPTH_MAX else "too many values")
        self._values[place] = _mark(node)
        if not isinstance(node, yaml.ScalarNode) and node.tag not in PLAIN:
            raise self._wrong(node, f"{node.tag} is not plain data")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(place, node)
        if isinstance(node, yaml.SequenceNode):
            items = list(enumerate(node.value))
            self._keys.update({(*place, n): _mark(item) for n, item in items})
            return [self._value((*place, n), item) for n, item in items]
        return self._loader.construct_object(node)

    def _mapping(self, place: Place, node: yaml.MappingNode) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._wrong(key_node, "a key must be a plain value, not a list or mapping")
            key = self._loader.construct_object(key_node)
            if key in found:
                raise self._wrong(key_node, f"duplicate key {key!r}")
            self._keys[(*place, key)] = _mark(key_node)
            found[key] = self._value((*place, key), value_node)
        return found

    def _wrong(self, node: yaml.Node, text: str) -> BadInput:
        line, column = _mark(node)
        return BadInput(f"{self._path}:{line}:{column}: not {self._what} ({text})")


def _mark(node: yaml.Node) -> Mark:
    return node.start_mark.line + 1, node.start_mark.column + 1


def seconds(value: Any) -> Any:
    """Returns a duration in seconds, given as "10s", "500ms", "2m", "1h", or a plain number. Raises ValueError.

    Returns None unchanged.
    """
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*", value, re.ASCII)
        if not found:
            raise ValueError(f"{value!r} is not a duration: write, for example, 10s, 500ms or 2m")
        return float(found[1]) * UNITS[found[2] or "s"]
    if isinstance(value, bool) or (value is not None and not isinstance(value, int | float)):
        raise ValueError(f"{value!r} is not a duration: write, for example, 10s, 500ms or 2m")
    return value


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Returns "did you mean X? ", where X is the known word closest to `word`; empty if none is close."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]}? " if close else ""


def line(one: Any, where: Where, known: Callable[[Place], Sequence[str]]) -> str:
    """Returns the message for one error of pydantic: the position, the key, what is wrong, and what to do.

    where  a function with the parameters of `Loaded.where`: (place, value) -> file:line:column
    known  a function: place -> the keys that are allowed in the mapping at this place
    """
    place: Place = tuple(one["loc"])
    if not place:
        return f"{where((), False)}: {_shown(one)}"
    if one["type"] == "extra_forbidden":
        fitting = known(place[:-1])
        hint = did_you_mean(str(place[-1]), fitting) or f"keys are {', '.join(fitting)}"
        return f"{where(place, False)}: {place[-1]}: no such key; {hint.strip()}"
    if one["type"] == "missing":
        return f"{where(place, False)}: {place[-1]} is missing"
    got = one["input"]
    shown = "" if one["type"] == "value_error" or isinstance(got, dict | list) else f" {got}"
    return f"{where(place, True)}: {_name(place)}{shown}: {_shown(one)}"


def _name(place: Place) -> str:
    """Returns a place as text, such as schedule[2].for. Items of lists are counted from 1."""
    parts = [f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place]
    return "".join(parts).removeprefix(".")


def _shown(one: Any) -> str:
    message = str(one["msg"])
    if one["type"] == "value_error":
        return message.removeprefix("Value error, ")
    if one["type"] in ("model_type", "dict_type"):
        return "write it as keys and values"
    return f"{message[:1].lower()}{message[1:]}"
