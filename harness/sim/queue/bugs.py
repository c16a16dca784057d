"""The bugs that the simulated log can have, and the anomalies that a checker must find for each.

A bug occurs at random moments of the load, but never in the final polls, which read the log correctly. `shows` are the
anomalies that a run of a few hundred ops must have. `may_show` are anomalies that may occur in addition, as a
consequence (for example, a duplicate value has two offsets, so a consumer that reads both seems to go backwards).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Bug:
    """One bug.

    summary    what goes wrong in the log
    needs_txn  the bug cannot occur without transactions
    rate       the probability of the bug at each opportunity
    """

    summary: str
    shows: frozenset[str]
    may_show: frozenset[str] = frozenset()
    needs_txn: bool = False
    rate: float = 0.15


def _bug(summary: str, shows: str, may_show: str = "", needs_txn: bool = False, rate: float = 0.15) -> Bug:
    return Bug(summary, frozenset(shows.split()), frozenset(may_show.split()), needs_txn, rate)


_ORDER: Final = (
    "int-poll-skip int-nonmonotonic-poll poll-skip nonmonotonic-poll int-nonmonotonic-send nonmonotonic-send"
)

BUGS: Final[dict[str, Bug]] = {
    "lose-acked": _bug(
        "an acknowledged record is lost; its offset stays empty",
        "lost-write",
        "unseen torn-transaction int-send-skip poll-skip int-poll-skip",
    ),
    "truncate-acked": _bug(
        "a new leader lacks the last acknowledged record, and reuses its offset for the next record",
        "lost-write inconsistent-offsets",
        f"unseen torn-transaction int-send-skip {_ORDER}",
    ),
    "duplicate-on-retry": _bug(
        "the response to a send is lost, and the retry appends the record again",
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
        "poll-skip int-poll-skip",  # for consumers that do not see records that are then aborted
        needs_txn=True,
        rate=0.5,
    ),
    "skip-poll": _bug("an assigned consumer skips a record between two polls", "poll-skip"),
    "repeat-poll": _bug("an assigned consumer gets its last record again", "nonmonotonic-poll"),
    "int-skip-poll": _bug("a poll skips a record between two others", "int-poll-skip"),
    "int-repeat-poll": _bug("a poll returns the same record twice in a row", "int-nonmonotonic-poll"),
    "reorder": _bug(
        "a send in flight is overtaken by the process's next send to the same key",
        "nonmonotonic-send",
        "int-nonmonotonic-send int-send-skip stale-send",
    ),
    "int-reorder": _bug(
        "two sends of one op to one key are appended in reverse order",
        "int-nonmonotonic-send",
        "int-send-skip nonmonotonic-send stale-send",
        needs_txn=True,
        rate=0.7,
    ),
    "stale-order": _bug(
        "a send gets a lower offset than a send that was acknowledged before it was invoked",
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
        "a send that timed out is on one replica only, at an offset where the others have another record",
        "inconsistent-offsets",
        f"lost-write torn-transaction {_ORDER}",  # records read from that replica are not found later
    ),
    "lose-commit": _bug(
        "a group's last committed offset of a key is lost, and the key's next owner reads its records again",
        "offset-regression",
        rate=0.3,
    ),
    "start-beyond": _bug(
        "a consumer starts one record after the group's committed offset when the group assigns it a key",
        "poll-skip",
        rate=0.5,
    ),
    "aborted-offsets": _bug(
        "the consumer offsets of a transaction that aborted are committed",
        "offset-regression",
        needs_txn=True,
        rate=0.3,
    ),
    "concurrent-owners": _bug(
        "the group assigns a key to a member although another member of the same generation has it",
        "concurrent-owners",
        "offset-regression",
        rate=0.5,
    ),
    "phantom": _bug("the log has a record that was never sent", "phantom-read"),
    "torn-transaction": _bug(
        "one of a committed transaction's records is lost",
        "torn-transaction lost-write",
        "unseen int-send-skip poll-skip int-poll-skip",
        needs_txn=True,
    ),
}
