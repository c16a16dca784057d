"""Reads inputs and outputs as one stream with a column `side`.

Topics are read by Spark's Kafka source. Outputs may also be read from files. The stream also has the ticks of a clock
(Spark's rate source). Batches therefore continue while no records arrive, and a window is closed without waiting for
another record.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checker.qos.comparison_settings import Settings
from harness.model.errors_and_exit_codes import BadInput


def both(spark: Any, settings: Settings) -> DataFrame:
    """Returns the stream: a row for each record (side, id, part, expected, time, place, offset) and each tick.

    Raises BadInput.
    """
    rows = sides(topics(spark, settings), settings)
    if settings.folder:
        rows = rows.unionByName(of_files(files(spark, settings), settings))
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return rows.unionByName(ticks.select(F.lit("tick").alias("side")), allowMissingColumns=True)


def topics(spark: Any, settings: Settings) -> DataFrame:
    """Returns the records of all topics.

    Records that brokers deleted are skipped here, and counted by `checker.qos.losses`.
    """
    return (
        spark.readStream.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in settings.kafka.items()})
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", ",".join((*settings.inputs, *settings.outputs)))
        .option("startingOffsets", settings.start)
        .option("failOnDataLoss", "false")
        .option("includeHeaders", "true")
        .load()
    )


def files(spark: Any, settings: Settings) -> DataFrame:
    """Returns the rows of a folder of Parquet files.

    Raises BadInput if the folder has no file, because the schema is taken from the first file.
    """
    # Files still being written have other names and are renamed when complete.
    options = {"recursiveFileLookup": "true", "pathGlobFilter": "*.parquet"}
    try:
        schema = spark.read.options(**options).parquet(settings.folder).schema
    except AnalysisException as error:
        raise BadInput(
            f"--output {settings.folder}: it has no readable Parquet file yet ({first_line(error)}); "
            "start once the first one exists, or choose a topic"
        ) from None
    rows = spark.readStream.schema(schema).options(**options).parquet(settings.folder)
    named = rows.withColumn("_file", F.col("_metadata.file_name"))
    written = F.col("_metadata.file_modification_time")
    return named if "timestamp" in schema.names else named.withColumn("timestamp", written)


def sides(records: DataFrame, settings: Settings) -> DataFrame:
    """Converts the records of topics, inputs and outputs alike, to the columns of the stream."""
    names = ", ".join(f"'{name}'" for name in settings.inputs)
    is_in = f"topic in ({names})"
    key = _either(
        is_in,
        as_text(records, "--input-key", settings.input_key),
        as_text(records, "--output-key", settings.output_key) if settings.outputs else "null",
    )
    time = _either(
        is_in,
        as_ms(records, "--time", settings.time),
        as_ms(records, "--output-time", settings.output_time) if settings.outputs else "null",
    )
    part = as_int(records, "--output-part", settings.part) if settings.outputs else "null"
    chosen = records.selectExpr(
        f"if({is_in}, 'in', 'out') as side",
        f"{key} as id",
        f"if({is_in}, null, {part}) as part",
        f"{time} as time",
        "concat(topic, '-', partition) as place",
        "offset",
        "key",
        "value",
        "headers",
        "timestamp",
        "topic",
        "partition",
    )
    expected = as_int(chosen, "--expect", settings.expect)
    return chosen.selectExpr(
        "side", "id", "part", f"if(side = 'in', {expected}, null) as expected", "time", "place", "offset"
    )


def of_files(rows: DataFrame, settings: Settings) -> DataFrame:
    """Converts rows from files, all of which are outputs, to the columns of the stream."""
    return rows.selectExpr(
        "'out' as side",
        f"{as_text(rows, '--output-key', settings.output_key)} as id",
        f"{as_int(rows, '--output-part', settings.part)} as part",
        "cast(null as int) as expected",
        f"{as_ms(rows, '--output-time', settings.output_time)} as time",
        "concat('file ', _file) as place",
        "cast(null as bigint) as offset",
    )


def as_text(rows: DataFrame, option: str, expression: str) -> str:
    """Returns an SQL expression for the value of `expression` as text, with bytes in hexadecimal.

    Raises BadInput, with the name of the `option`.
    """
    kind = type_of(rows, option, expression)
    return f"hex({expression})" if kind == "binary" else f"cast(({expression}) as string)"


def as_ms(rows: DataFrame, option: str, expression: str) -> str:
    """Returns an SQL expression for the value of `expression` as milliseconds since the epoch.

    Raises BadInput, with the name of the `option`.
    """
    kind = type_of(rows, option, expression)
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return f"unix_millis(cast(({expression}) as timestamp))"
    if kind in ("tinyint", "smallint", "int", "bigint", "float", "double") or kind.startswith("decimal"):
        return f"cast(({expression}) as bigint)"
    raise BadInput(
        f"{option} {expression}: has type {kind}; must be a timestamp, or milliseconds since the epoch as a number"
    )


def as_int(rows: DataFrame, option: str, expression: str) -> str:
    """Returns an SQL expression for the value of `expression` as an integer.

    Raises BadInput, with the name of the `option`.
    """
    type_of(rows, option, expression)
    return f"cast(({expression}) as int)"


def type_of(rows: DataFrame, option: str, expression: str) -> str:
    """Returns the type of an expression over the columns of `rows`.

    Raises BadInput, with the name of the `option`, if it is invalid.
    """
    try:
        return str(rows.selectExpr(f"({expression}) as found").schema["found"].dataType.simpleString())
    except AnalysisException as error:  # includes ParseException
        raise BadInput(
            f"{option} {expression}: Spark cannot evaluate it ({first_line(error)}); the columns are "
            f"{', '.join(name for name in rows.columns if not name.startswith('_'))}"
        ) from None


def first_line(error: Exception) -> str:
    """Returns the first line of Spark's message, because the whole message is often a page long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def _either(condition: str, yes: str, no: str) -> str:
    return f"if({condition}, {yes}, {no})"
