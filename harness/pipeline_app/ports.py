"""The interfaces ("ports") of a pipeline instance: a source to consume from, a sink to produce to, and its options.

Each client library has an adapter that implements the ports for brokers; a simulation implements them in memory. Each
implementation limits how long its calls block. For any problem with the cluster, calls raise `Failed` and no other
exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

Partition = tuple[str, int]
Record = tuple[int, int, int]  # an input record: (offset, id, key)
Output = tuple[int, int, int]  # (id of the input record, key, n)

Kind = Literal["abort", "fatal"]

TRANSACTIONAL: Final = ("exactly-once", "files")  # the modes that commit outputs and offsets in one transaction


class Failed(Exception):
    """A step of an instance failed. `kind` is one of:

    abort  the instance must abandon the current flush: abort the transaction, seek back, and continue
    fatal  the instance's consumer or producer is no longer usable (for example, it was fenced)
    """

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind, self.why = kind, why


class Mark(NamedTuple):
    """A committed offset and its metadata.

    offset  offset of the next record to read
    state   the metadata, in which an instance stores its state
    """

    offset: int
    state: str = ""


class Rebalances(Protocol):
    """The rebalance callbacks of an instance. Its source (the consumer) calls them during `poll` and `close`."""

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        """Is called before the partitions are taken away from the instance.

        With `lost`, they have been taken away already, and other members may own them.
        """

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> Mapping[Partition, int]:
        """Is called with newly assigned partitions and their committed offsets (None: nothing committed).

        Returns partition -> offset at which to start reading.
        """


class Source(Protocol):
    """A member of the consumer group. It subscribes when it is created."""

    def poll(self, timeout_s: float, records_max: int, on: Rebalances) -> Mapping[Partition, list[Record]]:
        """Polls once. Returns partition -> records in ascending order of their offsets.

        Before it returns, calls a method of `on` for each rebalance during the poll.

        Omits records that were fetched before their partition was revoked, even if it has been assigned again.
        """

    def seek(self, positions: Mapping[Partition, int]) -> None: ...
    def pause(self, partitions: Sequence[Partition]) -> None: ...
    def resume(self, partitions: Sequence[Partition]) -> None: ...
    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        """Commits offsets for the group, outside transactions, and waits for the response."""

    def generation(self) -> int | None:
        """Returns this member's generation.

        Returns None if the member is not in the group or the library does not report generations.
        """

    def close(self, leave: bool, on: Rebalances) -> None:
        """Closes the consumer.

        With `leave`, revokes the partitions and leaves the group first; otherwise the consumer disappears like a
        crashed process.
        """


class Sink(Protocol):
    """A producer. In modes without transactions, only `send` and `close` are called."""

    def begin(self) -> None: ...
    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        """Sends the outputs. Without a transaction, also waits until all of them are acknowledged.

        In a transaction, `commit` waits for the acknowledgements.
        """

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        """Adds the consumer's offsets to the transaction."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def reopen(self) -> None:
        """Replaces a fenced producer with a new one."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an instance.

    mode         exactly-once | at-least-once | at-most-once | auto-commit | files (exactly once, see `files`)
    mistake      a name in `mistakes.MISTAKES`, or None
    flush_s      longest time for which records wait before their outputs are produced
    commit_s     at-least-once: interval between two commits of offsets
    batch_max    number of waiting records at which they are flushed without waiting for `flush_s`
    ahead_max    number of buffered records of a partition at which fetching from the partition is paused
    abort_p      fraction of transactions that are aborted on purpose
    """

    mode: str = "exactly-once"
    transform: str = "identity"
    mistake: str | None = None
    flush_s: float = 0.25
    commit_s: float = 1.0
    batch_max: int = 20_000
    ahead_max: int = 5_000
    poll_s: float = 0.05
    records_max: int = 2_000
    abort_p: float = 0.0
    seed: int = 0

    @property
    def transactional(self) -> bool:
        return self.mode in TRANSACTIONAL
