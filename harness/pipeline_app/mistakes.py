"""The deliberate mistakes that a pipeline instance can make.

Each mistake is a small piece of code; search for the mistake's constant to find it. The first four mistakes are from
"ZIO Kafka with transactions - a debugging story" (Ziverge, 2022). There they lost records around rebalances,
although every offset that the application logged was correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Shows = Literal["missing-output", "duplicate-output"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A deliberate mistake of a pipeline instance.

    does     what the instance does wrong
    shows    the anomaly that the checker must find
    provoke  what makes the anomaly appear
    """

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

_EAGER: Final = "rebalances with an eager assignor, in which an instance gets a partition back"
_MOVES: Final = "rebalances that move partitions"

MISTAKES: Final[Mapping[str, Mistake]] = {
    BUFFER_DROPPED: Mistake(
        "the buffer of a revoked partition is dropped; when the partition is assigned again, reading "
        "continues after the dropped records",
        "missing-output",
        _EAGER,
    ),
    BUFFER_CLEARED: Mistake(
        "buffered records are cleared when the poll with the rebalance returns",
        "missing-output",
        _EAGER,
    ),
    STALE_REQUESTS: Mistake(
        "requests that streams made before a restart are served after it, so the records go to streams that have ended",
        "missing-output",
        _EAGER,
    ),
    REQUESTS_BETWEEN: Mistake(
        "requests of ended streams are accepted between a revocation and an assignment in a later poll",
        "missing-output",
        _EAGER + ", with revocation and assignment in separate polls",
    ),
    PRODUCE_AFTER: Mistake(
        "pending work is produced after its partitions were revoked instead of before, so the new owner processes "
        "it again",
        "duplicate-output",
        _MOVES,
    ),
    COMMIT_BUFFERED: Mistake(
        "the consumer's position is committed, although buffered records below it have not been processed yet",
        "missing-output",
        _MOVES + ", kills",
    ),
    WRONG_GENERATION: Mistake(
        "work survives a rebalance, and its offsets are committed in a later generation",
        "duplicate-output",
        _MOVES,
    ),
    NO_REWIND: Mistake(
        "after an abort the consumer does not seek back (KAFKA-17582)",
        "missing-output",
        "aborted transactions",
    ),
    SHARED_ID: Mistake(
        "two instances share a transactional id, and a fenced instance opens a new producer and continues as if its "
        "transaction had been committed",
        "missing-output",
        "at least two instances, one of which pauses at times",
    ),
    NOT_FENCED: Mistake(
        "each process has its own transactional id and commits without a generation, so a process that resumes after "
        "a pause is not fenced",
        "duplicate-output",
        "clients paused for longer than their session timeout",
    ),
}
