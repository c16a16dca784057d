"""Defines `Book`, the state of a live comparison between batches: watermark, remembered windows and totals. Pure.

There is one watermark for inputs and outputs together: the highest event time of any record. (The minimum of both sides
would stop exactly when the outputs stop.) The watermark never exceeds the clock, so a record from the future does not
affect it. While no records arrive, the watermark advances with the clock; once no record has arrived for as long as the
padding, the watermark equals the clock.

An expected output is judged once the watermark is `padding_ms` past the end of the window. If an input was read late,
because it reached its topic long after its event time, the padding starts when the input is read. Topics that are
filled from an archive therefore show no losses. After a gap in reading (a broker that was down, a restart), nothing is
judged until the padding has passed in real time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from checker.qos.comparison_settings import Settings

SHOWN: Final = 500
GAP_MS: Final = 20_000
# A batch's offsets are queried a moment before its time is taken.
OFFSETS_BEFORE_MS: Final = 1_000
NEVER: Final = -(1 << 62)
UNKNOWN_MS: Final = 1  # read_ms of a restarted process: long enough ago to count as a gap
END: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Seen:
    """The counts of one batch.

    records    (number of input records, number of output records)
    rejects    (rejected input records, rejected output records), for example without a key
    future     records whose event time is ahead of the clock by more than the padding
    behind     records older than all remembered windows; they are counted in the newest window
    latest_ms  highest event time, at most the clock; None if there are no records
    lost       offsets that were deleted before they were read
    resets     partitions that were recreated
    """

    records: tuple[int, int] = (0, 0)
    rejects: tuple[int, int] = (0, 0)
    future: int = 0
    behind: int = 0
    latest_ms: int | None = None
    lost: int = 0
    resets: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """One window of the input's event time. All counts except `records_in` are numbers of outputs.

    records_in   input records in the window
    records_out  outputs of these inputs that arrived
    missing      outputs that are due, but have not arrived
    pending      outputs that have not arrived, and are not due yet
    late         outputs that arrived after they had been reported as missing
    duplicate    outputs that arrived in addition to the expected ones
    unmatched    outputs with an event time in this window, but without a remembered input
    ripe_ms      the time on the clock from which all outputs are due: arrival of the last input, plus the padding
    revision     how often the counts were reported; 0: the window is not closed yet
    """

    start_ms: int
    records_in: int = 0
    records_out: int = 0
    missing: int = 0
    duplicate: int = 0
    late: int = 0
    unmatched: int = 0
    pending: int = 0
    ripe_ms: int = 0
    revision: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.records_in, self.records_out, self.missing, self.duplicate, self.late, self.unmatched)


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of the counts of closed windows."""

    windows: int = 0
    records_in: int = 0
    records_out: int = 0
    missing: int = 0
    duplicate: int = 0
    late: int = 0
    unmatched: int = 0

    def plus(self, window: Window) -> Totals:
        return Totals(self.windows + 1, *(a + b for a, b in zip(_sums(self), window.counts, strict=True)))


def _sums(totals: Totals) -> tuple[int, ...]:
    return (totals.records_in, totals.records_out, totals.missing, totals.duplicate, totals.late, totals.unmatched)


@dataclass(frozen=True, slots=True)
class Book:
    """The whole state of a comparison after a batch, except for the table of ids (`checker.qos.spark_batch`).

    batch       the last batch included; -1: none
    mark_ms     the watermark
    judged_ms   the event time up to which outputs are judged: the watermark, or less while judgement is suspended
    edge_ms     windows that start before this event time are forgotten
    cleared_ms  windows that start before this event time have been removed from the ids
    began_ms    outputs before this event time may have no input, because reading started at the latest record
    read_ms     the time on the clock of the last batch
    data_ms     the time on the clock at which the last record was read
    hold_ms     the time on the clock until which judgement is suspended
    windows     all remembered windows, ordered by start, and some forgotten ones for display
    gone        sums of the forgotten windows

    The other fields are sums over all batches; see `Seen`.
    """

    batch: int = -1
    mark_ms: int = NEVER
    judged_ms: int = NEVER
    edge_ms: int = NEVER
    cleared_ms: int = NEVER
    began_ms: int = NEVER
    read_ms: int = 0
    data_ms: int = 0
    hold_ms: int = 0
    records: tuple[int, int] = (0, 0)
    rejects: tuple[int, int] = (0, 0)
    future: int = 0
    behind: int = 0
    lost: int = 0
    resets: int = 0
    windows: tuple[Window, ...] = ()
    gone: Totals = field(default_factory=Totals)

    @property
    def remembered(self) -> tuple[Window, ...]:
        return tuple(window for window in self.windows if window.start_ms >= self.edge_ms)

    def late_ms(self, now_ms: int) -> int:
        """Returns the latest event time with which an input in the batch at `now_ms` counts as read late.

        An input with a later event time was too recent for the previous batch, so it was read at the first opportunity.
        In the first batch of a process, the time of the previous batch is unknown, and every input counts as read late.
        """
        return self.read_ms - OFFSETS_BEFORE_MS if self.read_ms > UNKNOWN_MS else now_ms

    @property
    def totals(self) -> Totals:
        """The sums over all closed windows, including the forgotten ones."""
        sums = self.gone
        for window in self.remembered:
            if window.revision:
                sums = sums.plus(window)
        return sums

    @property
    def pending(self) -> int:
        """The number of expected outputs that have not arrived and are not due yet."""
        return sum(window.pending for window in self.remembered)


def after_reading(book: Book, seen: Seen, batch: int, now_ms: int, settings: Settings) -> Book:
    """Returns the `Book` after a batch was read, but before windows are judged."""
    padding = settings.padding_ms
    mark = max(book.mark_ms, NEVER if seen.latest_ms is None else seen.latest_ms)
    data_ms = now_ms if any(seen.records) or not book.data_ms else book.data_ms
    gap = book.read_ms and now_ms - book.read_ms > max(padding, GAP_MS)
    if mark != NEVER and not any(seen.records):
        if now_ms - data_ms > padding:
            mark = max(mark, now_ms)
        elif book.read_ms and not gap:  # keeps its distance from the clock
            mark += now_ms - book.read_ms
    waits = book.hold_ms > book.read_ms  # only once, because every batch may take that long
    hold_ms = now_ms + padding if gap and not waits else book.hold_ms
    return replace(
        book,
        batch=batch,
        mark_ms=mark,
        judged_ms=book.judged_ms if now_ms < hold_ms else mark,
        read_ms=now_ms,
        data_ms=data_ms,
        hold_ms=hold_ms,
        records=_both(book.records, seen.records),
        rejects=_both(book.rejects, seen.rejects),
        future=book.future + seen.future,
        behind=book.behind + seen.behind,
        lost=book.lost + seen.lost,
        resets=book.resets + seen.resets,
    )


def after_judging(book: Book, counted: Iterable[Window], settings: Settings) -> tuple[Book, list[Window]]:
    """Returns (the `Book` with the new counts of windows, the windows to report).

    A window is reported when it is closed, and whenever its counts change after that.
    """
    by_start = {window.start_ms: window for window in book.windows}
    recounted = {window.start_ms: window for window in counted}
    for window in book.remembered:  # had only an unmatched output, until its input arrived
        if window.revision:
            recounted.setdefault(window.start_ms, Window(window.start_ms))
        elif window.start_ms not in recounted:
            del by_start[window.start_ms]
    reported = []
    for new in sorted(recounted.values(), key=lambda window: window.start_ms):
        old = by_start.get(new.start_ms, Window(new.start_ms))
        over = new.start_ms + settings.window_ms + settings.padding_ms <= book.judged_ms
        closed = over and new.ripe_ms <= book.read_ms
        late = max(old.late, old.missing + old.late - new.missing) if old.revision else 0
        window = replace(new, late=late, revision=old.revision)
        if (closed and not old.revision) or (old.revision and window.counts != old.counts):
            window = replace(window, revision=old.revision + 1)
            reported.append(window)
        by_start[new.start_ms] = window
    windows = [by_start[start] for start in sorted(by_start)]
    return _forgotten(replace(book, windows=tuple(windows)), settings), reported


def _forgotten(book: Book, settings: Settings) -> Book:
    """Returns the `Book` without the windows that are no longer needed, except for some that are kept for display."""
    if book.judged_ms == NEVER or book.judged_ms >= END:
        return book
    reach = book.judged_ms - settings.padding_ms - settings.keep_ms
    edge = reach - reach % settings.window_ms
    waiting = (window.start_ms for window in book.remembered if not window.revision or window.pending)
    edge = max(book.edge_ms, min([edge, *waiting]))
    gone = book.gone
    for window in book.remembered:
        if window.start_ms < edge:
            gone = gone.plus(window)
    first = max(0, len(book.windows) - SHOWN)
    shown = tuple(window for n, window in enumerate(book.windows) if n >= first or window.start_ms >= edge)
    return replace(book, edge_ms=edge, windows=shown, gone=gone)


def verdict(book: Book) -> tuple[str, list[str]]:
    """Returns (verdict, reasons). The verdict is "valid", "invalid" or "unknown".

    A missing or duplicate output makes the verdict "invalid", even if something else is unknown.
    """
    sums = book.totals
    bad = [f"{n:,} {name}" for n, name in ((sums.missing, "missing"), (sums.duplicate, "duplicate")) if n]
    doubts = [
        f"{n:,} {text}"
        for n, text in (
            (sum(book.rejects), "records without a key or time were not compared"),
            (sums.unmatched, "outputs have no remembered input"),
            (book.lost, "offsets were deleted before they were read"),
            (book.resets, "partitions were recreated"),
        )
        if n
    ]
    if not book.records[0]:
        doubts.append("no input record was read")
    elif not sums.windows:
        doubts.append("no window was closed")
    return ("invalid" if bad else "unknown" if doubts else "valid"), bad + doubts


def to_data(book: Book) -> dict[str, Any]:
    """Converts a `Book` to JSON data."""
    return {"schema": 1, **asdict(book)}


def from_data(data: dict[str, Any]) -> Book:
    """Restores a `Book` from JSON data. Raises KeyError, TypeError or ValueError if the data is malformed."""
    if data.get("schema") != 1:
        raise ValueError("not of schema 1")
    values = {member.name: data[member.name] for member in fields(Book)}
    for name in ("records", "rejects"):
        values[name] = tuple(values[name])
    values["windows"] = tuple(Window(**window) for window in values["windows"])
    values["gone"] = Totals(**values["gone"])
    return Book(**values)


def _both(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]
