"""The protocols that a client library implements for the pipeline workload.

To add a library, write a module and set `pipeline` in the library's row of `table.CLIENTS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from harness.clients.client_protocols import Admin
from harness.clients.pipeline.config import PipelineConfig
from harness.pipeline_app.ports import Mark, Sink, Source
from harness.protocol.error_codes import ClientError, TopicPartition


class Row(NamedTuple):
    """A record of a partition. The time is in ms since 1970."""

    offset: int
    time_ms: int
    value: bytes
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcome of one send of a writer: the offset or the error."""

    offset: int | None
    error: ClientError | None = None


class Writer(Protocol):
    """A producer of input records."""

    def send(self, records: Sequence[tuple[TopicPartition, bytes, bytes]], timeout_s: float) -> list[Sent]:
        """Sends each (partition, key, value) in order, and waits for all delivery reports. Returns the outcomes."""

    def sizes(self, topics: Sequence[str], timeout_s: float) -> dict[str, int]:
        """Refreshes the metadata, and returns topic -> number of partitions. Then `send` accepts all these partitions.

        Raises ClientError.
        """

    def close(self) -> None: ...


class Logs(Protocol):
    """Reads partitions completely, from the beginning to given end offsets."""

    def read(
        self, ends: Mapping[TopicPartition, int], isolation: str, idle_s: float
    ) -> Iterator[tuple[TopicPartition, Row] | None]:
        """Yields every record below the end offsets, in ascending order of offsets within a partition.

        While no record arrives, yields None from time to time. Raises ClientError if none arrives for `idle_s` seconds.
        """


class PipelineLibrary(Protocol):
    """Creates the parts of a pipeline client for one client library, and reads and commits the group's offsets."""

    def source(self, pipeline: PipelineConfig) -> Source: ...
    def sink(self, pipeline: PipelineConfig) -> Sink: ...
    def writer(self, pipeline: PipelineConfig) -> Writer: ...
    def logs(self, pipeline: PipelineConfig) -> Logs: ...
    def admin(self, pipeline: PipelineConfig) -> Admin: ...
    def committed(
        self, pipeline: PipelineConfig, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Mark | None]:
        """Returns partition -> the group's committed offset with its metadata (None: nothing committed).

        Raises ClientError.
        """

    def commit(self, pipeline: PipelineConfig, marks: Mapping[TopicPartition, Mark], timeout_s: float) -> None:
        """Commits offsets for the group, which must have no members. Raises ClientError."""

    def close(self) -> None:
        """Releases the resources of this object, such as its JVM. No other method may be called afterwards."""
