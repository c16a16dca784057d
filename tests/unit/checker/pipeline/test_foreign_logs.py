"""Events from foreign logs: what lines yield, what is counted, and invalid pattern files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checker.pipeline import foreign_logs
from checker.pipeline.foreign_logs import EventPattern, LogPattern
from harness.model.errors_and_exit_codes import BadInput
from harness.stored import log_pattern

LINES = (
    ("00,000", "a", "Successfully joined group with generation Generation{generationId=5, memberId='a-1'}"),
    ("00,100", "a", "Adding newly assigned partitions: my-in-0, in.x-11"),
    (
        "00,200",
        "a",
        "Setting offset for partition my-in-0 to the committed offset FetchPosition{offset=42, o=1}",
    ),
    ("00,250", "b", "Resetting offset for partition in.x-11 to position FetchPosition{offset=7, o=1}."),
    ("00,260", "b", "Committed offset 9 for partition in.x-11"),
    ("00,300", "a", "Revoke previously assigned partitions my-in-0"),
    ("00,400", "a", "Discovered group coordinator"),
)
JAVA = [
    f"[2026-03-01 10:00:{at}] INFO [Consumer clientId={who}, groupId=g] {text} (org.apache.kafka.X)"
    for at, who, text in LINES
]


def test_java() -> None:
    pattern = log_pattern.load(Path("java"))
    rows = foreign_logs.parsed(JAVA, ["pod.log"] * len(JAVA), pattern)
    read_events = [
        (row["instance"], row["event"], row.get("partitions"), row["topic"], row["partition"], row["offset"])
        for row in sorted(
            (row for row in rows if row["status"] == foreign_logs.MATCHED), key=lambda row: row["time_ns"]
        )
    ]
    assert read_events == [
        ("a", "generation", None, None, None, None),
        ("a", "assigned", [["my-in", "0"], ["in.x", "11"]], None, None, None),
        ("a", "position", None, "my-in", 0, 42),
        ("b", "position", None, "in.x", 11, 7),
        ("b", "committed", None, "in.x", 11, 9),
        ("a", "revoked", [["my-in", "0"]], None, None, None),
    ]
    assert [row["generation"] for row in rows if row.get("event") == "generation"] == [5]
    assert [(row["status"], row["n"]) for row in rows if row["status"] != foreign_logs.MATCHED] == [
        (foreign_logs.UNMATCHED, 1)
    ]


def test_what_a_line_lacks_is_counted() -> None:
    match = r"(?P<time>\S+) (?P<event>\w+) (?P<topic>\w+)/(?P<partition>\d+) (?P<first>\d+)(?:-(?P<last>\d+))?"
    pattern = LogPattern((EventPattern(match),), "epoch-ms")
    lines = [
        "1000 polled t/0 1-5",
        "1000 Committed t/0 1-5",
        "yesterday polled t/0 1-5",
        "1000 polled t/0 5",
        "1000 polled t/0 5-1",
        "1000 eaten t/0 1-5",
        "1000 polled t/0 1-99999999999999999999",
        "1000 polled t/0 1-5" + "x" * 5000,
        "",
    ]
    rows = foreign_logs.parsed(lines, ["a.log"] * len(lines), pattern)
    kept = [row for row in rows if row["status"] == foreign_logs.MATCHED]
    assert [(row["instance"], row["event"], row["first"], row["last"], row["offset"]) for row in kept] == [
        ("a.log", "polled", 1, 5, None),
        ("a.log", "committed", 1, 5, 6),
        ("a.log", "polled", 1, 5, None),
    ]
    assert kept[0]["time_ns"] == 1_000_000_000
    counts = {row["status"]: row["n"] for row in rows if row["status"] != foreign_logs.MATCHED}
    assert counts == {foreign_logs.REJECTED: 5, foreign_logs.UNMATCHED: 1, foreign_logs.CUT: 1}


AT = r"(?P<time>\S+) (?:(?P<instance>i\d) )?(?P<event>\w+)"
PLACE = r"(?: (?P<topic>[a-z]+))?(?:/(?P<partition>\d+))?(?: (?P<offset>\d+))?(?: (?P<first>\d+)-(?P<last>\d+))?"
ANY = LogPattern((EventPattern(f"{AT}(?: g(?P<generation>\\d+))?(?: (?P<partitions>\\[.*\\]))?{PLACE}$"),), "epoch-s")


def read_one(line: str, pattern: LogPattern = ANY) -> dict[str, Any] | None:
    """The event of a line; None if it is rejected."""
    (row,) = foreign_logs.parsed([line], ["/var/log/a.log"], pattern)
    assert row["status"] in (foreign_logs.MATCHED, foreign_logs.REJECTED)
    return dict(row) if row["status"] == foreign_logs.MATCHED else None


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("1 position t/0 5", {"offset": 5, "partition": 0, "topic": "t"}),
        ("1 position t/0 999999999999999999", {"offset": 10**18 - 1}),
        ("1 position t/0 1000000000000000000", None),
        ("1 position t/2147483647 5", {"partition": 2147483647}),
        ("1 position t/2147483648 5", None),
        ("1 position t 5", None),
        ("1 position t/0", None),
        ("1 polled t/0 5-5", {"first": 5, "last": 5, "offset": None}),
        ("1 polled t 5-5", None),
        ("1 polled t/0", None),
        ("1 generation g7", {"generation": 7}),
        ("1 generation", None),
        ("1 started", {"event": "started"}),
        ("1 assigned t/3", {"partitions": [["t", "3"]], "topic": None, "partition": None}),
        ("1 assigned [t-1, u-22]", {"partitions": [["t", "1"], ["u", "22"]]}),
        ("1 assigned [t-1, u]", None),
        ("1 assigned []", {"partitions": []}),
        ("1 assigned", {"partitions": []}),
        ("1 started", {"instance": "a.log"}),
        ("1 i5 started", {"instance": "i5"}),
        ("9223372036 started", {"time_ns": 9223372036 * 10**9}),
        ("9223372037 started", None),
    ],
)
def test_what_an_event_must_have(line: str, fields: dict[str, Any] | None) -> None:
    row = read_one(line)
    if fields is None:
        assert row is None
    else:
        assert row is not None and {name: row[name] for name in fields} == fields


@pytest.mark.parametrize(("year", "kept"), [(1677, False), (1678, True), (2261, True), (2262, False)])
def test_times_that_nanoseconds_do_not_reach(year: int, kept: bool) -> None:
    pattern = LogPattern((EventPattern(r"(?P<time>\S+) started", "started"),), "%Y-%m-%d", instance="them")
    row = read_one(f"{year}-06-01 started", pattern)
    assert (row is not None) == kept
    assert row is None or row["instance"] == "them"


def test_a_line_as_long_as_may_be_is_not_cut() -> None:
    pattern = LogPattern((EventPattern(r"(?P<time>\S+) started", "started"),), "epoch-s")
    whole = "1 started".ljust(foreign_logs.LINE_MAX, "x")
    assert [row["status"] for row in foreign_logs.parsed([whole], ["f"], pattern)] == [foreign_logs.MATCHED]
    cut = foreign_logs.parsed([f"{whole}x"], ["f"], pattern)
    assert [row["status"] for row in cut] == [foreign_logs.MATCHED, foreign_logs.CUT]


def test_the_first_matching_pattern_counts_and_its_groups_are_kept() -> None:
    own, other = EventPattern("begun (?P<instance>x)", "started"), EventPattern("begun|done", "closed")
    pattern = LogPattern((own, other), "epoch-s", line=r"^(?P<time>\d+) (?P<instance>\w+)")
    rows = foreign_logs.parsed(["1 a begun x", "2 a done", "3 a begun", "done"], ["f"] * 4, pattern)
    assert [(row["event"], row["instance"], row["line"]) for row in rows[:3]] == [
        ("started", "x", 0),
        ("closed", "a", 1),
        ("closed", "a", 2),
    ]
    assert rows[3:] == [{"status": foreign_logs.REJECTED, "n": 1}]  # the last line has no time


def test_no_expression_takes_long() -> None:
    """A pattern for which a backtracking matcher would practically never finish."""
    pattern = LogPattern((EventPattern(r"^(?P<topic>(a+)+)$".replace("(a+)", "(?:a+)"), "position"),), "epoch-s")
    rows = foreign_logs.parsed(["a" * 4000 + "b"] * 100, ["f"] * 100, pattern)
    assert rows == [{"status": foreign_logs.UNMATCHED, "n": 100}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "p.yaml:1:1: not patterns of log lines: write it as keys and values"),
        ("tyme: x", "p.yaml:1:1: tyme: no such key; did you mean time?"),
        ("time: epoch-s\nevents: []", "p.yaml:2:1: events: must be a list"),
        ("events: [{event: polled, match: x}]", "p.yaml:1:1: time: must be a non-empty text"),
        (
            "time: noon\nevents: [{event: aborted, match: '(?P<time>x)'}]",
            "p.yaml:1:7: time noon: not a time format",
        ),
        (
            "time: '%G %V'\nevents: [{event: aborted, match: '(?P<time>x)'}]",
            "p.yaml:1:7: time %G %V: not a time format",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: '(?P<time>x'",
            "p.yaml:4:10: match: not a valid regular expression (missing ): ",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: '(x)(?P<time>x)'",
            "p.yaml:4:10: match: not a valid regular expression (Regular expression contains unnamed groups)",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: '(?=x)'",
            "p.yaml:4:10: match: not a valid regular expression (invalid perl operator",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: '(?P<tmie>x)'",
            "p.yaml:4:10: match: unknown group 'tmie'; did you mean time?",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: x",
            "p.yaml:4:10: match: the event aborted needs the named group `time`",
        ),
        (
            "time: epoch-s\nline: '(?P<time>x)'\nevents:\n- event: polled\n  match: x",
            "p.yaml:5:10: match: the event polled needs the named groups `topic` and `partition`",
        ),
        (
            "time: epoch-s\nline: '(?P<time>x)'\nevents:\n- event: poled\n  match: x",
            "p.yaml:4:10: event poled: unknown event; did you mean polled?",
        ),
        (
            "time: epoch-s\nline: '(?P<time>x)'\nevents:\n- match: x",
            "p.yaml:4:3: name the event with the key",
        ),
    ],
)
def test_bad_patterns(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        log_pattern.load(path)
    assert message in str(error.value)


def test_no_pattern_file() -> None:
    with pytest.raises(BadInput, match=r"nowhere\.yaml: cannot read patterns of log lines"):
        log_pattern.load(Path("nowhere.yaml"))
