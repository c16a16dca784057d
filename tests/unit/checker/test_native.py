"""Reasons for `unknown` that do not come from ops, and the combination of verdicts and checks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from checker.anomalies.lost_write import COMPACTION, Unsure
from checker.check import check_many, check_plain, judge
from checker.checks import doubtful_deletions, table
from checker.checks.doubtful_deletions import Doubts
from checker.kernels import retention
from checker.tables import schema
from checker.tables.buckets_of_a_history import in_memory
from checker.tables.make_tables import of_ops
from checker.verdict import unknown_reasons
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import Op
from tests.unit.checker.cases import cases


def _run(folder: Path, name: str, *events: str) -> Path:
    case = next(case for case in cases() if case.name == name)
    (folder / "history").mkdir()
    (folder / "history" / "00000.jsonl").write_bytes(case.path.read_bytes())
    (folder / "events").mkdir()
    (folder / "events" / "harness.jsonl").write_text("\n".join(events))
    return folder


UNFINISHED = "the final polls did not finish"
TROUBLE = '{"time_ns": 1, "event": "trouble", "detail": "n2 did not come back"}'
INTERRUPTED = '{"time_ns": 1, "event": "interrupted"}'


@pytest.mark.parametrize(
    ("events", "reason"),
    [((TROUBLE,), "the run had trouble: n2 did not come back"), ((INTERRUPTED,), "the run was interrupted")],
)
def test_trouble_withholds_valid(tmp_path: Path, events: tuple[str, ...], reason: str) -> None:
    run = _run(tmp_path, "lost-write/negative", '{"event": "phase", "detail": "load"}', *events, '{"torn')
    result = check_plain(run, CheckOptions())
    assert (result.valid, result.reasons) == ("unknown", (reason,))


def test_trouble_does_not_hide_what_was_found(tmp_path: Path) -> None:
    result = check_plain(_run(tmp_path, "lost-write/positive", TROUBLE), CheckOptions())
    assert result.valid == "invalid"
    assert len(result.reasons) == 1


FINISHED = '{"time_ns": 1, "event": "phase", "detail": "final polls complete"}'


@pytest.mark.parametrize(
    ("name", "events", "valid", "reasons"),
    [
        ("lost-write/negative", (FINISHED,), "valid", ()),
        ("lost-write/negative", ('{"event": "phase", "detail": "load"}',), "unknown", (UNFINISHED,)),
        ("lost-write/negative", (FINISHED[:-1],), "unknown", (UNFINISHED,)),
        ("verdict/retired-client-does-not-count", (), "unknown", (UNFINISHED,)),
        ("verdict/retired-client-does-not-count", (FINISHED,), "valid", ()),
        ("lost-write/tail", (), "invalid", (UNFINISHED,)),
    ],
)
def test_the_run_says_whether_every_client_was_done(
    tmp_path: Path, name: str, events: tuple[str, ...], valid: str, reasons: tuple[str, ...]
) -> None:
    """No op shows that a client replaced during the final polls never caught up."""
    result = check_plain(_run(tmp_path, name, *events), CheckOptions(require_final_polls=True))
    assert (result.valid, result.reasons) == (valid, reasons)


def test_without_promised_final_polls_none_need_finish(tmp_path: Path) -> None:
    assert check_plain(_run(tmp_path, "lost-write/negative"), CheckOptions()).valid == "valid"


@pytest.mark.parametrize("instead", [None, Path.mkdir, os.mkfifo])
def test_a_promise_of_final_polls_needs_the_events(tmp_path: Path, instead: Callable[[Path], None] | None) -> None:
    run = _run(tmp_path, "lost-write/negative", FINISHED)
    events = run / "events" / "harness.jsonl"
    events.unlink()
    if instead is not None:
        instead(events)
    result = check_plain(run, CheckOptions(require_final_polls=True))
    (reason,) = result.reasons
    assert result.valid == "unknown" and reason.startswith("the run's events/harness.jsonl is missing")
    assert check_plain(run, CheckOptions()).valid == "valid"
    history = run / "history" / "00000.jsonl"
    assert check_plain(history, CheckOptions(require_final_polls=True)).valid == "valid"


@pytest.mark.parametrize("damage", ['{"event": "trou', "7", "{}", '{"event": ["trouble"]}', "\x00"])
def test_damaged_events_may_hide_trouble(tmp_path: Path, damage: str) -> None:
    run = _run(tmp_path, "lost-write/negative", '{"event": "phase", "detail": "load"}', damage, FINISHED)
    result = check_plain(run, CheckOptions(require_final_polls=True))
    (reason,) = result.reasons
    assert result.valid == "unknown" and reason.startswith("events/harness.jsonl, line 2: not an event; ")


def _moved(settings: Settings, *faults: str, doubts: tuple[Doubts, ...] = ()) -> list[str]:
    ends = [_end(5, 3), _end(1 << 50, 4), _end(6, 0)]
    row = {"index": 1, "time_ns": 1, "f": "x", "value": "null", "span": "", "phase": "complete"}
    nemesis = pa.Table.from_pylist([{**row, "fault": fault} for fault in faults], schema.NEMESIS)
    tables = pa.Table.from_pylist(ends, schema.ENDS), schema.DELETIONS.empty_table(), nemesis
    return doubtful_deletions.reasons(doubts, *tables, settings, {5: "orders"})


def test_moved_starts_name_the_key_and_count_the_rest() -> None:
    """A key that is not a small integer is shown as it was written."""
    (one,) = _moved(Settings())
    assert (
        one == "the log of key orders starts at offset 3, and nothing in the history explains why (2 such logs in all)"
    )
    assert _moved(Settings(), doubts=(Doubts((5,)), Doubts((1 << 50,)))) == []


def test_what_cannot_be_known_of_a_moved_start() -> None:
    (one,) = _moved(Settings(), "clock-strobe:one")
    assert one.endswith("; a fault changed clocks, so it is unknown whether brokers considered its records too old")
    (one,) = _moved(Settings(broker={"retention.bytes": "100"}))
    assert one.endswith("because the size of records is not recorded")
    (one,) = _moved(Settings(broker={"retention.bytes": "-1"}))
    assert one.endswith("(2 such logs in all)")


def test_what_is_in_doubt_names_a_key() -> None:
    missing = tuple(Unsure(key, COMPACTION, 2) for key in (5, 6))
    doubts = (Doubts(missing=missing), Doubts(skipped=(6,)))
    lost, skipped, _ = [*_moved(Settings(), doubts=doubts)[1:], ""]
    assert lost.startswith("4 records of 2 keys (for example key orders) are missing: the log cleaner may have")
    assert skipped.startswith("consumers skipped records of key 6 that may have been deleted: the history does not")


@pytest.mark.parametrize(
    ("broker", "ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.ms": "3", "retention.ms": "4"}, 4),
        ({"log.retention.hours": "1", "log.retention.ms": "-1"}, None),
        ({"log.retention.ms": "no number"}, None),
    ],
)
def test_the_most_specific_age_counts(broker: dict[str, str], ms: int | None) -> None:
    assert retention.age_limit_ns(Settings(broker=broker)) == (None if ms is None else ms * 1_000_000)


def test_the_topics_own_size_counts() -> None:
    assert retention.size_limit(Settings()) is None
    assert retention.size_limit(Settings(broker={"log.retention.bytes": "5", "retention.bytes": "-1"})) is None
    assert retention.size_limit(Settings(broker={"log.retention.bytes": "5"})) == 5


def _end(key: int, log_start: int) -> dict[str, int | bool]:
    place = {"key": key, "position": 9, "log_start": log_start, "end": 9}
    return {"op": 1, "process": 0, "final": True, **place, "invoke_ns": 1, "complete_ns": 2}


def test_no_events_is_no_trouble(tmp_path: Path) -> None:
    assert unknown_reasons.trouble(tmp_path) == []


def test_unknown_check_is_refused() -> None:
    with pytest.raises(BadInput, match="'nothing' is not known; must be one of queue"):
        judge(in_memory(of_ops([])), CheckOptions(checks=("nothing",)))


def test_the_worst_check_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new check is one line in the table."""
    monkeypatch.setitem(table.CHECKS, "dummy", lambda source, options: Result("invalid", True, ("r",)))
    ops = [Op(0, 0, 0, "invoke", "poll", [["poll"]]), Op(1, 1, 0, "ok", "poll", [["poll", []]])]
    result = judge(in_memory(of_ops(ops)), CheckOptions(checks=("queue", "dummy")))
    assert (result.valid, result.promised, result.reasons[-1]) == ("invalid", True, "r")


def test_many_without_spark(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n{}\n")
    good = next(case for case in cases() if case.name == "lost-write/negative")
    (_, first), (_, second) = check_many(None, [good.path, bad], good.options)
    assert isinstance(first, Result)
    assert first.valid == "valid"
    assert isinstance(second, dict)
    assert second["exit_code"] == 2
