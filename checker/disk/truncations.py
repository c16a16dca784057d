"""Finds truncations in server logs: which server truncated which partition, to which offset, and when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(
    r"\[(?P<when>[^\]]+)\].*Log partition=(?P<name>[^,\]\s]+)-(?P<partition>\d{1,10}),"
    r".*(?:Truncating to offset|Truncate and start at offset) (?P<offset>\d{1,19})"
)
_MARK: Final = "runcat"


@dataclass(frozen=True, slots=True)
class Truncation:
    """A truncation of a log. `when` is the time as text, copied from the server's log."""

    node: str
    topic: str
    partition: int
    offset: int
    when: str

    def __str__(self) -> str:
        return f"{self.node} truncated its log to offset {self.offset} at {self.when}, according to its server log"


def read(node: str, lines: Iterable[str]) -> Iterator[Truncation]:
    """Yields the truncations in a server's log, in the order of its lines."""
    for line in lines:
        if _MARK not in line:
            continue
        found = _LINE.search(line)
        if found:
            yield Truncation(node, found["name"], int(found["partition"]), int(found["offset"]), found["when"])
