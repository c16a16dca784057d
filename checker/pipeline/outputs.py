"""The batch check of pipelines: every committed input record must have exactly its outputs, once, and in order per key.

The check consists of joins and windows over Spark data frames, for one or many runs. Only those inputs and outputs
count that a read_committed consumer sees. An input record is identified by its id. The log may have several copies of a
record (from a writer's retries), and each copy must be transformed. An output is identified by the id of its input
record and by its number among that record's outputs. An output of the aggregate transform is
identified by the id alone, because its number is the count of the records so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from checker.anomalies.pipeline_modes import AGGREGATE, ONCE
from checker.pipeline import application_state
from checker.pipeline.expected import with_expected
from checker.pipeline.tables import Setting, joined

LISTED: Final = 8  # copies of an output that a witness lists
_OUTPUT: Final = ("topic", "partition", "offset", "instance", "incarnation", "generation", "time_ns")
_COPY: Final = (
    "struct<topic:string,partition:int,offset:bigint,instance:string,incarnation:bigint,generation:bigint,"
    "time_ns:bigint>"
)
FORM: Final = (
    "run string, name string, topic string, partition int, offset bigint, id bigint, key bigint, n bigint, "
    f"copies bigint, expected bigint, outputs array<{_COPY}>"
)


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of comparing the outputs of pipelines with their inputs.

    findings  the anomalies, as a data frame with the schema FORM
    figures   run -> name of the figure -> count
    cached    data frames that Spark has cached, and that the caller must release

    If a run has a state, `findings` also has state_found and state_expected (see `application_state.findings`).
    """

    findings: Any
    figures: Mapping[str, Mapping[str, int]]
    cached: tuple[Any, ...]


def compare(spark: Any, read: Any, sent: Any, events: Any, settings: Mapping[str, Setting]) -> Compared:
    """Finds all anomalies of outputs and inputs.

    read      the lines of the kind `checker.pipeline.tables.READ`
    sent      the lines of the kind `checker.pipeline.tables.SENT`
    events    the lines of the kind `checker.pipeline.tables.EVENT`
    settings  run -> its settings; runs without a transform are skipped
    """
    from pyspark.sql import functions as F

    usable = {run: setting for run, setting in settings.items() if setting.transform}
    runs = _runs(spark, usable)
    shown = read.where(F.coalesce(F.col("committed"), F.lit(True)))
    records = shown.where("side = 'input'")
    inputs = _inputs(records, runs, usable).persist()
    made = _made(_numbered(shown.where("side = 'output'"), usable), runs)
    transactional = [run for run, setting in usable.items() if setting.mode in ONCE]
    lost, phantom = _writers(records, sent, runs)
    aborts = _aborts(events.where(F.col("run").isin(transactional)))
    matched = _matched(_right(_with_inputs(made, inputs), lost, usable), aborts).persist()
    findings = joined([_unmatched(matched), _flagged(matched), _missing(inputs, matched), lost, phantom])
    figures = _figures(read, inputs, matched)
    states = application_state.judged(shown, lost, usable)
    if states is None:
        return Compared(findings, figures, (inputs, matched))
    states = states.persist()
    of_states = application_state.figures(states)
    findings = findings.unionByName(application_state.findings(states), allowMissingColumns=True)
    figures = {run: {**counts, **of_states.get(run, {})} for run, counts in figures.items()}
    return Compared(findings, figures, (inputs, matched, states))


def _runs(spark: Any, settings: Mapping[str, Setting]) -> Any:
    from pyspark.sql import functions as F

    rows = [(run, setting.transform) for run, setting in settings.items()]
    return F.broadcast(spark.createDataFrame(rows, "run string, transform string"))


def _inputs(records: Any, runs: Any, settings: Mapping[str, Setting]) -> Any:
    """Returns one row per run and input id: where the record's first copy is, and what outputs it must have.

    copies  the number of copies of the record
    nth     the number of the first copy among the records of its key, counted from 1
    nths    the same number for each copy, ascending
    latest  the offset of the last copy
    done    the number of copies below the committed offset
    want    the number of outputs that the record must have
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    in_log = Window.partitionBy("run", "topic", "partition", "key").orderBy("offset")
    numbered = records.join(runs, "run").withColumn("nth", F.row_number().over(in_log))
    spark = records.sparkSession
    ends = [
        (run, topic, partition, offset)
        for run, setting in settings.items()
        for (topic, partition), offset in setting.committed.items()
    ]
    committed = F.broadcast(spark.createDataFrame(ends, "run string, topic string, partition int, committed_to bigint"))
    done = F.col("offset") < F.coalesce("committed_to", F.lit(0))
    one = (
        numbered.where("id is not null")
        .join(committed, ["run", "topic", "partition"], "left")
        .groupBy("run", "transform", "id")
        .agg(
            F.min_by(F.struct("topic", "partition", "offset", "key", "nth"), "offset").alias("at"),
            F.count("*").alias("copies"),
            F.sum(done.cast("bigint")).alias("done"),
            F.sort_array(F.collect_list("nth")).alias("nths"),
            F.max("offset").alias("latest"),
        )
        .select("run", "transform", "id", "at.*", "copies", "done", "nths", "latest")
    )
    return with_expected(one, {run: setting.outputs or setting.transform for run, setting in settings.items()})


def _numbered(outputs: Any, settings: Mapping[str, Setting]) -> Any:
    """Numbers the outputs of applications, which do not number them themselves.

    If an input record must have k outputs, its outputs get the numbers 0 to k-1 in turn, and then 0 to k-1 again. So a
    surplus output is a duplicate, and if there are too few outputs, a number is missing. Outputs that name no input
    record are left out: see `_figures`.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    foreign = {run: setting.outputs for run, setting in settings.items() if setting.outputs is not None}
    if not foreign:
        return outputs
    counts = F.create_map(*(F.lit(each) for pair in foreign.items() for each in pair))[F.col("run")]
    of_record = Window.partitionBy("run", "id").orderBy("topic", "partition", "offset")
    turn = (F.row_number().over(of_record) - 1) % counts
    named = outputs.where(~F.col("run").isin(list(foreign)) | F.col("id").isNotNull())
    return named.withColumn("n", F.coalesce(turn.cast("bigint"), F.col("n")))


def _made(outputs: Any, runs: Any) -> Any:
    """Returns one row per run, id and number of an output.

    made       the number of copies of the output
    outputs    the first few copies
    counts     for the aggregate transform: the distinct counts in the copies
    least_key  the lowest key of all copies
    most_key   the highest key of all copies
    """
    from pyspark.sql import functions as F

    copy = F.struct("topic", "partition", "offset", "instance", "incarnation", "generation", "time_ns", "key", "n")
    number = F.when(F.col("transform") == AGGREGATE, F.lit(0).cast("bigint")).otherwise(F.col("n"))
    # Outputs without an id cannot be grouped: each is a row of its own.
    alone = F.when(F.col("id").isNull(), F.struct("topic", "partition", "offset"))
    return (
        outputs.join(runs, "run")
        .groupBy("run", "transform", "id", number.alias("number"), alone.alias("alone"))
        .agg(
            F.count("*").alias("made"),
            F.min(copy).alias("one"),
            F.min("key").alias("least_key"),
            F.max("key").alias("most_key"),
            F.collect_set(F.when(F.col("transform") == AGGREGATE, F.col("n"))).alias("counts"),
            F.slice(F.sort_array(F.collect_list(copy)), 1, LISTED).alias("outputs"),
        )
        .drop("alone")
    )


def _aborts(events: Any) -> Any:
    """Returns the ranges of input offsets for which outputs were produced, and whether these outputs were aborted.

    Column names start with e_.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    in_time = Window.partitionBy("run", "instance", "incarnation").orderBy("time_ns", "line")
    later = in_time.rowsBetween(1, Window.unboundedFollowing)
    ending = F.when(F.col("event").isin("committed", "aborted"), F.col("event"))
    return (
        events.withColumn("ending", F.first(ending, ignorenulls=True).over(later))
        .where("event = 'produced'")
        .select(
            F.col("run").alias("e_run"),
            F.col("incarnation").alias("e_incarnation"),
            F.col("topic").alias("e_topic"),
            F.col("partition").alias("e_partition"),
            F.col("first").alias("e_first"),
            F.col("last").alias("e_last"),
            # Without an ending the outcome is unknown: the instance was killed, and may have committed.
            F.coalesce(F.col("ending") == "aborted", F.lit(False)).alias("e_aborted"),
        )
    )


def _with_inputs(made: Any, inputs: Any) -> Any:
    """Joins the outputs with their input records. The columns of the input record have names that start with in_."""
    from pyspark.sql import functions as F

    names = ("topic", "partition", "offset", "key", "nth", "nths", "latest", "copies", "done", "want")
    source = inputs.select("run", "id", *(F.col(name).alias(f"in_{name}") for name in names))
    return made.join(source, ["run", "id"], "left")


def _right(both: Any, lost: Any, settings: Mapping[str, Setting]) -> Any:
    """Adds a column `right`: whether all copies of an output are what the transform makes of its input record.

    If the output is a count, it must be the right count for one of the record's copies. If acknowledged records of a
    key were lost from the input, the pipeline may have counted them before. Counts may then be higher by up to the
    number of lost records.
    """
    from pyspark.sql import functions as F

    counting = [run for run, setting in settings.items() if setting.transform == AGGREGATE]
    gone = (
        lost.where(F.col("run").isin(counting))
        .groupBy("run", F.col("topic").alias("in_topic"), F.col("partition").alias("in_partition"), "key")
        .agg(F.count("*").alias("gone"))
        .withColumnRenamed("key", "in_key")
    )
    if counting:
        both = both.join(F.broadcast(gone), ["run", "in_topic", "in_partition", "in_key"], "left")
    else:
        both = both.withColumn("gone", F.lit(0))
    more = F.coalesce(F.col("gone"), F.lit(0))
    counted = F.forall("counts", lambda n: F.exists("in_nths", lambda nth: n.between(nth, nth + more)))
    # Each copy of the record that was done gives another count. With no more outputs than copies, none may repeat.
    distinct = (F.col("made") > F.col("in_done")) | (F.size("counts") == F.col("made"))
    numbered = F.when(F.col("transform") == AGGREGATE, counted & distinct).otherwise(
        (F.col("number") >= 0) & (F.col("number") < F.col("in_want"))
    )
    keyed = (F.col("least_key") == F.col("in_key")) & (F.col("most_key") == F.col("in_key"))
    right = F.coalesce(numbered & F.coalesce(keyed, F.lit(True)), F.lit(False))
    return both.withColumn("right", right).drop("gone", "counts", "least_key", "most_key")


def _matched(both: Any, aborts: Any) -> Any:
    """Adds two columns to the outputs.

    late     whether the output comes after an output of a later input record with the same key
    aborted  whether the transaction that produced the output was aborted
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    before = (
        Window.partitionBy("run", "in_topic", "in_partition", "one.topic", "one.partition", "one.key")
        .orderBy("one.offset", "in_offset", "number")  # rows of one file share an offset
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # If the input has several copies of the record, an output that comes late may belong to the last copy.
    passed = F.max(F.when(F.col("right"), F.struct("in_offset", "number"))).over(before)
    late = F.col("right") & F.coalesce(F.struct(F.col("in_latest").alias("in_offset"), "number") < passed, F.lit(False))
    ordered = both.withColumn("late", late)
    covers = (
        (F.col("run") == F.col("e_run"))
        & (F.col("one.incarnation") == F.col("e_incarnation"))
        & (F.col("in_topic") == F.col("e_topic"))
        & (F.col("in_partition") == F.col("e_partition"))
        & F.col("in_offset").between(F.col("e_first"), F.col("e_last"))
    )
    # Only incarnations that aborted anything, because a join by ranges is expensive.
    aborting = aborts.where("e_aborted").select(
        F.col("e_run").alias("a_run"), F.col("e_incarnation").alias("a_incarnation")
    )
    some = aborts.join(
        aborting.distinct(),
        (F.col("e_run") == F.col("a_run")) & (F.col("e_incarnation") == F.col("a_incarnation")),
        "left_semi",
    )
    committed = (
        ordered.join(some, covers)
        .groupBy("run", "id", "number")
        .agg(F.min("e_aborted").alias("aborted"))
        .where("aborted")
    )
    return ordered.join(committed, ["run", "id", "number"], "left").withColumn(
        "aborted", F.coalesce("aborted", F.lit(False))
    )


def _listed() -> Any:
    """Returns a column with the copies of an output, as in the column `outputs` of FORM."""
    from pyspark.sql import functions as F

    return F.transform("outputs", lambda x: F.struct(*(x[part].alias(part) for part in _OUTPUT)))


def _row(name: Any, expected: Any) -> list[Any]:
    """Returns the columns of FORM for an output that was joined with its input record."""
    from pyspark.sql import functions as F

    return [
        F.col("run"),
        name.alias("name"),
        F.col("in_topic").alias("topic"),
        F.col("in_partition").alias("partition"),
        F.col("in_offset").alias("offset"),
        F.col("id"),
        F.col("one.key").alias("key"),
        F.col("one.n").alias("n"),
        F.col("made").alias("copies"),
        expected.cast("bigint").alias("expected"),
        _listed().alias("outputs"),
    ]


def _unmatched(matched: Any) -> Any:
    from pyspark.sql import functions as F

    return matched.where("in_offset is null").select(*_row(F.lit("phantom-output"), F.lit(0)))


def _flagged(matched: Any) -> Any:
    """Returns the anomalies of outputs that name a known input record, one row for each anomaly."""
    from pyspark.sql import functions as F

    counts = F.col("transform") == AGGREGATE
    flags = {
        "wrong-output": ~F.col("right"),
        "duplicate-output": F.col("made") > F.col("in_copies"),
        "reordered-output": F.col("late"),
        "aborted-output": F.col("aborted"),
        "uncommitted-output": (F.col("in_done") < F.col("in_copies")) & (F.col("made") > F.col("in_done")),
    }
    names = F.array_compact(F.array(*(F.when(flag, F.lit(name)) for name, flag in flags.items())))
    expected = F.when(counts, F.col("in_nth")).otherwise(F.col("in_want"))
    flagged = matched.where("in_offset is not null").withColumn("names", names).where("size(names) > 0")
    return flagged.withColumn("name", F.explode("names")).select(
        *_row(F.col("name"), F.when(F.col("name") == "wrong-output", expected).otherwise(F.col("in_copies")))
    )


def _missing(inputs: Any, matched: Any) -> Any:
    """Returns the outputs of which copies are missing.

    An output must have one copy for each copy of its input record below the committed offset.
    """
    from pyspark.sql import functions as F

    present = matched.where("in_offset is not null").select("run", "id", "number", "made", _listed().alias("outputs"))
    none = F.array().cast(f"array<{_COPY}>")
    due = (
        inputs.where("done > 0 and want > 0")
        .withColumn("number", F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("want") - 1)))
        .join(present, ["run", "id", "number"], "left")
        .withColumn("made", F.coalesce("made", F.lit(0).cast("bigint")))
        .where("made < done")
    )
    return due.select(
        "run",
        F.lit("missing-output").alias("name"),
        "topic",
        "partition",
        "offset",
        "id",
        "key",
        F.col("number").alias("n"),
        F.col("made").alias("copies"),
        F.col("done").alias("expected"),
        F.coalesce("outputs", none).alias("outputs"),
    )


def _writers(records: Any, sent: Any, runs: Any) -> list[Any]:
    """Compares the records that writers sent with the input that was read. Returns [lost inputs, phantom inputs]."""
    from pyspark.sql import functions as F

    reported = sent.join(runs, "run").select(
        "run",
        "id",
        F.col("key").alias("s_key"),
        F.col("topic").alias("s_topic"),
        F.col("partition").alias("s_partition"),
        F.col("offset").alias("s_offset"),
        "outcome",
    )
    by_id = records.join(runs, "run").where("id is not null").groupBy("run", "id")
    present = by_id.agg(F.min_by(F.struct("topic", "partition", "offset", "key"), "offset").alias("at"))
    empty = F.array().cast(f"array<{_COPY}>").alias("outputs")
    lost = (
        reported.where("outcome = 'ok'")
        .join(present, ["run", "id"], "left_anti")
        .select(
            "run",
            F.lit("lost-input").alias("name"),
            F.col("s_topic").alias("topic"),
            F.col("s_partition").alias("partition"),
            F.col("s_offset").alias("offset"),
            "id",
            F.col("s_key").alias("key"),
            F.lit(None).cast("bigint").alias("n"),
            F.lit(0).cast("bigint").alias("copies"),
            F.lit(1).cast("bigint").alias("expected"),
            empty,
        )
    )
    unsent = present.join(reported.where("outcome <> 'fail'"), ["run", "id"], "left_anti").join(
        reported.select("run").distinct(), "run", "left_semi"
    )
    phantom = unsent.select(
        "run",
        F.lit("phantom-input").alias("name"),
        "at.topic",
        "at.partition",
        "at.offset",
        "id",
        "at.key",
        F.lit(None).cast("bigint").alias("n"),
        F.lit(1).cast("bigint").alias("copies"),
        F.lit(0).cast("bigint").alias("expected"),
        empty,
    )
    return [lost, phantom]


def _figures(read: Any, inputs: Any, matched: Any) -> dict[str, dict[str, int]]:
    """Returns run -> name -> count.

    The counts are numbers of records, for example inputs, outputs and aborted outputs.
    """
    from pyspark.sql import functions as F

    def count(column: Any, name: str) -> Any:
        return F.coalesce(F.sum(column.cast("bigint")), F.lit(0)).alias(name)

    of_input = inputs.groupBy("run").agg(
        F.count("*").alias("inputs"),
        count(F.col("copies") - 1, "input_copies"),
        count(F.col("done") == F.col("copies"), "done"),
        count(F.col("done") * F.col("want"), "expected"),
    )
    of_output = matched.groupBy("run").agg(
        count(F.col("made"), "outputs"),
        count(F.when(F.col("in_offset").isNull(), F.col("made")), "strangers"),
        count(F.greatest(F.col("made") - F.coalesce("in_copies", F.lit(1)), F.lit(0)), "extra"),
    )
    unnamed = (
        read.where("side = 'output' and id is null and coalesce(committed, true)")
        .groupBy("run")
        .agg(F.count("*").alias("unnamed"))
    )
    hidden = read.where("side = 'output' and not committed").groupBy("run").agg(F.count("*").alias("aborted"))
    tables = (of_output, hidden, unnamed)
    rows = reduce(lambda left, right: left.join(right, "run", "full"), tables, of_input).collect()
    names = ("inputs", "input_copies", "done", "expected", "outputs", "extra", "aborted", "strangers", "unnamed")
    return {row["run"]: {name: int(row[name] or 0) for name in names} for row in rows}
