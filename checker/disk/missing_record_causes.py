"""Why a record that clients know is not where it should be: the history beside what lies on disk.

Looked at: each record that was acknowledged and that nobody read; each that was read and is in the log no
more; each that was read and that, by the history, cannot be there (no send of it was `ok` or `info`), or that
was read under read_committed though its transaction was aborted. Causes are told with what shows them; what
nothing shows is `not-explained`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from checker.disk.contents import ABORTED, OPEN, Contents, Seen
from checker.disk.truncations import Truncation
from checker.tables.schema import FAIL, INFO, OK

LOST: Final = "lost"  # acknowledged, and read by nobody
GONE: Final = "gone"  # read, and in the log no more
PHANTOM: Final = "phantom"  # read, and by the history it cannot be there
KINDS: Final = (LOST, GONE, PHANTOM)

CAUSES: Final[Mapping[str, str]] = {
    "never-written": "nowhere on disk, and nothing says that it ever was",
    "written-and-truncated": "it was in a log, and that part of the log was cut off",
    "filtered-as-aborted": "on disk, in a transaction that was aborted, so consumers leave it out",
    "in-open-transaction": "on disk, in a transaction that nothing has ended, so consumers wait",
    "behind-log-start": "below log start: retention or DeleteRecords",
    "compacted": "the cleaner has removed it",
    "damaged": "where it was, the file cannot be read",
    "above-high-watermark": "on disk, and not yet on enough replicas to be served",
    "on-disk-but-not-served": "on disk, below the high watermark, and nobody read it",
    "taken-for-another": "never written: the offset that was acknowledged holds another record, as if that "
    "one had been sent again",
    "beyond-log-end": "the log ends before the offset that was acknowledged",
    "written-though-refused": "on disk, though its send was told to have failed",
    "aborted-but-served": "on disk as aborted, and read all the same",
    "never-sent": "on disk, and the history has no send of it",
    "not-explained": "neither the files nor the server logs show why",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A send of the history. offset -1: not known; txn: its op is a transaction."""

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
    """A record that an `ok` op polled, for the first time."""

    value: int
    offset: int
    op: int


@dataclass(frozen=True, slots=True)
class Log:
    """The log that counts, and what is known beside it.

    end, log_start, high_watermark  of the reference replica; the last as high as anybody knows
    compacted    whether the cleaner has been at it
    began        leader epoch -> its first offset
    truncations  of any replica of the partition, by server logs
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
    """One record. offset: where it was acknowledged or read, -1 for nowhere; op: that sent or read it.

    shown  what shows the cause, in words
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
    refused: bool | None  # of a phantom: whether the history has a failed send of it


def suspects(sends: Iterable[Sent], reads: Iterable[Read], log: Log, read_committed: bool) -> list[Suspect]:
    """The records that must be explained."""
    sent: dict[int, Sent] = {}
    for send in sends:
        known = sent.get(send.value)
        if known is None or known.kind == FAIL:
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
    """The cause of each; seen: where else the values lie, on any replica, aside or not."""
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
    """Of a record that the log holds."""
    contents = log.contents
    offset, epoch, outcome = contents.offsets[row], contents.epochs[row], contents.outcomes[row]
    where = f"at offset {offset}, leader epoch {epoch}"
    if suspect.offset >= 0 and suspect.offset != offset:
        where += f", and not at {suspect.offset}"
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
    """Of a record that the log does not hold."""
    offset, contents = suspect.offset, log.contents
    if 0 <= offset < log.log_start:
        return "behind-log-start", f"log start is {log.log_start}"
    if offset >= 0 and (contents.is_broken(offset) or offset in contents.bad):
        why = contents.bad.get(offset, "the batch cannot be read")
        return "damaged", f"at offset {offset}: {why}{_also(seen)}"
    occupant = contents.at(offset) if offset >= 0 else None
    if log.compacted and occupant is None and 0 <= offset < log.end:
        return "compacted", f"offset {offset} is missing in a log that the cleaner has been at"
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
        return "never-written", "no acknowledgement named an offset, and no replica holds it"
    if occupant is not None and occupant[1] in log.began and not log.truncations:
        return "taken-for-another", _instead(offset, occupant, log).removeprefix("; ")
    return "not-explained", _instead(offset, occupant, log).removeprefix("; ") or "no replica holds it"


def _where(seen: Seen) -> str:
    aside = ", set aside" if seen.aside else ""
    return f"{seen.node} holds it at offset {seen.offset}, leader epoch {seen.epoch}: {seen.file}{aside}"


def _also(seen: Sequence[Seen]) -> str:
    return f"; {_where(seen[0])}" if seen else ""


def _instead(offset: int, occupant: tuple[int, int] | None, log: Log) -> str:
    """What stands in its place."""
    if occupant is None:
        return f"; the log ends at {log.end}" if offset >= log.end else ""
    value, epoch = occupant
    return f"; offset {offset} holds value {value} of leader epoch {epoch}, which began at {log.began.get(epoch, '?')}"
