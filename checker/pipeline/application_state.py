"""Compares the state that the outputs of an application show with what their input records require.

The state of a key after an input record depends on the key's records in the input partition, up to and including that
record:

    count  their number
    sum    the sum of their values
    last   the value of this record

Only those copies of records and outputs count that a read_committed consumer sees. If a record has several copies in
the log, an output of it may show the state after any of them. The *error* of an output is the state that it shows minus
the state that is expected. Once an update was lost, all later counts and sums of the key are too low as well. Each
output is therefore compared with the earlier outputs of the key in the same output partition. It is reported only if
its error is more negative, or more positive, than all of theirs. For `last`, every wrong state is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from checker.pipeline.tables import Setting

COUNT, SUM, LAST = "count", "sum", "last"
NUMBER: Final = "decimal(38,0)"
FIGURES: Final = ("states", "states_as_expected", "states_unreadable", "states_without_input")


def judged(shown: Any, lost: Any, settings: Mapping[str, Setting]) -> Any:
    """Returns one row for each output of the runs that have a state; None if no run has one.

    shown     the lines of the kind `checker.pipeline.tables.READ` that a read_committed consumer sees
    lost      the acknowledged records that are not in the input, with run, topic and partition
    settings  run -> its settings

    The columns are the output's place and time, the place of its input record (in columns whose names start with in_),
    and:

    found     the state that the output shows, as a text; null if none could be read
    expected  the state after the first copy of the input record, as a text
    error     the error, as a number; for `last`, -1 if the state is wrong, else 0; null if the state is not judged
    shortened whether acknowledged records are missing from the input partition, so that the state is not judged
    """
    from pyspark.sql import functions as F

    kinds = {run: setting.state for run, setting in settings.items() if setting.state is not None}
    if not kinds:
        return None
    kind = F.create_map(*(F.lit(each) for pair in kinds.items() for each in pair))[F.col("run")]
    of_runs = shown.where(F.col("run").isin(list(kinds)) & F.col("id").isNotNull()).withColumn("kind", kind)
    gone = lost.select("run", F.col("topic").alias("in_topic"), F.col("partition").alias("in_partition")).distinct()
    outputs = of_runs.where("side = 'output'").select(
        "run", "id", "kind", "topic", "partition", "offset", "time_ns", F.col("state").alias("found")
    )
    both = outputs.join(_expected(of_runs.where("side = 'input'")), ["run", "id"]).join(
        F.broadcast(gone.withColumn("shortened", F.lit(True))), ["run", "in_topic", "in_partition"], "left"
    )
    found = F.col("found").try_cast(NUMBER)
    by_number = (
        F.when(F.array_contains("numbers", found), F.lit(0).cast(NUMBER))
        .when(found > F.array_max("numbers"), found - F.array_max("numbers"))
        .otherwise(found - F.array_min("numbers"))
    )
    by_text = F.when(F.array_contains("texts", F.col("found")), 0).otherwise(-1).cast(NUMBER)
    error = F.when(F.col("kind") == LAST, by_text).otherwise(by_number)
    is_judged = F.col("found").isNotNull() & F.col("shortened").isNull()
    return both.withColumn("error", F.when(is_judged, error)).drop("numbers", "texts")


def _expected(inputs: Any) -> Any:
    """Returns one row for each run and id: the place of the record's first copy, and the states after its copies.

    numbers  the states after the copies, if they are numbers
    texts    the same as texts
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    of_key = Window.partitionBy("run", "topic", "partition", "key").orderBy("offset")
    up_to_this = of_key.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    value = F.coalesce(F.col("state").try_cast(NUMBER), F.lit(0).cast(NUMBER))
    number = F.when(F.col("kind") == COUNT, F.row_number().over(of_key).cast(NUMBER)).when(
        F.col("kind") == SUM, F.sum(value).over(up_to_this).cast(NUMBER)
    )
    text = F.when(F.col("kind") == LAST, F.col("state")).otherwise(F.col("number").cast("string"))
    place = F.struct("topic", "partition", "offset", "key", "text")
    return (
        inputs.withColumn("number", number)
        .withColumn("text", text)
        .groupBy("run", "id")
        .agg(F.min_by(place, "offset").alias("at"), F.collect_set("number").alias("numbers"),
             F.collect_set("text").alias("texts"))
        .select(
            "run",
            "id",
            F.col("at.topic").alias("in_topic"),
            F.col("at.partition").alias("in_partition"),
            F.col("at.offset").alias("in_offset"),
            F.col("at.key").alias("in_key"),
            F.col("at.text").alias("expected"),
            "numbers",
            "texts",
        )
    )  # fmt: skip


def findings(states: Any) -> Any:
    """Returns the anomalies as a data frame. It has those columns of `checker.pipeline.outputs.FORM` that apply, and
    the columns state_found and state_expected.

    states  the result of `judged`
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    earlier = (
        Window.partitionBy("run", "in_topic", "in_partition", "in_key", "topic", "partition")
        .orderBy("offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    zero = F.lit(0).cast(NUMBER)
    lowest, highest = (F.coalesce(each("error").over(earlier), zero) for each in (F.min, F.max))
    each_counts = F.col("kind") == LAST
    name = F.when((F.col("error") < 0) & (each_counts | (F.col("error") < F.least(lowest, zero))), "lost-update").when(
        (F.col("error") > 0) & (F.col("error") > F.greatest(highest, zero)), "doubled-update"
    )
    nothing = {"instance": "string", "incarnation": "bigint", "generation": "bigint"}
    copy = F.struct(
        "topic",
        "partition",
        "offset",
        *(F.lit(None).cast(type_).alias(column) for column, type_ in nothing.items()),
        "time_ns",
    )
    return (
        states.withColumn("name", name)
        .where("name is not null")
        .select(
            "run",
            "name",
            F.col("in_topic").alias("topic"),
            F.col("in_partition").alias("partition"),
            F.col("in_offset").alias("offset"),
            "id",
            F.col("in_key").alias("key"),
            F.array(copy).alias("outputs"),
            F.col("found").alias("state_found"),
            F.col("expected").alias("state_expected"),
        )
    )


def figures(states: Any) -> dict[str, dict[str, int]]:
    """Returns run -> name of a figure -> number of outputs. The names are FIGURES; see `checker.pipeline.judge`."""
    from pyspark.sql import functions as F

    def count(condition: Any) -> Any:
        return F.sum(condition.cast("bigint"))

    counts = (
        F.col("error").isNotNull(),
        F.coalesce(F.col("error") == 0, F.lit(False)),
        F.col("found").isNull(),
        F.col("found").isNotNull() & F.col("shortened").isNotNull(),
    )
    named = (count(condition).alias(name) for name, condition in zip(FIGURES, counts, strict=True))
    return {row["run"]: {name: row[name] for name in FIGURES} for row in states.groupBy("run").agg(*named).collect()}
