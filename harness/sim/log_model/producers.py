"""The state that a partition keeps of idempotent producers.

Rules, each with its source:
- A batch with the same sequence numbers as one of the producer's last five batches is a retry: it is acknowledged with
  the offset of the earlier batch, and not appended (KIP-98, KAFKA-5494).
- The first sequence number of any other batch must follow the producer's last one. A producer without state in the
  partition may start with any number (KIP-360); a producer with a new epoch must start with 0 (KIP-98).
- A batch with an older epoch is rejected: the producer has been fenced (KIP-98, KIP-360).
- Deleting a producer's records, also by retention, does not remove its state (KIP-360).
- A marker has the producer's epoch, but no sequence numbers (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

CACHED: Final = 5
FENCED: Final = "INVALID_PRODUCER_EPOCH"
OUT_OF_ORDER: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"


@dataclass(frozen=True, slots=True)
class Written:
    """A batch that a producer wrote: it has the sequence numbers first..last, and the offsets base..end-1."""

    epoch: int
    first: int
    last: int
    base: int
    end: int


@dataclass(slots=True)
class Sequences:
    """Each producer's batches in this partition, in order."""

    written: dict[int, list[Written]] = field(default_factory=dict)

    def judge(self, producer: int, epoch: int, first: int, count: int) -> Written | str | None:
        """Returns the earlier batch that this batch repeats, or the name of the error with which it is rejected.

        Returns None if it can be appended.
        """
        known = self.written.get(producer)
        if not known:
            return None
        latest = known[-1]
        if epoch < latest.epoch:
            return FENCED
        if epoch > latest.epoch:
            return None if first == 0 else OUT_OF_ORDER
        for batch in known[-CACHED:]:
            if (batch.epoch, batch.first, batch.last) == (epoch, first, first + count - 1):
                return batch
        return None if first == latest.last + 1 else OUT_OF_ORDER

    def add(self, producer: int, written: Written) -> None:
        self.written.setdefault(producer, []).append(written)

    def truncate(self, end: int) -> None:
        """Removes the batches that have offsets from `end` on."""
        self.written = {
            producer: kept
            for producer, all_ in self.written.items()
            if (kept := [batch for batch in all_ if batch.end <= end])
        }
