"""Deliberate mistakes of a pipeline instance: each is one small place, found by its name's constant.

The first four are those of "ZIO Kafka with transactions - a debugging story" (Ziverge, 2022), which lost
records around rebalances although every offset in the logs was right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Shows = Literal["missing-output", "duplicate-output"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """does: what is done wrong; shows: the anomaly that must be found; provoke: what brings it out."""

    does: str
    shows: Shows
    provoke: str


BUFFER_DROPPED: Final = "buffer-dropped-on-revoke"
BUFFER_CLEARED: Final = "buffer-cleared-after-rebalance"
STALE_REQUESTS: Final = "stale-requests-fulfilled"
REQUESTS_BETWEEN: Final = "requests-between-revoke-and-assign"
PRODUCE_AFTER: Final = "produce-after-revoke"
COMMIT_BUFFERED: Final = "commit-buffered"
WRONG_GENERATION: Final = "wrong-generation"
NO_REWIND: Final = "abort-without-rewind"
SHARED_ID: Final = "shared-transactional-id"
NOT_FENCED: Final = "zombie-not-fenced"

_EAGER: Final = "rebalances under an eager assignor, where a partition comes back to its instance"
_MOVES: Final = "rebalances that move partitions"

MISTAKES: Final[Mapping[str, Mistake]] = {
    BUFFER_DROPPED: Mistake(
        "what was read ahead is dropped when its partition is revoked; when that comes back, reading goes on behind it",
        "missing-output",
        _EAGER,
    ),
    BUFFER_CLEARED: Mistake(
        "what was read ahead is cleared when the poll with the rebalance returns",
        "missing-output",
        _EAGER,
    ),
    STALE_REQUESTS: Mistake(
        "requests that streams made before the restart are fulfilled after it, so streams that have ended "
        "get the records",
        "missing-output",
        _EAGER,
    ),
    REQUESTS_BETWEEN: Mistake(
        "requests of ended streams are accepted between a revocation and an assignment in a later poll",
        "missing-output",
        _EAGER + ", in polls of their own",
    ),
    PRODUCE_AFTER: Mistake(
        "the work at hand is produced after its partitions are revoked, in place of before; their new owner "
        "does it again",
        "duplicate-output",
        _MOVES,
    ),
    COMMIT_BUFFERED: Mistake(
        "the consumer's position is committed, beyond records that were read ahead and not yet worked on",
        "missing-output",
        _MOVES + ", kills",
    ),
    WRONG_GENERATION: Mistake(
        "work outlives the rebalance, and its offsets are committed in a generation that it is not of",
        "duplicate-output",
        _MOVES,
    ),
    NO_REWIND: Mistake(
        "after an abort the consumer is not set back (KAFKA-17582)",
        "missing-output",
        "aborted transactions",
    ),
    SHARED_ID: Mistake(
        "two instances share a transactional id, and one that was fenced makes itself a new producer and "
        "goes on as if its transaction had been committed",
        "missing-output",
        "two instances or more, of which one is silent at times",
    ),
    NOT_FENCED: Mistake(
        "each process has a transactional id of its own and its commits name no generation, so nobody stops "
        "a process that was paused and wakes",
        "duplicate-output",
        "clients paused beyond their session",
    ),
}
