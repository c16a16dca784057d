"""Watermark, judgement and memory of windows, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace

from checker.qos import window_state
from checker.qos.comparison_settings import Settings
from checker.qos.window_state import END, Book, Seen, Window, after_judging, after_reading

SETTINGS = Settings(("t",), ("u",), "localhost:1", window_ms=60_000, padding_ms=30_000)
NOW = 1_800_000_000_000  # a multiple of a minute
MINUTE = 60_000


def read(book: Book, latest_ms: int | None, now_ms: int, **more: int) -> Book:
    records = (0, 0) if latest_ms is None else (1, 0)
    return after_reading(book, Seen(records=records, latest_ms=latest_ms, **more), book.batch + 1, now_ms, SETTINGS)


def window(start_ms: int, **counts: int) -> Window:
    return Window(start_ms, **counts)


def test_the_watermark_never_goes_back_and_judgement_follows_it() -> None:
    book = read(Book(), NOW, NOW)
    book = read(book, NOW - 5_000, NOW + 2_000)
    assert (book.mark_ms, book.judged_ms) == (NOW, NOW)


def test_while_both_sides_are_idle_the_watermark_moves_as_the_clock_does_and_then_is_the_clock() -> None:
    book = read(Book(), NOW - 5_000, NOW)
    for passed in range(2_000, 32_000, 2_000):
        book = read(book, None, NOW + passed)
        assert book.mark_ms == book.judged_ms == NOW + passed - 5_000
    book = read(book, None, NOW + 32_000)
    assert book.mark_ms == NOW + 32_000
    assert read(book, NOW, NOW + 33_000).mark_ms == NOW + 32_000  # there again, and late


def test_a_gap_is_no_idle_time_and_nothing_moves_before_the_first_record() -> None:
    assert read(read(Book(), None, NOW), None, NOW + 2_000).mark_ms == window_state.NEVER
    book = read(Book(), NOW, NOW)
    again = replace(book, read_ms=window_state.UNKNOWN_MS)  # the process was started again at once
    assert read(again, None, NOW + 3_000).mark_ms == NOW


def test_judgement_waits_once_after_a_gap() -> None:
    book = read(Book(), NOW, NOW)
    back = read(book, NOW + 90_000, NOW + 90_000)
    assert (back.mark_ms, back.judged_ms) == (NOW + 90_000, NOW)
    soon = read(back, NOW + 119_000, NOW + 119_000)
    assert soon.judged_ms == NOW
    assert read(soon, NOW + 120_000, NOW + 120_000).judged_ms == NOW + 120_000
    # Batches that always take long must not stop judgement for ever.
    slow = read(back, NOW + 180_000, NOW + 180_000)
    assert slow.judged_ms == NOW + 180_000


def test_a_window_is_told_when_closed_and_again_when_its_counts_change() -> None:
    start = NOW - 3 * MINUTE
    book = replace(Book(), batch=0, mark_ms=NOW, judged_ms=start + MINUTE + 30_000)
    book, reported = after_judging(book, [window(start, records_in=9, records_out=7, missing=2)], SETTINGS)
    assert [(one.missing, one.late, one.revision) for one in reported] == [(2, 0, 1)]
    book, reported = after_judging(book, [window(start, records_in=9, records_out=7, missing=2)], SETTINGS)
    assert reported == []
    book, reported = after_judging(book, [window(start, records_in=9, records_out=9)], SETTINGS)
    assert [(one.missing, one.late, one.revision) for one in reported] == [(0, 2, 2)]
    assert window_state.verdict(replace(book, records=(9, 9)))[0] == "valid"


def test_a_window_with_something_pending_is_not_closed() -> None:
    start = NOW - 3 * MINUTE
    book = replace(Book(), batch=0, mark_ms=NOW, judged_ms=NOW)
    late = replace(window(start, records_in=2, records_out=1, pending=1), ripe_ms=NOW + 30_000)
    book, reported = after_judging(book, [late], SETTINGS)
    assert reported == [] and book.pending == 1 and book.edge_ms <= start


def test_what_was_an_outputs_alone_goes_when_its_input_comes() -> None:
    start = NOW - 2 * MINUTE
    book = replace(Book(), batch=0, mark_ms=NOW, judged_ms=NOW)
    book, reported = after_judging(book, [window(start, unmatched=1)], SETTINGS)
    assert [one.unmatched for one in reported] == [1]
    book, reported = after_judging(book, [], SETTINGS)
    assert [one.counts for one in reported] == [(0, 0, 0, 0, 0, 0)]
    assert book.totals.unmatched == 0


def test_old_windows_are_forgotten_and_still_counted() -> None:
    starts = range(NOW - 2000 * MINUTE, NOW, MINUTE)
    book = replace(Book(), batch=0, mark_ms=NOW, judged_ms=NOW)
    book, reported = after_judging(book, [window(start, records_in=1, missing=1) for start in starts], SETTINGS)
    assert book.edge_ms == NOW - 2 * MINUTE and len(book.remembered) == 2
    assert len(book.windows) == window_state.SHOWN
    assert book.totals.missing == len(reported) == 1999  # the last one is not over yet
    assert window_state.from_data(json.loads(json.dumps(window_state.to_data(book)))) == book


def test_at_the_end_all_is_judged_and_nothing_forgotten() -> None:
    book = replace(Book(), batch=3, mark_ms=NOW, judged_ms=END, read_ms=END)
    book, reported = after_judging(book, [window(NOW, records_in=5, records_out=5)], SETTINGS)
    assert len(reported) == 1 and book.edge_ms == Book().edge_ms


def test_the_verdict_does_not_flatter() -> None:
    closed = replace(window(NOW, records_in=3, records_out=3), revision=1)
    good = Book(batch=1, records=(3, 3), windows=(closed,))
    assert window_state.verdict(good) == ("valid", [])
    assert window_state.verdict(replace(good, rejects=(0, 1)))[0] == "unknown"
    assert window_state.verdict(replace(good, lost=4))[0] == "unknown"
    assert window_state.verdict(replace(good, resets=1))[0] == "unknown"
    assert window_state.verdict(replace(good, windows=()))[0] == "unknown"
    assert window_state.verdict(Book())[0] == "unknown"
    lost = replace(good, windows=(replace(closed, missing=1),), rejects=(1, 0))
    assert window_state.verdict(lost) == (
        "invalid",
        ["1 missing", "1 records without a key or time were not compared"],
    )
