"""The parts of an instance's state: chunks of records, assigned partitions, and pending work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.pipeline_app.ports import Record


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of one partition; `next` is the offset after the last record."""

    records: list[Record]

    @property
    def first(self) -> int:
        return self.records[0][0]

    @property
    def next(self) -> int:
        return self.records[-1][0] + 1


@dataclass(slots=True)
class Stream:
    """An assigned partition, and how far its records have come.

    stored    the group's committed offset
    taken     offset after the last record handed to the stream; may be committed once the work is produced
    position  the next offset that the consumer reads
    done      offset after the last produced record
    given_up  offset after the last record of abandoned work
    ahead     buffered records: polled but not requested yet
    state     the state committed with `stored`
    counts    for `aggregate`: number of records produced, by key
    """

    stored: int
    taken: int
    position: int
    state: str = ""
    counts: dict[int, int] = field(default_factory=dict)
    ahead: list[Chunk] = field(default_factory=list)
    done: int = 0
    given_up: int = 0

    def size(self) -> int:
        return sum(len(chunk.records) for chunk in self.ahead)


@dataclass(slots=True)
class Work:
    """The records handed to a stream since the last flush.

    counts  the stream's counts, including this work
    """

    stream: Stream
    chunks: list[Chunk] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)


def state_of(counts: Mapping[int, int]) -> str:
    """Returns counts as text. The text is committed as metadata of an offset."""
    return json.dumps({str(key): n for key, n in counts.items()}, separators=(",", ":")) if counts else ""


def counts_of(state: str) -> dict[int, int]:
    """Returns the counts in a text that `state_of` made."""
    return {int(key): int(n) for key, n in json.loads(state).items()} if state else {}
