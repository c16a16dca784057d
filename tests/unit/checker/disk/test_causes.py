"""Each cause, from a log and a history that show it."""

from __future__ import annotations

import pytest

from checker.disk import truncations
from checker.disk.contents import ABORTED, COMMITTED, OPEN, Contents, Seen
from checker.disk.missing_record_causes import CAUSES, Finding, Log, Read, Sent, explain, suspects
from checker.disk.truncations import Truncation
from checker.tables.schema import FAIL, INFO, OK

# offset, value, leader epoch, outcome; 4 is missing, 20 cannot be read.
ROWS = [(n, 100 + n, 0 if n < 10 else 2, COMMITTED) for n in range(20) if n != 4]
ROWS += [(21, 121, 2, ABORTED), (22, 122, 2, OPEN), (23, 123, 2, COMMITTED), (24, 124, 2, COMMITTED)]


def log(**changes: object) -> Log:
    contents = Contents(broken=[(20, 20)], bad={23: "bad-payload:checksum:00"})
    for offset, value, epoch, outcome in ROWS:
        contents.offsets.append(offset)
        contents.values.append(value)
        contents.epochs.append(epoch)
        contents.outcomes.append(outcome)
    known = {"log_start": 2, "end": 25, "high_watermark": 24, "compacted": False, "began": {0: 0, 2: 10}}
    return Log(contents=contents, **{**known, **changes})  # type: ignore[arg-type]


def found(sends: list[Sent], reads: list[Read], at: Log, seen: dict[int, list[Seen]] | None = None) -> list[Finding]:
    return explain(7, suspects(sends, reads, at, True), at, seen or {})


def sent(value: int, offset: int, kind: int = OK, txn: bool = False) -> Sent:
    return Sent(value, offset, kind, 1000 + value, txn)


CUT = Truncation("n1", "r-1", 3, 11, "some time")
ELSEWHERE = {900: [Seen("n3", "r-1-3/00000000000000000000.log", 12, 1, False)]}


@pytest.mark.parametrize(
    ("send", "at", "seen", "cause"),
    [
        (sent(105, 5), log(), {}, "on-disk-but-not-served"),
        (sent(121, 21), log(), {}, "filtered-as-aborted"),
        (sent(122, 22), log(), {}, "in-open-transaction"),
        (sent(124, 24), log(), {}, "above-high-watermark"),
        (sent(101, 1), log(), {}, "behind-log-start"),
        (sent(900, 1), log(), {}, "behind-log-start"),
        (sent(900, 20), log(), {}, "damaged"),
        (sent(900, 23), log(), {}, "damaged"),
        (sent(104, 4), log(compacted=True), {}, "compacted"),
        (sent(900, 12), log(), ELSEWHERE, "written-and-truncated"),
        (sent(900, 12), log(truncations=[CUT]), {}, "written-and-truncated"),
        (sent(900, 12), log(), {}, "written-and-truncated"),  # a later epoch has its place
        (sent(900, 5), log(), {}, "written-and-truncated"),
        (sent(900, 5), log(began={0: 0}), {}, "taken-for-another"),  # nothing was cut off, by what is there
        (sent(900, 10), log(truncations=[CUT], began={2: 0}), {}, "not-explained"),
        (sent(900, 30), log(), {}, "beyond-log-end"),
        (sent(900, -1), log(), {}, "never-written"),
        (sent(900, 4), log(), {}, "not-explained"),
        (sent(105, 5, INFO), log(), {}, "on-disk-but-not-served"),
    ],
)
def test_acknowledged_and_read_by_nobody(send: Sent, at: Log, seen: dict[int, list[Seen]], cause: str) -> None:
    (one,) = found([send], [], at, seen)
    assert (one.kind, one.cause, one.key, one.op) == ("lost", cause, 7, send.op)
    assert one.shown and one.cause in CAUSES


def test_what_nobody_needs_to_explain() -> None:
    sends = [sent(105, 5), sent(900, -1, FAIL), sent(901, 6, INFO, txn=True), sent(902, -1, INFO)]
    assert found(sends, [Read(105, 5, 9), Read(101, 1, 9)], log()) == [
        one for one in found([sent(105, 5)], [Read(101, 1, 9)], log()) if one.kind == "phantom"
    ]


def test_read_and_gone() -> None:
    sends = [sent(900, 12), sent(901, 1)]
    (one,) = found(sends, [Read(900, 12, 55), Read(901, 1, 56), Read(900, 12, 57)], log())
    assert (one.kind, one.cause, one.op) == ("gone", "written-and-truncated", 55)
    assert one.shown.startswith("op 55 read it; offset 12 has value 112 of leader epoch 2")


@pytest.mark.parametrize(
    ("sends", "read", "cause"),
    [
        ([sent(121, 21, OK, txn=True)], Read(121, 21, 9), "aborted-but-served"),
        ([sent(121, 21, FAIL, txn=True)], Read(121, 21, 9), "aborted-but-served"),
        ([sent(105, -1, FAIL)], Read(105, 5, 9), "written-though-refused"),
        ([], Read(105, 5, 9), "never-sent"),
        ([], Read(900, 12, 9), "written-and-truncated"),
    ],
)
def test_phantoms(sends: list[Sent], read: Read, cause: str) -> None:
    (one,) = found(sends, [read], log())
    assert (one.kind, one.cause) == ("phantom", cause)


def test_an_uncommitted_reader_may_see_what_was_aborted() -> None:
    at = log()
    assert suspects([sent(121, 21)], [Read(121, 21, 9)], at, False) == []


def test_truncations_of_server_logs() -> None:
    lines = [
        "[2026-11-21 15:15:54,121] INFO [UnifiedLog partition=r-iso-1-2, dir=/x] Truncating to 0 has no"
        " effect as the largest offset in the log is -1 (org.apache.kafka.storage.internals.log.UnifiedLog)",
        "[2026-11-21 15:16:00,001] INFO [UnifiedLog partition=r-iso-1-2, dir=/x] Truncating to offset 83"
        " (kafka.log.UnifiedLog)",
        "[2020-01-01 00:00:00,000] INFO [Log partition=r-0-0, dir=/x] Truncating to offset 7 (kafka.log.Log)",
        "[2026-11-21 15:16:00,001] INFO nothing of the kind",
    ]
    assert list(truncations.read("n1", lines)) == [
        Truncation("n1", "r-iso-1", 2, 83, "2026-11-21 15:16:00,001"),
        Truncation("n1", "r-0", 0, 7, "2020-01-01 00:00:00,000"),
    ]
