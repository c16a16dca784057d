"""Tracks the transactions in a log: where each begins, and whether its marker commits or aborts it (KIP-98)."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.protocol import records
from harness.protocol.record_batch import Batch


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction with a marker.

    first   offset of the first record
    marker  offset of the marker
    """

    producer_id: int
    first: int
    marker: int
    committed: bool


@dataclass(slots=True)
class Transactions:
    """The transactions of a log, read batch by batch.

    open  producer id -> first offset of its open transaction
    """

    open: dict[int, int] = field(default_factory=dict)

    def see(self, batch: Batch) -> Ended | None:
        """Takes the next batch of the log. Returns the transaction that this batch ends, if any. Raises Unreadable."""
        if not batch.transactional:
            return None
        if not batch.control:
            self.open.setdefault(batch.producer_id, batch.base)
            return None
        kind = records.marker(batch)
        if kind not in (records.ABORT, records.COMMIT) or batch.producer_id not in self.open:
            return None  # nothing was written in it here, or its records have been deleted
        first = self.open.pop(batch.producer_id)
        return Ended(batch.producer_id, first, batch.base, kind == records.COMMIT)
