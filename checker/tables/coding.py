"""Encodes the keys and values of a history as int64.

An integer below BASE in magnitude is its own code, so a typical history needs no dictionary. Any other key or value (a
string, another type, a huge integer) gets a code from BASE upwards, in the order of first occurrence. The dictionary
keeps the text of that key or value, so that witnesses can show the original.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson

from checker.tables.packing import Ints
from harness.model.edn import ops, reader

BASE: Final = 1 << 61
EMPTY: Final = -BASE  # no value: a poll that listed a key without records


def _foreign(value: Any) -> str:
    """Returns the EDN text of a value that JSON cannot express, or its `repr` if EDN cannot either."""
    try:
        return reader.dumps(value)
    except TypeError:
        return repr(value)


def text_of(value: Any) -> str:
    """Returns the canonical JSON text of a value."""
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
    return orjson.dumps(value, default=_foreign, option=options).decode()


def ints(values: Iterable[int]) -> Ints:
    """Returns integers as an array, in half the time that numpy needs. Raises OverflowError, TypeError."""
    return np.frombuffer(array("q", values), np.int64)


class Coder:
    """A growing dictionary of the keys and values that are not plain integers."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._codes = {text: BASE + n for n, text in enumerate(texts)}

    @property
    def texts(self) -> list[str]:
        """The texts of the dictionary in the order of their codes, from BASE upwards."""
        return list(self._codes)

    def code(self, value: Any) -> int:
        """Returns the code of one value."""
        if type(value) is int and -BASE < value < BASE:
            return value
        try:
            text = text_of(value)
        except (TypeError, orjson.JSONEncodeError):  # for example an integer beyond 64 bits
            text = orjson.dumps(repr(value)).decode()
        return self._codes.setdefault(text, BASE + len(self._codes))

    def codes(self, values: Sequence[Any]) -> Ints:
        """Returns the codes of many values; fast if all are plain integers."""
        if set(map(type, values)) <= {int}:
            try:
                plain = ints(values)
            except OverflowError:
                plain = None
            if plain is not None and (len(plain) == 0 or (plain.min() > -BASE and plain.max() < BASE)):
                return plain
        return np.array([self.code(value) for value in values], dtype=np.int64)


def decoder(texts: Sequence[str]) -> Mapping[int, Any]:
    """Returns code -> original value, for the codes from BASE upwards.

    A value of a type that only EDN has becomes text.
    """
    return {BASE + n: ops.shown(orjson.loads(text)) for n, text in enumerate(texts)}
