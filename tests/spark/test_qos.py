"""Batches of a live comparison in Spark: which input has which outputs, when, and what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checker.qos import source, spark_batch
from checker.qos.comparison_settings import EXPECT, Settings
from checker.qos.window_state import Book, Window, after_judging, after_reading
from harness.model.errors_and_exit_codes import BadInput
from harness.model.transforms import expected_count

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
SETTINGS = Settings(("t",), ("u",), "localhost:1", window_ms=60_000, padding_ms=30_000)
ROWS = pa.schema(
    [("side", pa.string()), ("id", pa.string()), ("part", pa.int32()), ("expected", pa.int32()),
     ("time", pa.int64()), ("place", pa.string()), ("offset", pa.int64())]
)  # fmt: skip
NOW = 1_800_000_000_000  # a multiple of a minute
Row = tuple[str, str | None, int | None, int | None, int | None]


def sent(id: str | None, at_s: float, expected: int | None = 1) -> Row:
    return ("in", id, None, expected, round(NOW + at_s * 1000))


def made(id: str | None, at_s: float, part: int = 0) -> Row:
    return ("out", id, part, None, round(NOW + at_s * 1000))


class Steps:
    """A comparison's batches, each at a time after NOW in seconds."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self.book, self._ids = Book(), spark_batch.nothing(spark)

    def batch(self, at_s: float, rows: Sequence[Row], gap: bool = False) -> list[Window]:
        """gap: nothing was read between the batch before and this one; else there were empty ones."""
        from pyspark.sql import Observation

        full = [dict(zip(ROWS.names, (*row, "t-0", n), strict=True)) for n, row in enumerate(rows)]
        frame = self._spark.createDataFrame(pa.Table.from_pylist(full, ROWS))
        watch, now_ms = Observation(), NOW + round(at_s * 1000)
        if not gap:
            self.book = replace(self.book, read_ms=now_ms)
        new = spark_batch.of_batch(frame, self.book, SETTINGS, now_ms, watch)
        path = str(self._folder / str(self.book.batch + 1))
        spark_batch.merged(spark_batch.remembered(self._ids, self.book.edge_ms), new, 2).write.parquet(path)
        self._ids = self._spark.read.schema(spark_batch.IDS).parquet(path)
        self.book = after_reading(self.book, spark_batch.seen(watch.get), self.book.batch + 1, now_ms, SETTINGS)
        self.judged = spark_batch.judged(self._ids, self.book, SETTINGS)
        self.book, lines = after_judging(self.book, spark_batch.windows(self.judged), SETTINGS)
        return lines

    def kept(self) -> int:
        return int(spark_batch.remembered(self._ids, self.book.edge_ms).count())


def counts(windows: list[Window]) -> list[tuple[int, ...]]:
    return [window.counts for window in windows]


def test_holes_copies_and_what_comes_late(spark: Any, tmp_path: Path) -> None:
    steps = Steps(spark, tmp_path)
    first = [*(sent(str(n), n) for n in range(10)), *(made(str(n), n + 1) for n in range(8)), made("3", 9)]
    assert steps.batch(10, first) == []  # nothing is due
    # An id of before comes again: its output is not the other's.
    assert steps.batch(40, [sent("0", 39), made("0", 40), sent(None, 40), sent("x", 40, None)]) == []
    # The output of "8" comes when its window is over, an input of that window, too, and an output of nobody.
    lines = steps.batch(95, [sent("20", 95), made("20", 95)])
    assert counts(lines) == [(11, 10, 2, 1, 0, 0)]
    found = spark_batch.examples(steps.judged, [NOW], 9)
    assert [(one["id"], one["what"], one["offset"]) for one in found] == [
        ("3", "duplicate", 3),
        ("8", "missing", 8),
        ("9", "missing", 9),
    ]
    lines = steps.batch(100, [made("8", 99), sent("late", 20), made("ghost", 100)])
    assert counts(lines) == [(12, 11, 1, 1, 1, 0)] and steps.book.pending == 1
    # The late input has the padding from its arrival on.
    assert steps.batch(110, [made("late", 109)]) != []
    assert steps.book.windows[0].counts == (12, 12, 1, 1, 1, 0)
    lines = steps.batch(200, [sent("30", 200), made("30", 200)], gap=True)
    assert counts(lines) == []  # after a gap judgement waits
    lines = steps.batch(231, [sent("31", 231), made("31", 231)])
    assert (1, 1, 0, 0, 0, 1) in counts(lines)
    assert steps.book.rejects == (2, 0)
    assert steps.kept() < 8  # those of the first window are forgotten
    steps.batch(400, [])
    assert steps.kept() == 0
    sums = steps.book.totals
    assert (sums.records_in, sums.records_out, sums.missing, sums.duplicate, sums.late, sums.unmatched) == (
        15, 15, 1, 1, 1, 1
    )  # fmt: skip


def test_times_that_jump_move_the_watermark_by_nothing(spark: Any, tmp_path: Path) -> None:
    steps = Steps(spark, tmp_path)
    steps.batch(0, [sent("a", 0), made("a", 0), sent("b", 7 * 86_400)])
    assert steps.book.mark_ms == NOW and steps.book.future == 1
    assert steps.batch(10, [sent("c", 10)]) == []
    assert counts(steps.batch(20, [made("b", 7 * 86_400), made("c", 20)])) == []
    steps.batch(400, [])
    assert steps.book.totals.missing == 0 and steps.kept() == 0
    # Older than all that is remembered: counted in the newest window, and compared all the same.
    steps.batch(432, [sent("d", -86_400)])
    assert steps.book.behind == 1
    steps.batch(800, [])
    assert steps.book.totals.missing == 1 and steps.kept() == 0


def test_only_inputs_that_came_late_have_the_padding_from_when_they_were_read(spark: Any, tmp_path: Path) -> None:
    steps = Steps(spark, tmp_path)
    assert steps.batch(40, [sent("w", 40), made("w", 40)]) == []
    assert steps.batch(68, [sent("in time", 41), sent("x", 68), made("x", 68)], gap=True) == []
    lines = steps.batch(91, [sent("y", 91), made("y", 91)], gap=True)
    assert counts(lines) == [(2, 1, 1, 0, 0, 0)]  # not at 98
    assert steps.batch(121, [sent("late", 61), sent("z", 121), made("z", 121)]) == []
    assert counts(steps.batch(150, [sent("z", 150)])) == []
    lines = steps.batch(152, [sent("z", 152)])
    assert counts(lines) == [(3, 2, 1, 0, 0, 0)]


def test_several_outputs_are_told_apart(spark: Any, tmp_path: Path) -> None:
    steps = Steps(spark, tmp_path)
    rows = [
        sent("a", 1, 3),
        made("a", 2, 0),
        made("a", 2, 0),
        made("a", 2, 2),
        sent("b", 3, 0),
        sent("c", 4, 0),
    ]
    lines = steps.batch(10, [*rows, made("c", 5), sent("z", 5, 2000)]) + steps.batch(100, [sent("n", 100)])
    # Part 1 is missing though there are three outputs; "b" has none, as it must; "c" has one too many.
    assert counts(lines) == [(3, 3, 1, 1, 0, 1)]
    assert steps.book.rejects == (1, 0)


def test_expressions_and_transforms(spark: Any) -> None:
    records = spark.range(40).selectExpr(
        "encode(cast(id as string), 'utf-8') as key", "encode(concat('{\"n\":', id, '}'), 'utf-8') as value",
        "if(id % 2 = 0, 't', 'u') as topic", "0 as partition", "id as offset",
        "timestamp_millis(1000 * id) as timestamp", "0 as timestampType",
        "cast(null as array<struct<key: string, value: binary>>) as headers",
    )  # fmt: skip
    for transform, expression in EXPECT.items():
        settings = Settings(
            ("t",), ("u",), "localhost:1", 60_000, 30_000, expect=expression,
            output_key="get_json_object(cast(value as string), '$.n')",
        )  # fmt: skip
        rows = source.sides(records, settings).orderBy("offset").collect()
        assert [row["id"] for row in rows] == [str(n) for n in range(40)]
        assert [row["expected"] for row in rows[::2]] == [expected_count(transform, n, 0) for n in range(0, 40, 2)]
        assert [row["time"] for row in rows] == [1000 * n for n in range(40)]
        assert {(row["side"], row["part"]) for row in rows} == {("in", None), ("out", 0)}
    for wrong in ({"input_key": "kye"}, {"expect": "1 +"}, {"time": "topic"}):
        with pytest.raises(BadInput, match=r"--(input-key kye|expect 1|time topic)"):
            source.sides(records, Settings(("t",), ("u",), "localhost:1", 60_000, 30_000, **wrong))


def test_files_are_read_with_ids_of_their_own(spark: Any, tmp_path: Path) -> None:
    settings = Settings(("t",), (), "localhost:1", 60_000, 30_000, folder=str(tmp_path / "out"), output_key="id")
    (tmp_path / "out").mkdir()
    with pytest.raises(BadInput, match="no readable Parquet file"):
        source.files(spark, settings)
    spark.range(5).coalesce(1).write.mode("overwrite").parquet(str(tmp_path / "out"))
    rows = source.of_files(source.files(spark, settings), settings)
    assert rows.isStreaming
    written = (
        rows.writeStream.format("memory")
        .queryName("rows")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    assert written.awaitTermination(120)
    found = spark.sql("select * from rows").collect()
    assert sorted(row["id"] for row in found) == list("01234")
    assert all(row["time"] > NOW - 86_400_000 * 365 and row["place"].startswith("file ") for row in found)
