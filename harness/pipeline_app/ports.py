"""What a pipeline instance asks of the world: a source to consume, a sink to produce, as plain data.

A library's adapter fills them for brokers, a simulation in memory. Calls wait at most as long as the port
itself allows and raise `Failed`, nothing else, for trouble with the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

Partition = tuple[str, int]
Record = tuple[int, int, int]  # an input record: (offset, id, key)
Output = tuple[int, int, int]  # (id of the input record, key, n)

Kind = Literal["abort", "fatal"]


class Failed(Exception):
    """A step did not succeed.

    abort  this flush is given up: abort what has been begun, go back and go on
    fatal  the instance's consumer or producer is of no more use (fenced, for one)
    """

    def __init__(self, kind: Kind, why: str) -> None:
        super().__init__(why)
        self.kind, self.why = kind, why


class Mark(NamedTuple):
    """A committed offset (the next to read), and the state that is kept with it."""

    offset: int
    state: str = ""


class Rebalances(Protocol):
    """The instance, as a source calls it from within `poll` and `close`."""

    def revoked(self, partitions: Sequence[Partition], lost: bool) -> None:
        """Called while the partitions are still held, or, `lost`, when others may hold them already."""

    def assigned(self, marks: Mapping[Partition, Mark | None]) -> Mapping[Partition, int]:
        """Partitions that are new here, each with what the group has committed. Where each is to be read
        from."""


class Source(Protocol):
    """A member of the consumer group. It is subscribed from the beginning."""

    def poll(self, timeout_s: float, records_max: int, on: Rebalances) -> Mapping[Partition, list[Record]]:
        """Records by partition, ascending, after the calls to `on` that the poll led to. Of partitions that
        were revoked during the poll there are none, of others none that a rebalance has made void."""

    def seek(self, positions: Mapping[Partition, int]) -> None: ...
    def pause(self, partitions: Sequence[Partition]) -> None: ...
    def resume(self, partitions: Sequence[Partition]) -> None: ...
    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        """Commit to the group, outside transactions, and wait for the answer."""

    def generation(self) -> int | None:
        """Of the group, as this member knows it; None when it is in none or the library does not tell."""

    def close(self, leave: bool, on: Rebalances) -> None:
        """With `leave`, partitions are revoked first and the group is told; else vanish."""


class Sink(Protocol):
    """A producer. Without transactions only `send` and `close` are called."""

    def begin(self) -> None: ...
    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        """Send them and wait until all are acknowledged."""

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        """Add the consumer's offsets to the transaction."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def reopen(self) -> None:
        """A new producer in place of one that was fenced."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """How an instance works.

    mode         exactly-once | at-least-once | at-most-once | auto-commit | files (exactly once, see `files`)
    mistake      a name of `mistakes.MISTAKES`, or None
    flush_s      how long work may wait before it is produced
    commit_s     at least once: how long offsets may wait before they are committed
    batch_max    records of work that are produced without waiting for `flush_s`
    ahead_max    records read ahead, per partition, beyond which it is paused
    abort_p      share of the transactions that are aborted on purpose
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
        return self.mode in ("exactly-once", "files")
