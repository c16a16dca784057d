"""What server logs say of truncations: by which server, of which partition, to which offset, and when."""

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
    """when: as the server's log writes it."""

    node: str
    topic: str
    partition: int
    offset: int
    when: str

    def __str__(self) -> str:
        return f"{self.node} truncated its log to offset {self.offset} at {self.when}, by its server log"


def read(node: str, lines: Iterable[str]) -> Iterator[Truncation]:
    """The truncations that a server's log tells of, in its order."""
    for line in lines:
        if _MARK not in line:
            continue
        found = _LINE.search(line)
        if found:
            yield Truncation(node, found["name"], int(found["partition"]), int(found["offset"]), found["when"])
