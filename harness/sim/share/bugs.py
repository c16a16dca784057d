"""The bugs that the simulated share group can have, and the anomaly that a checker must find for each.

A bug occurs at random moments of the load, but never in the final phase. `may_show` are anomalies that may occur in
addition, as a consequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Bug:
    """One bug.

    summary   what goes wrong
    shows     the anomaly that a run with the bug must have
    rate      the probability of the bug at each opportunity
    """

    summary: str
    shows: str
    may_show: frozenset[str] = frozenset()
    rate: float = 0.1


_AGAIN: Final = frozenset({"redelivered-after-accept", "overlapping-delivery", "delivery-count"})

BUGS: Final[dict[str, Bug]] = {
    "skip-record": Bug("a record is never handed out, and the start offset moves past it", "share-lost"),
    "redeliver-accepted": Bug(
        "a record becomes available again after its accept was confirmed",
        "redelivered-after-accept",
        _AGAIN | {"dead-letter-missing", "start-offset-regression", "unexplained-invalid-state"},
    ),
    "share-lock": Bug(
        "a record is handed to a second member while the first one has its lock",
        "overlapping-delivery",
        _AGAIN | {"unexplained-invalid-state"},
    ),
    "reset-count": Bug(
        "the delivery count of a record starts again at 1 when it is released", "delivery-count", rate=0.5
    ),
    "forget-released": Bug(
        "a released record is archived", "released-not-redelivered", frozenset({"share-lost"}), rate=0.6
    ),
    "aborted-visible": Bug(
        "records of aborted transactions are handed out",
        "share-aborted-read",
        frozenset({"unexplained-invalid-state", "dead-letter-missing"}),  # they are not acquired
        rate=0.5,
    ),
    "start-back": Bug("the listed start offset goes back", "start-offset-regression", rate=0.5),
    "refuse-held": Bug(
        "an acknowledgement by the member that has the lock is refused, and the record is available again",
        "unexplained-invalid-state",
        _AGAIN,
    ),
    "shuffled-batch": Bug("a poll returns two records of a partition in reverse order", "batch-order"),
    "no-dead-letter": Bug("a rejected record is not written to the dead letter queue", "dead-letter-missing", rate=0.5),
}
