"""Both sides as one stream, with a side column: topics by Spark's own Kafka source, or files.

A clock ticks beside them (Spark's rate source): batches go on when both sides are idle, so that a window is
closed without another record.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checker.qos.comparison_settings import Settings
from harness.model.errors_and_exit_codes import BadInput


def both(spark: Any, settings: Settings) -> DataFrame:
    """side, id, part, expected, time, place, offset of every record, and ticks. Raises BadInput."""
    rows = sides(topics(spark, settings), settings)
    if settings.folder:
        rows = rows.unionByName(of_files(files(spark, settings), settings))
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return rows.unionByName(ticks.select(F.lit("tick").alias("side")), allowMissingColumns=True)


def topics(spark: Any, settings: Settings) -> DataFrame:
    """The records of all topics. Offsets that are gone are skipped, and counted elsewhere."""
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
    """The rows of a folder of Parquet files. Raises BadInput when there are none to take the schema from."""
    # Others in there are being written: such a file gets this name when it is whole.
    options = {"recursiveFileLookup": "true", "pathGlobFilter": "*.parquet"}
    try:
        schema = spark.read.options(**options).parquet(settings.folder).schema
    except AnalysisException as error:
        raise BadInput(
            f"--output {settings.folder}: no Parquet files that can be read there yet ({first_line(error)}): "
            "start when the first is there, or give a topic's name"
        ) from None
    rows = spark.readStream.schema(schema).options(**options).parquet(settings.folder)
    named = rows.withColumn("_file", F.col("_metadata.file_name"))
    written = F.col("_metadata.file_modification_time")
    return named if "timestamp" in schema.names else named.withColumn("timestamp", written)


def sides(records: DataFrame, settings: Settings) -> DataFrame:
    """What is compared of the records of topics, in one pass."""
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
    """What is compared of the rows of files: outputs, all of them."""
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
    """The expression as text; bytes in hexadecimal digits. Raises BadInput."""
    kind = type_of(rows, option, expression)
    return f"hex({expression})" if kind == "binary" else f"cast(({expression}) as string)"


def as_ms(rows: DataFrame, option: str, expression: str) -> str:
    """The expression as milliseconds since the epoch. Raises BadInput."""
    kind = type_of(rows, option, expression)
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return f"unix_millis(cast(({expression}) as timestamp))"
    if kind in ("tinyint", "smallint", "int", "bigint", "float", "double") or kind.startswith("decimal"):
        return f"cast(({expression}) as bigint)"
    raise BadInput(
        f"{option} {expression}: gives {kind}; give a timestamp, or milliseconds since the epoch as a number"
    )


def as_int(rows: DataFrame, option: str, expression: str) -> str:
    """The expression as a number of outputs. Raises BadInput."""
    type_of(rows, option, expression)
    return f"cast(({expression}) as int)"


def type_of(rows: DataFrame, option: str, expression: str) -> str:
    """The type of an expression over these columns. Raises BadInput when it has none."""
    try:
        return str(rows.selectExpr(f"({expression}) as found").schema["found"].dataType.simpleString())
    except AnalysisException as error:  # a ParseException, too
        raise BadInput(
            f"{option} {expression}: Spark cannot evaluate it ({first_line(error)}); the columns are "
            f"{', '.join(name for name in rows.columns if not name.startswith('_'))}"
        ) from None


def first_line(error: Exception) -> str:
    """What Spark says, of what is often a page."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def _either(condition: str, yes: str, no: str) -> str:
    return f"if({condition}, {yes}, {no})"
