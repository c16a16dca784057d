"""The ledger of a topic: which records were acknowledged at which offsets, and how their transactions ended.

The ledger is derived from actions and outcomes alone, so it can be used to judge the model as well as the log under
test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from harness.sim.log_model.action_types import Action, Outcome
from harness.sim.log_model.partition import View
from harness.sim.log_model.records import NO_TIMESTAMP, LogSettings

OPEN: Final = "open"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"


@dataclass(slots=True)
class Acked:
    """An acknowledged record, as [offset, timestamp, key, value].

    `txn` is the number of its transaction; -1: it was not sent in a transaction.
    """

    record: list[Any]
    txn: int


@dataclass(slots=True)
class Ledger:
    """The ledger of one partition.

    records      offset -> record
    end          the log end offset
    flushed      the offset below which all records are on disk
    deleted      the highest offset up to which DeleteRecords has deleted records
    saved_start  the log start offset in its checkpoint
    saved_high   the high watermark in its checkpoint
    replicated   the highest value that the high watermark has had; a truncation lowers it to the log end offset
    cleaned      whether compaction may have removed records that have a later record with the same key
    """

    records: dict[int, Acked] = field(default_factory=dict)
    end: int = 0
    flushed: int = 0
    deleted: int = 0
    saved_start: int = 0
    saved_high: int = 0
    replicated: int = 0
    cleaned: bool = False

    def cut(self, offset: int, end: int) -> None:
        """Removes the records from `offset` on. The log now ends at `end`."""
        self.records = {at: acked for at, acked in self.records.items() if at < offset}
        self.end = end
        self.flushed = min(self.flushed, offset)
        self.replicated = min(self.replicated, offset)


class Ledgers:
    """The ledgers of a topic's partitions, and the topic's transactions, clock and settings."""

    def __init__(self, settings: LogSettings, now: int) -> None:
        self.partitions = [Ledger() for _ in range(settings.partitions)]
        self.settings = settings
        self.now = now
        self.states: list[str] = []
        self._open: dict[int, int] = {}  # producer -> number of its open transaction

    def state(self, acked: Acked) -> str:
        return COMMITTED if acked.txn < 0 else self.states[acked.txn]

    def take(self, action: Action, outcome: Outcome, views: Sequence[View]) -> None:
        """Updates the ledgers with the outcome of an action. `views` are the views of the partitions
        after the action.
        """
        if outcome.error:
            return
        if action.f == "append":
            self._append(action, outcome.value)
        elif action.f in ("commit", "abort", "init"):
            self._end(action, views)
        elif action.f == "advance":
            partition = self.partitions[action.arg("partition")]
            partition.replicated = max(partition.replicated, outcome.value)
        elif action.f == "tick":
            self.now = outcome.value
        elif action.f == "set":
            self.settings = _changed(self.settings, action)
        elif action.f == "delete-records":
            partition = self.partitions[action.arg("partition")]
            partition.deleted = max(partition.deleted, outcome.value)
        elif action.f == "clean":
            for partition in self.partitions:
                partition.cleaned = partition.cleaned or self.settings.compacts
        else:
            self._durability(action, outcome, views)

    def _append(self, action: Action, offsets: Sequence[int]) -> None:
        partition, txn = self.partitions[action.arg("partition")], -1
        if action.arg("txn") and action.arg("producer") >= 0:
            producer = action.arg("producer")
            if producer not in self._open:
                self._open[producer] = len(self.states)
                self.states.append(OPEN)
            txn = self._open[producer]
        for at, (key, value, age) in enumerate(action.arg("records"), offsets[0]):
            timestamp = NO_TIMESTAMP if action.arg("magic") == 0 else self.now - age
            partition.records[at] = Acked([at, timestamp, key, value], txn)
        partition.end = offsets[1]

    def _end(self, action: Action, views: Sequence[View]) -> None:
        txn = self._open.pop(action.arg("producer"), None)
        if txn is not None:
            self.states[txn] = COMMITTED if action.f == "commit" else ABORTED
            for partition, view in zip(self.partitions, views, strict=True):
                partition.end = view.end  # markers

    def _durability(self, action: Action, outcome: Outcome, views: Sequence[View]) -> None:
        if action.f == "flush":
            partition = self.partitions[action.arg("partition")]
            partition.flushed = partition.end
        elif action.f == "checkpoint":
            for partition, view in zip(self.partitions, views, strict=True):
                partition.saved_start, partition.saved_high = view.start, view.high_watermark
        elif action.f == "elect":
            at = action.arg("partition")
            self.partitions[at].cut(outcome.value, views[at].end)
        elif action.f == "restart":
            for partition, view, offset in zip(self.partitions, views, outcome.value, strict=True):
                partition.cut(offset, view.end)
                if action.arg("how") == "clean":
                    partition.flushed = partition.end
                    partition.saved_start, partition.saved_high = view.start, view.high_watermark


def _changed(settings: LogSettings, action: Action) -> LogSettings:
    return replace(settings, **{action.arg("name"): action.arg("value")})
