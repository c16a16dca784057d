"""Arranges the events of a pipeline's instances as rows per input partition: in Spark, and within a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from checker.pipeline.offset_machine import Event

FORM: Final = (
    "run string, topic string, partition int, time_ns bigint, line bigint, instance string, "
    "incarnation bigint, generation bigint, event string, "
    "first bigint, last bigint, count bigint, gaps bigint"
)
_NAMES: Final = tuple(part.split()[0] for part in FORM.split(", "))


def by_partition(rows: Any) -> Any:
    """Returns one row for each event and each partition that it concerns, as a data frame with the schema FORM.

    rows  the lines of the kind `checker.pipeline.tables.EVENT`

    An event that concerns a whole instance (aborted, closed, ...) gets one row for every partition that other events of
    the same incarnation name. (An incarnation is one start of the instance's process.) If an event has a single offset,
    the column `first` contains it.
    """
    from pyspark.sql import functions as F

    at = F.col("at")
    of_one = F.col("event").isin("position", "committed")
    offset = F.when(of_one, F.col("offset")).otherwise(F.col("first"))
    listed = (
        rows.where("event in ('assigned', 'revoked', 'lost')")
        .withColumn("at", F.explode("partitions"))
        .where(F.size("at") == 2)
        .withColumn("topic", at[0])
        .withColumn("partition", F.expr("try_cast(at[1] as int)"))
        .where("partition is not null")
        .drop("at")
    )
    own = rows.where("event not in ('assigned', 'revoked', 'lost') and topic is not null")
    placed = listed.unionByName(own).withColumn("first", offset).select(*_NAMES)
    member = ["run", "instance", "incarnation"]
    of_instance = rows.where("event not in ('assigned', 'revoked', 'lost') and topic is null")
    spread = (
        of_instance.drop("topic", "partition")
        .join(placed.select(*member, "topic", "partition").distinct(), member)
        .withColumn("first", F.lit(None).cast("bigint"))
        .withColumn("last", F.lit(None).cast("bigint"))
        .select(*_NAMES)
    )
    return placed.unionByName(spread)


def ordered(table: pa.Table) -> Iterator[Event]:
    """Yields the events of one partition in order of time; events with equal times are in the order of their lines."""
    if table.num_rows == 0:
        return
    by_time = table.sort_by([("time_ns", "ascending"), ("line", "ascending")])
    names = ("time_ns", "instance", "incarnation", "generation", "event", "first", "last", "count", "gaps")
    columns = (by_time.column(name).to_pylist() for name in names)
    for time_ns, instance, incarnation, generation, event, first, last, count, gaps in zip(*columns, strict=True):
        yield Event(time_ns, instance, incarnation, generation, event, first, last, count, gaps or 0)
