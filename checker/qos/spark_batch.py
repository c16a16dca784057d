"""Processes one batch in Spark: merges its records into the table of ids, and counts the windows from this table.

The table of ids has one row for each expected output of an input, and one for each output that arrived:

    id      the id of the input
    part    the number of the output among the outputs of its input; -1 for an input without expected outputs
    is_in   whether the row is an expected output (from the input side), and not one that arrived
    window  start of the window, in ms: the window of the input or, for an output that arrived, of its own event time
    n       how many equal rows were merged into this row
    ripe    for expected outputs: the time on the clock from which the output is due, in ms
    place   topic-partition or file of the first of the merged records
    offset  the offset of that record

Rows stay in the JVM. If several inputs have the same id, the outputs with this id are attributed to the oldest input
first.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from checker.qos.comparison_settings import PARTS_MAX, Settings
from checker.qos.window_state import Book, Seen, Window

IDS: Final = "id string, part int, is_in boolean, window bigint, n bigint, ripe bigint, place string, offset bigint"
_KEYS: Final = ("id", "part")


def nothing(spark: Any) -> DataFrame:
    """Returns an empty table of ids, which has a row for each expected output and each output that arrived."""
    columns = (column.split() for column in IDS.split(", "))
    none: DataFrame = spark.range(0).selectExpr(*(f"cast(null as {kind}) as {name}" for name, kind in columns))
    return none


def of_batch(rows: DataFrame, book: Book, settings: Settings, now_ms: int, watch: Observation) -> DataFrame:
    """Converts the records of a batch to rows of the table of ids.

    The table has a row for each expected output of an input, and one for each output that arrived. Once the rows have
    been written, `watch` has the counts of the batch.

    rows  side ("in", "out"), id, part (of an output), expected (of an input), time (ms), place, offset
    """
    length_ms = settings.window_ms
    is_in = F.col("side") == "in"
    parts = F.when(is_in, F.col("expected")).otherwise(F.col("part"))
    good = F.col("id").isNotNull() & F.col("time").isNotNull() & parts.between(0, PARTS_MAX)
    time = F.least("time", F.lit(now_ms))
    window = _floor(time, length_ms)
    behind = window < book.edge_ms
    came = F.when(time > book.late_ms(now_ms), time).otherwise(now_ms)
    newest = F.lit(max(_floor_int(max(book.mark_ms, 0), length_ms), book.edge_ms))
    watched = rows.observe(
        watch,
        F.count_if(is_in).alias("n_in"),
        F.count_if(~is_in).alias("n_out"),
        F.count_if(is_in & ~_true(good)).alias("reject_in"),
        F.count_if(~is_in & ~_true(good)).alias("reject_out"),
        F.count_if(_true(good) & (F.col("time") > now_ms + settings.padding_ms)).alias("future"),
        F.count_if(_true(good) & behind).alias("behind"),
        F.max(F.when(_true(good), time)).alias("latest"),
    )
    each = (
        F.when(~is_in, F.array("part"))
        .when(F.col("expected") == 0, F.array(F.lit(-1)))
        .otherwise(F.sequence(F.lit(0), F.col("expected") - 1))
    )
    return watched.where(good).select(
        "id",
        F.explode(each).alias("part"),
        is_in.alias("is_in"),
        F.when(behind, F.greatest(newest, window)).otherwise(window).alias("window"),
        F.lit(1).cast("bigint").alias("n"),
        (came + settings.padding_ms).alias("ripe"),
        "place",
        "offset",
    )


def seen(counts: dict[str, Any]) -> Seen:
    """Returns the counts of a batch (`watch.get` in `of_batch`) as a `Seen`."""
    return Seen(
        records=(counts["n_in"], counts["n_out"]),
        rejects=(counts["reject_in"], counts["reject_out"]),
        future=counts["future"],
        behind=counts["behind"],
        latest_ms=counts["latest"],
    )


def remembered(ids: DataFrame, edge_ms: int) -> DataFrame:
    """Returns the table of ids without old windows, and without the outputs of the inputs in these windows.

    Old windows are those that start before `edge_ms`.
    """
    over = Over.partitionBy(*_KEYS)
    old = F.col("window") < edge_ms
    return (
        ids.withColumn("used", F.sum(F.when(F.col("is_in") & old, F.col("n")).otherwise(0)).over(over))
        .withColumn("left", F.sum(F.when(F.col("is_in") & ~old, F.col("n")).otherwise(0)).over(over))
        .withColumn(
            "n",
            F.when(F.col("is_in"), F.when(old, 0).otherwise(F.col("n")))
            .when(F.col("left") > 0, F.col("n") - F.col("used"))
            .when((F.col("used") > 0) | old, 0)
            .otherwise(F.col("n")),
        )
        .where("n > 0")
        .drop("used", "left")
    )


def merged(old: DataFrame, new: DataFrame, partitions: int) -> DataFrame:
    """Returns the union of two tables of ids, with equal rows merged.

    Expected outputs are merged by id, part and window; outputs that arrived are merged by id and part.
    """
    together = new.unionByName(old).repartition(partitions, *_KEYS)
    slot = F.when(F.col("is_in"), F.col("window")).alias("slot")
    return (
        together.groupBy(*_KEYS, "is_in", slot)
        .agg(
            F.min("window").alias("window"),
            F.sum("n").alias("n"),
            F.max("ripe").alias("ripe"),
            F.min(F.struct("place", "offset")).alias("at"),
        )
        .select(*_KEYS, "is_in", "window", "n", "ripe", "at.place", "at.offset")
    )


def judged(ids: DataFrame, book: Book, settings: Settings) -> DataFrame:
    """Adds columns to the table of ids: how many outputs are missing, pending, duplicate, unmatched and present."""
    over = Over.partitionBy(*_KEYS)
    outs = F.sum(F.when(F.col("is_in"), 0).otherwise(F.col("n"))).over(over)
    wanted = F.when(F.col("is_in") & (F.col("part") >= 0), F.col("n")).otherwise(0)
    so_far = F.sum(wanted).over(over.orderBy("window", "is_in").rowsBetween(Over.unboundedPreceding, 0))
    over_ms = F.col("window") + settings.window_ms + settings.padding_ms
    due = (over_ms <= book.judged_ms) & (F.col("ripe") <= book.read_ms)
    real = F.col("is_in") & (F.col("part") >= 0)
    lacks = F.when(real, F.greatest(F.lit(0), F.least("n", F.col("so_far") - F.col("outs")))).otherwise(0)
    extra = F.when(
        real & (F.col("so_far") == F.col("wanted")), F.greatest(F.lit(0), F.col("outs") - F.col("wanted"))
    ).otherwise(0)
    orphans = ~F.col("is_in") & (F.col("wanted") == 0) & due
    return (
        ids.withColumn("outs", outs)
        .withColumn("wanted", F.sum(wanted).over(over))
        .withColumn("so_far", so_far)
        .withColumn("lacks", lacks)
        .withColumn("extra", extra)
        .withColumn("missing", F.when(due, F.col("lacks")).otherwise(0))
        .withColumn("pending", F.when(due, 0).otherwise(F.col("lacks")))
        .withColumn("duplicate", F.when(due, F.col("extra")).otherwise(0))
        .withColumn("present", F.when(real, F.col("n") - F.col("lacks") + F.col("duplicate")).otherwise(0))
        .withColumn("unmatched", F.when(orphans & (F.col("window") >= book.began_ms), F.col("n")).otherwise(0))
    )


def windows(judged_ids: DataFrame) -> list[Window]:
    """Returns the windows with their counts, summed over the ids."""
    first = F.col("is_in") & F.col("part").isin(0, -1)
    rows = (
        judged_ids.groupBy("window")
        .agg(
            F.sum(F.when(first, F.col("n")).otherwise(0)).alias("records_in"),
            F.sum("present").alias("records_out"),
            *(F.sum(name).alias(name) for name in ("missing", "duplicate", "unmatched", "pending")),
            F.max(F.when(F.col("is_in"), F.col("ripe"))).alias("ripe"),
        )
        .collect()
    )
    return [
        Window(
            start_ms=row["window"],
            records_in=row["records_in"],
            records_out=row["records_out"],
            missing=row["missing"],
            duplicate=row["duplicate"],
            unmatched=row["unmatched"],
            pending=row["pending"],
            ripe_ms=row["ripe"] or 0,
        )
        for row in rows
        if row["records_in"] or row["unmatched"]  # other windows only have outputs of inputs in earlier windows
    ]


def examples(judged_ids: DataFrame, starts: list[int], most: int) -> list[dict[str, Any]]:
    """Returns at most `most` examples of the anomalies in the windows that start at `starts`.

    Each example is {"window", "id", "part", "what", "n", "place", "offset"}.
    """
    what = (
        F.when(F.col("missing") > 0, "missing")
        .when(F.col("duplicate") > 0, "duplicate")
        .when(F.col("unmatched") > 0, "unmatched")
    )
    n = F.col("missing") + F.col("duplicate") + F.col("unmatched")
    rows = (
        judged_ids.where(F.col("window").isin(starts))
        .select("window", "id", "part", what.alias("what"), n.alias("n"), "place", "offset")
        .where("what is not null")
        .orderBy("window", "what", "place", "offset")
        .limit(most)
        .collect()
    )
    return [row.asDict() for row in rows]


def _true(column: Column) -> Column:
    return F.coalesce(column, F.lit(False))


def _floor(column: Column, length_ms: int) -> Column:
    return column - F.pmod(column, F.lit(length_ms))


def _floor_int(value: int, length_ms: int) -> int:
    return value - value % length_ms
