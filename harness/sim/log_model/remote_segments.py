"""The contents of the remote tier: copies of whole segments."""

from __future__ import annotations

from dataclasses import dataclass

from harness.sim.log_model.records import Batch


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A copy of a segment, with offsets [base, end). The copy may be used only after it has been
    committed (KIP-405).
    """

    base: int
    end: int
    size: int
    max_timestamp: int
    largest_timestamp: int
    batches: tuple[Batch, ...]
    committed: bool = False
