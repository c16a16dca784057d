"""What a library must offer for the pipeline. A new one is a module, and `pipeline` in a row of `table.CLIENTS`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.clients.client_protocols import Admin
from harness.clients.pipeline.config import Made
from harness.pipeline_app.ports import Mark, Sink, Source
from harness.protocol.error_codes import ClientError, TopicPartition

Row = tuple[int, int, bytes]  # (offset, time of the record in ms since 1970, value)


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one record of a writer: its offset, or why not."""

    offset: int | None
    error: ClientError | None = None


class Writer(Protocol):
    """A producer of input records."""

    def send(self, records: Sequence[tuple[TopicPartition, bytes, bytes]], timeout_s: float) -> list[Sent]:
        """Send (partition, key, value) each, in order, and wait for all reports."""

    def sizes(self, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        """How many partitions each topic has, asked now; `send` takes all of them from then on. Raises
        ClientError."""

    def close(self) -> None: ...


class Logs(Protocol):
    """Reads partitions from beginning to end."""

    def read(
        self, ends: Mapping[TopicPartition, int], isolation: str, idle_s: float
    ) -> Iterator[tuple[TopicPartition, Row] | None]:
        """Every record below each end, of each partition ascending; None now and then while nothing comes.
        Raises ClientError when nothing has come for `idle_s`."""


class PipelineLibrary(Protocol):
    def source(self, made: Made) -> Source: ...
    def sink(self, made: Made) -> Sink: ...
    def writer(self, made: Made) -> Writer: ...
    def logs(self, made: Made) -> Logs: ...
    def admin(self, made: Made) -> Admin: ...
    def committed(
        self, made: Made, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Mark | None]:
        """What the group has committed. Raises ClientError."""

    def commit(self, made: Made, marks: Mapping[TopicPartition, Mark], timeout_s: float) -> None:
        """Commit for the group, which has no members. Raises ClientError."""

    def close(self) -> None:
        """Called last. What it has for itself ends."""
