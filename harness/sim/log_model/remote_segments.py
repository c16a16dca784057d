"""The contents of the remote tier: copies of whole segments."""

from __future__ import annotations

from dataclasses import dataclass

from harness.sim.log_model.records import Batch


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A copy of a segment, with offsets [base, end). It may be used only after it has been committed (KIP-405).

    max_timestamp      the largest timestamp of its records in ms; -1 if no record has one
    largest_timestamp  the same, but the time of the last write to the segment if no record has a timestamp
    """

    base: int
    end: int
    size: int
    max_timestamp: int
    largest_timestamp: int
    batches: tuple[Batch, ...]
    committed: bool = False
