"""Bugs that the simulated log can be given, and what each must make a checker say.

Each fires at random moments of the load, never in the final polls, which read the log as it is. `shows` are
the anomalies that a run of some hundred ops must yield; `beside` are those that may come with them, by the
definitions in use (a doubled value has two offsets, so reading both looks like going backwards, ...).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Bug:
    """summary: what goes wrong in the log; needs_txn: it has no meaning without transactions."""

    summary: str
    shows: frozenset[str]
    beside: frozenset[str] = frozenset()
    needs_txn: bool = False
    rate: float = 0.15


def _bug(summary: str, shows: str, beside: str = "", needs_txn: bool = False, rate: float = 0.15) -> Bug:
    return Bug(summary, frozenset(shows.split()), frozenset(beside.split()), needs_txn, rate)


_ORDER: Final = (
    "int-poll-skip int-nonmonotonic-poll poll-skip nonmonotonic-poll int-nonmonotonic-send nonmonotonic-send"
)

BUGS: Final[dict[str, Bug]] = {
    "lose-acked": _bug(
        "an acknowledged record is gone; its offset stays empty",
        "lost-write",
        "unseen torn-transaction int-send-skip poll-skip int-poll-skip",
    ),
    "truncate-acked": _bug(
        "a new leader lacks the last acknowledged record, and gives its offset to the next one",
        "lost-write inconsistent-offsets",
        f"unseen torn-transaction int-send-skip {_ORDER}",
    ),
    "duplicate-on-retry": _bug(
        "the answer to a send is lost, and the retry appends it again",
        "duplicate",
        f"int-send-skip {_ORDER}",
    ),
    "aborted-visible": _bug(
        "records of an aborted transaction, or of a refused send, are visible",
        "G1a",
        "torn-transaction",
        rate=0.3,
    ),
    "precommitted-visible": _bug(
        "a transaction polls its own sends before it commits",
        "precommitted-read",
        "poll-skip int-poll-skip",  # of those that do not see what then aborted
        needs_txn=True,
        rate=0.5,
    ),
    "skip-poll": _bug("an assigned consumer steps over a record between two polls", "poll-skip"),
    "repeat-poll": _bug("an assigned consumer gets its last record again", "nonmonotonic-poll"),
    "int-skip-poll": _bug("a poll leaves out a record between two others", "int-poll-skip"),
    "int-repeat-poll": _bug("a poll holds one record twice in a row", "int-nonmonotonic-poll"),
    "reorder": _bug(
        "a send in flight is overtaken by the process's next send to the key",
        "nonmonotonic-send",
        "int-nonmonotonic-send int-send-skip stale-send",
    ),
    "int-reorder": _bug(
        "two sends of one op to one key land in the reverse order",
        "int-nonmonotonic-send",
        "int-send-skip nonmonotonic-send stale-send",
        needs_txn=True,
        rate=0.7,
    ),
    "stale-order": _bug(
        "a send gets an offset below one that was acknowledged before it began",
        "stale-send",
        "nonmonotonic-send int-nonmonotonic-send int-send-skip",
    ),
    "dirty-read": _bug(
        "transactions poll each other's records before they commit",
        "G1c",
        "G1a G1c-realtime torn-transaction poll-skip int-poll-skip lost-write unseen",
        needs_txn=True,
        rate=1.0,
    ),
    "diverge": _bug(
        "a send that timed out lives on one replica, at an offset that the others gave to another record",
        "inconsistent-offsets",
        f"lost-write torn-transaction {_ORDER}",  # what was read on the replica is gone later
    ),
    "lose-commit": _bug(
        "a group's last committed offset of a key is lost, and who is assigned the key next reads again",
        "offset-regression",
        rate=0.3,
    ),
    "start-beyond": _bug(
        "who is assigned a key by the group begins one record beyond what the group has committed",
        "poll-skip",
        rate=0.5,
    ),
    "aborted-offsets": _bug(
        "the consumer offsets of a transaction that aborted are committed",
        "offset-regression",
        needs_txn=True,
        rate=0.3,
    ),
    "phantom": _bug("a record in the log that nobody sent", "phantom-read"),
    "torn-transaction": _bug(
        "one of a committed transaction's records is gone",
        "torn-transaction lost-write",
        "unseen int-send-skip poll-skip int-poll-skip",
        needs_txn=True,
    ),
}
