"""Times, values, counts and lists in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

LISTED: Final = 8


def seconds(time_ns: int) -> str:
    """A time since the run began."""
    return f"{time_ns / 1e9:.3f} s"


def plain(value: Any) -> str:
    """A value as text that a terminal can be given: what does not print is escaped."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def first_of(values: Sequence[Any], count: int) -> str:
    """The first few values of `count`."""
    text = ", ".join(str(value) for value in values[:LISTED])
    return text + (f", ... ({count:,} in all)" if count > LISTED else "")


def listed(values: Sequence[Any]) -> str:
    """The first few of the values."""
    return first_of(values, len(values))


def at_offset(offset: int | None) -> str:
    """Where, or nothing."""
    return "" if offset is None else f" at offset {offset}"


def many(n: int, what: str) -> str:
    """A count of things."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def joined(*parts: str) -> str:
    """Sentences of the parts that say something."""
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part)
