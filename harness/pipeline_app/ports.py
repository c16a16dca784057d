"""The ports of a pipeline instance: a source to consume from and a sink to produce to, and its options.

A library's adapter implements them for brokers, and a simulation in memory. Calls block no longer than the port's
own timeouts. For any problem with the cluster they raise `Failed`, and nothing else.
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
    """A step failed.

    abort  abandon this flush: abort its transaction, seek back and continue
    fatal  the instance's consumer or producer is no longer usable (for example, it was fenced)
    """

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind, self.why = kind, why


class Mark(NamedTuple):
    """A committed offset (the next one to read), and the state stored as its metadata."""

    offset: int
    state: str = ""


class Rebalances(Protocol):
    """An instance's rebalance callbacks. Its source (the consumer) calls them during `poll` and `close`."""

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        """Called while the partitions are still owned; or with `lost`, when other members may already own them."""

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> Mapping[Partition, int]:
        """Called with newly assigned partitions and the group's committed offsets. Returns the offsets at which to
        start reading."""


class Source(Protocol):
    """A member of the consumer group. It is subscribed from its creation on."""

    def poll(self, timeout_s: float, records_max: int, on: Rebalances) -> Mapping[Partition, list[Record]]:
        """Call `on` for the poll's rebalances, then return the records by partition, in ascending order.

        There are no records of partitions that were revoked during the poll, and none that a rebalance has
        invalidated.
        """

    def seek(self, positions: Mapping[Partition, int]) -> None: ...
    def pause(self, partitions: Sequence[Partition]) -> None: ...
    def resume(self, partitions: Sequence[Partition]) -> None: ...
    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        """Commit offsets for the group, outside transactions, and wait for the response."""

    def generation(self) -> int | None:
        """Return this member's generation; None if it is not in the group or the library does not report it."""

    def close(self, leave: bool, on: Rebalances) -> None:
        """Close; with `leave`, revoke the partitions and leave the group first, otherwise disappear like a crashed
        process."""


class Sink(Protocol):
    """A producer. In modes without transactions, only `send` and `close` are called."""

    def begin(self) -> None: ...
    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        """Send the outputs. Without a transaction, wait until all are acknowledged; with one, its commit waits."""

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        """Add the consumer's offsets to the transaction."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def reopen(self) -> None:
        """Replace a fenced producer by a new one."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an instance.

    mode         exactly-once | at-least-once | at-most-once | auto-commit | files (exactly once, see `files`)
    mistake      a name of `mistakes.MISTAKES`, or None
    flush_s      longest time before pending work is produced
    commit_s     at-least-once: interval between two commits of offsets
    batch_max    number of pending records at which they are produced without waiting for `flush_s`
    ahead_max    number of buffered records at which a partition is paused
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
