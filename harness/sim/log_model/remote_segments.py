"""What the remote tier holds: copies of whole segments."""

from __future__ import annotations

from dataclasses import dataclass

from harness.sim.log_model.records import Batch


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment's copy, offsets [base, end). Until it is `committed` nobody may rely on it (KIP-405)."""

    base: int
    end: int
    size: int
    max_timestamp: int
    largest_timestamp: int
    batches: tuple[Batch, ...]
    committed: bool = False
