"""Encodes the keys and values of a history as int64.

An integer whose absolute value is below BASE is its own code, so a typical history needs no dictionary. Any other key
or value (a string, another type, a huge integer) gets a code from BASE upwards, in the order of first occurrence. The
dictionary keeps its JSON text, so that witnesses can show the original.
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
    """Returns Python integers as an int64 array. Raises OverflowError, TypeError.

    This takes half the time of `np.array`.
    """
    return np.frombuffer(array("q", values), np.int64)


class Coder:
    """Encodes keys and values. Those that are not plain integers are added to its dictionary."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._codes = {text: BASE + n for n, text in enumerate(texts)}

    @property
    def texts(self) -> list[str]:
        """The JSON texts in the dictionary, in the order of their codes. The code of the first one is BASE."""
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
        """Returns the codes of many values. This is fast if all of them are plain integers."""
        if set(map(type, values)) <= {int}:
            try:
                plain = ints(values)
            except OverflowError:
                plain = None
            if plain is not None and (len(plain) == 0 or (plain.min() > -BASE and plain.max() < BASE)):
                return plain
        return np.array([self.code(value) for value in values], dtype=np.int64)


def decoder(texts: Sequence[str]) -> Mapping[int, Any]:
    """Returns code -> original value for the dictionary `texts` (see `Coder.texts`).

    If only EDN has the type of a value, the mapping has the value's EDN text.
    """
    return {BASE + n: ops.shown(orjson.loads(text)) for n, text in enumerate(texts)}
