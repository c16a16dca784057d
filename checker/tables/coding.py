"""Keys and values as int64.

An integer below BASE in magnitude is its own code, so the common history needs no dictionary. Anything else
(strings, foreign types, huge integers) gets a code from BASE upwards, in the order it was first seen; the
dictionary keeps its text, so that witnesses show the original.
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
EMPTY: Final = -BASE  # no value at all: a poll that named a key and held nothing


def _foreign(value: Any) -> str:
    """EDN text of what JSON lacks, `repr` of what both lack."""
    try:
        return reader.dumps(value)
    except TypeError:
        return repr(value)


def text_of(value: Any) -> str:
    """Canonical JSON text of a value."""
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS
    return orjson.dumps(value, default=_foreign, option=options).decode()


def ints(values: Iterable[int]) -> Ints:
    """Integers as an array, in half the time that numpy takes. Raises OverflowError, TypeError."""
    return np.frombuffer(array("q", values), np.int64)


class Coder:
    """A growing dictionary of what is not a plain integer."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._codes = {text: BASE + n for n, text in enumerate(texts)}

    @property
    def texts(self) -> list[str]:
        """Texts by code - BASE."""
        return list(self._codes)

    def code(self, value: Any) -> int:
        """The code of one value."""
        if type(value) is int and -BASE < value < BASE:
            return value
        try:
            text = text_of(value)
        except (TypeError, orjson.JSONEncodeError):  # an integer beyond 64 bits, say
            text = orjson.dumps(repr(value)).decode()
        return self._codes.setdefault(text, BASE + len(self._codes))

    def codes(self, values: Sequence[Any]) -> Ints:
        """The codes of many values; quick when all are plain integers."""
        if set(map(type, values)) <= {int}:
            try:
                plain = ints(values)
            except OverflowError:
                plain = None
            if plain is not None and (len(plain) == 0 or (plain.min() > -BASE and plain.max() < BASE)):
                return plain
        return np.array([self.code(value) for value in values], dtype=np.int64)


def decoder(texts: Sequence[str]) -> Mapping[int, Any]:
    """Code -> original, of the coded ones only; of what only EDN has, its text."""
    return {BASE + n: ops.shown(orjson.loads(text)) for n, text in enumerate(texts)}
