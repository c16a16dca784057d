"""The parts of an instance's state: portions of records, partitions that it holds, and the work at hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.pipeline_app.ports import Record


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition that follow each other; `next` is the offset behind them."""

    records: list[Record]

    @property
    def first(self) -> int:
        return self.records[0][0]

    @property
    def next(self) -> int:
        return self.records[-1][0] + 1


@dataclass(slots=True)
class Stream:
    """A partition that is held.

    stored    what the group has committed
    taken     behind the last record that was handed on: what may be committed when it is worked off
    position  what the consumer reads next
    done      behind the last record that has been produced
    given_up  behind the last record of work that was given up
    ahead     read, and not yet asked for
    state     what the group keeps with `stored`
    counts    for `aggregate`: how many records of each key have been produced
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
    """What one stream has been handed since the last flush. `counts`: as the stream's, and with it."""

    stream: Stream
    chunks: list[Chunk] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)


def state_of(counts: Mapping[int, int]) -> str:
    """Counts as text, to be kept with an offset."""
    return json.dumps({str(key): n for key, n in counts.items()}, separators=(",", ":")) if counts else ""


def counts_of(state: str) -> dict[int, int]:
    """The same back again."""
    return {int(key): int(n) for key, n in json.loads(state).items()} if state else {}
