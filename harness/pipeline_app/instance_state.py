"""The parts of an instance's state: chunks of records, assigned partitions, and pending work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.pipeline_app.ports import Record

END: Final = "\0"  # of a state with counts


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
    """An assigned partition, and how far its records have been processed.

    stored    the group's committed offset
    taken     offset after the last record handed to the stream; is committed once the work has been produced
    position  offset of the next record that the consumer polls
    done      offset after the last record whose output was produced
    given_up  offset after the last record of abandoned work
    ahead     buffered records, which the stream has not requested yet
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

    counts  the stream's `counts`, with these records included
    """

    stream: Stream
    chunks: list[Chunk] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)


def state_of(counts: Mapping[int, int]) -> str:
    """Encodes counts as a text, which is committed as the metadata of an offset.

    The text ends with END: without it, confluent-kafka would read metadata that another library has written beyond its
    end (docs/findings/confluent-metadata).
    """
    return json.dumps({str(key): n for key, n in counts.items()}, separators=(",", ":")) + END if counts else ""


def counts_of(state: str) -> dict[int, int]:
    """Returns the counts from a text that `state_of` returned.

    END may be missing, because confluent-kafka does not return it, and may follow the empty text, because
    confluent-kafka adds it.
    """
    text = state.partition(END)[0]
    return {int(key): int(n) for key, n in json.loads(text).items()} if text else {}
