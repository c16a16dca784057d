"""Explains why a record is not where the history says it should be, by comparing the history with the files on disk.

Three kinds of records are explained, called *suspects*: records that were acknowledged but read by no client; records
that were read but are no longer in the log; and records that were read although they cannot be visible (no send of the
record was `ok` or `info`, or its transaction was aborted and the reader was read_committed). Each cause comes with its
evidence. Without any evidence the cause is `not-explained`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checker.disk.contents import ABORTED, OPEN, Contents, Seen
from checker.disk.truncations import Truncation
from checker.tables.schema import FAIL, INFO, OK

LOST: Final = "lost"  # acknowledged, but read by no client
GONE: Final = "gone"  # read, but no longer in the log
PHANTOM: Final = "phantom"  # read, although by the history it cannot be visible
KINDS: Final = (LOST, GONE, PHANTOM)

CAUSES: Final[Mapping[str, str]] = {
    "never-written": "it is not on disk, and nothing indicates that it ever was",
    "written-and-truncated": "it was in a log, and that part of the log was truncated",
    "filtered-as-aborted": "it is on disk in an aborted transaction, so consumers skip it",
    "in-open-transaction": "it is on disk in an open transaction, so consumers wait for its end",
    "behind-log-start": "it is below log start: deleted by retention or DeleteRecords",
    "compacted": "the log cleaner has removed it",
    "damaged": "the file is damaged where it was",
    "above-high-watermark": "it is on disk, but not yet on enough replicas to be served",
    "on-disk-but-not-served": "it is on disk below the high watermark, but no client read it",
    "taken-for-another": "it was never written: the acknowledged offset has another record, as if the broker had "
    "taken this one for a retry",
    "beyond-log-end": "the log ends before the acknowledged offset",
    "written-though-refused": "it is on disk, although its send was reported as failed",
    "aborted-but-served": "it is on disk in an aborted transaction, but was read",
    "never-sent": "it is on disk, but the history has no send of it",
    "not-explained": "neither the files nor the server logs show a cause",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A send in the history.

    offset  the acknowledged offset; -1 if unknown
    kind    the type of the op, as a code (OK, FAIL, INFO)
    op      the id of the op
    txn     whether the op is a transaction
    """

    value: int
    offset: int
    kind: int
    op: int
    txn: bool

    @property
    def acknowledged(self) -> bool:
        return self.kind == OK or (self.kind == INFO and not self.txn and self.offset >= 0)


@dataclass(frozen=True, slots=True)
class Read:
    """The first time that an `ok` op polled a record."""

    value: int
    offset: int
    op: int


@dataclass(frozen=True, slots=True)
class Log:
    """The active log of a partition, and what else is known about it.

    contents        the records of the reference replica (checker.disk.comparison)
    log_start       the log start offset of the reference replica
    end             the log end offset of the reference replica
    high_watermark  the highest high watermark known for any replica; None: unknown
    compacted       whether the log cleaner has cleaned the log
    began           leader epoch -> the first offset of the epoch
    truncations     the truncations of all replicas of the partition, as found in the server logs
    """

    contents: Contents
    log_start: int
    end: int
    high_watermark: int | None
    compacted: bool
    began: Mapping[int, int]
    truncations: Sequence[Truncation] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """The explanation of one record.

    kind    the kind of suspect
    offset  the offset at which the record was acknowledged or read; -1: unknown
    op      the op that sent or read the record
    cause   the name of the cause
    shown   the evidence for the cause, in words
    """

    kind: str
    key: int
    value: int
    offset: int
    op: int
    cause: str
    shown: str


@dataclass(frozen=True, slots=True)
class Suspect:
    kind: str
    value: int
    offset: int
    op: int
    was_read: bool
    refused: bool | None  # for a phantom: whether the history has a failed send of it


def suspects(sends: Iterable[Sent], reads: Iterable[Read], log: Log, read_committed: bool) -> list[Suspect]:
    """Compares the history with the log, and returns the records that need an explanation.

    `read_committed`: whether consumers must not see the records of open or aborted transactions.
    """
    sent: dict[int, Sent] = {}
    for send in sends:
        earlier = sent.get(send.value)
        if earlier is None or earlier.kind == FAIL:
            sent[send.value] = send
    contents = log.contents
    places = {value: row for row, value in enumerate(contents.values)}
    found, was_read = list[Suspect](), set[int]()
    for read in reads:
        if read.value in was_read:
            continue
        was_read.add(read.value)
        written, row = sent.get(read.value), places.get(read.value)
        aborted = row is not None and contents.outcomes[row] == ABORTED
        if written is None or written.kind == FAIL or (aborted and read_committed):
            refused = None if written is None else written.kind == FAIL
            found.append(Suspect(PHANTOM, read.value, read.offset, read.op, True, refused))
        elif row is None and not (0 <= read.offset < log.log_start):
            found.append(Suspect(GONE, read.value, read.offset, read.op, True, None))
    for send in sent.values():
        if send.acknowledged and send.value not in was_read:
            found.append(Suspect(LOST, send.value, send.offset, send.op, False, None))
    return found


def explain(key: int, suspected: Sequence[Suspect], log: Log, seen: Mapping[int, Sequence[Seen]]) -> list[Finding]:
    """Returns the cause of each suspect, in the same order.

    key   the key of the suspects, which is copied to the findings
    seen  value -> where else the record is on disk: on any replica, in its active log or in files that no longer belong
          to it
    """
    places = {value: row for row, value in enumerate(log.contents.values)}
    found = []
    for suspect in suspected:
        row = places.get(suspect.value)
        if row is not None:
            cause, shown = _of_present(suspect, row, log)
        else:
            cause, shown = _of_absent(suspect, log, seen.get(suspect.value, ()))
        found.append(Finding(suspect.kind, key, suspect.value, suspect.offset, suspect.op, cause, shown))
    return found


def _of_present(suspect: Suspect, row: int, log: Log) -> tuple[str, str]:
    """Returns (cause, evidence) for a record that is in the log."""
    contents = log.contents
    offset, epoch, outcome = contents.offsets[row], contents.epochs[row], contents.outcomes[row]
    where = f"at offset {offset}, leader epoch {epoch}"
    if suspect.offset >= 0 and suspect.offset != offset:
        where += f", not at {suspect.offset}"
    if suspect.kind == PHANTOM:
        if outcome == ABORTED:
            return "aborted-but-served", where
        return ("never-sent", where) if suspect.refused is None else ("written-though-refused", where)
    if outcome == ABORTED:
        return "filtered-as-aborted", where
    if offset < log.log_start:
        return "behind-log-start", f"{where}; log start is {log.log_start}"
    if outcome == OPEN:
        return "in-open-transaction", where
    if log.high_watermark is not None and offset >= log.high_watermark:
        return "above-high-watermark", f"{where}; the high watermark is {log.high_watermark}"
    return "on-disk-but-not-served", where


def _of_absent(suspect: Suspect, log: Log, seen: Sequence[Seen]) -> tuple[str, str]:
    """Returns (cause, evidence) for a record that is not in the log."""
    offset, contents = suspect.offset, log.contents
    if 0 <= offset < log.log_start:
        return "behind-log-start", f"log start is {log.log_start}"
    if offset >= 0 and (contents.is_broken(offset) or offset in contents.bad):
        why = contents.bad.get(offset, "the batch cannot be read")
        return "damaged", f"at offset {offset}: {why}{_also(seen)}"
    occupant = contents.at(offset) if offset >= 0 else None
    if log.compacted and occupant is None and 0 <= offset < log.end:
        return "compacted", f"offset {offset} is missing from a log that the cleaner has cleaned"
    if seen:
        return "written-and-truncated", _where(seen[0]) + _instead(offset, occupant, log)
    truncations = [truncation for truncation in log.truncations if 0 <= truncation.offset <= offset]
    if truncations:
        return "written-and-truncated", str(truncations[-1]) + _instead(offset, occupant, log)
    if suspect.was_read:
        return "written-and-truncated", f"op {suspect.op} read it" + _instead(offset, occupant, log)
    if occupant is not None and log.began.get(occupant[1], offset + 1) <= offset and len(log.began) > 1:
        return "written-and-truncated", _instead(offset, occupant, log).removeprefix("; ")
    if offset >= log.end:
        return "beyond-log-end", f"the log ends at {log.end}"
    if offset < 0:
        return "never-written", "no acknowledgement had an offset, and no replica has the record"
    if occupant is not None and occupant[1] in log.began and not log.truncations:
        return "taken-for-another", _instead(offset, occupant, log).removeprefix("; ")
    return "not-explained", _instead(offset, occupant, log).removeprefix("; ") or "no replica has it"


def _where(seen: Seen) -> str:
    aside = ", set aside" if seen.aside else ""
    return f"{seen.node} has it at offset {seen.offset}, leader epoch {seen.epoch}: {seen.file}{aside}"


def _also(seen: Sequence[Seen]) -> str:
    return f"; {_where(seen[0])}" if seen else ""


def _instead(offset: int, occupant: tuple[int, int] | None, log: Log) -> str:
    """Returns a clause that ends a sentence: what the log has at the offset in place of the record; "" if nothing.

    `occupant`: (value, leader epoch) of the record that is there, if any.
    """
    if occupant is None:
        return f"; the log ends at {log.end}" if offset >= log.end else ""
    value, epoch = occupant
    return f"; offset {offset} has value {value} of leader epoch {epoch}, which started at {log.began.get(epoch, '?')}"
