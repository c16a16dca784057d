"""Events from anybody's logs: what lines give, what is counted, and what a pattern file may not be."""

from __future__ import annotations

from pathlib import Path

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


def test_no_expression_takes_long() -> None:
    """One that a backtracking matcher would not finish in a lifetime."""
    pattern = LogPattern((EventPattern(r"^(?P<topic>(a+)+)$".replace("(a+)", "(?:a+)"), "position"),), "epoch-s")
    rows = foreign_logs.parsed(["a" * 4000 + "b"] * 100, ["f"] * 100, pattern)
    assert rows == [{"status": foreign_logs.UNMATCHED, "n": 100}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "p.yaml:1:1: not patterns of log lines: write it as keys and values"),
        ("tyme: x", "p.yaml:1:1: tyme: no such key; did you mean time?"),
        ("time: epoch-s\nevents: []", "p.yaml:2:1: events: give a list"),
        ("events: [{event: polled, match: x}]", "p.yaml:1:1: time: give a text"),
        (
            "time: noon\nevents: [{event: aborted, match: '(?P<time>x)'}]",
            "p.yaml:1:7: time noon: no format of a time",
        ),
        (
            "time: '%G %V'\nevents: [{event: aborted, match: '(?P<time>x)'}]",
            "p.yaml:1:7: time %G %V: no format of a time",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: '(?P<time>x'",
            "p.yaml:4:10: match: not a regular expression (missing ): ",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: '(x)(?P<time>x)'",
            "p.yaml:4:10: match: not a regular expression (Regular expression contains unnamed groups)",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: '(?=x)'",
            "p.yaml:4:10: match: not a regular expression (invalid perl operator",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: '(?P<tmie>x)'",
            "p.yaml:4:10: match: no group is called 'tmie'; did you mean time?",
        ),
        (
            "time: epoch-s\nevents:\n- event: aborted\n  match: x",
            "p.yaml:4:10: match: aborted needs the group time",
        ),
        (
            "time: epoch-s\nline: '(?P<time>x)'\nevents:\n- event: polled\n  match: x",
            "p.yaml:5:10: match: polled needs the groups topic and partition",
        ),
        (
            "time: epoch-s\nline: '(?P<time>x)'\nevents:\n- event: poled\n  match: x",
            "p.yaml:4:10: event poled: did you mean polled?",
        ),
        (
            "time: epoch-s\nline: '(?P<time>x)'\nevents:\n- match: x",
            "p.yaml:4:3: give the event's name",
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
