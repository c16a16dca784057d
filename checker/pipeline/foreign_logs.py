"""Extracts the events of instances from the logs of other programs, by regular expressions with named groups.

A *group* is a named group of a regular expression, such as `(?P<offset>[0-9]+)`. Lines are matched in Spark by Arrow's
regular expressions (RE2), which take linear time in the length of a line, whatever the expression. Lines longer than
LINE_MAX are cut and counted, which bounds the cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from checker.pipeline.offset_machine import EVENTS, OF_OFFSET, OF_PARTITIONS, OF_RANGE

GENERATION: Final = "generation"  # not an event of a partition: sets the generation of the following events
KINDS: Final = EVENTS | {GENERATION}
GROUPS: Final = frozenset(
    {"event", "topic", "partition", "partitions", "offset", "first", "last", "count", "instance"}
    | {"generation", "time"}
)
LINE_MAX: Final = 4096  # characters
NUMBERS: Final = ("partition", "offset", "first", "last", "count", "generation")
EPOCHS: Final = {"epoch-s": 1_000_000_000, "epoch-ms": 1_000_000, "epoch-us": 1_000, "epoch-ns": 1}
ONE_PARTITION: Final = r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>[0-9]+)"
_WHOLE: Final = "whole"
FORM: Final = (
    "status string, n bigint, file string, time_ns bigint, line bigint, instance string, generation bigint, "
    "event string, partitions array<array<string>>, topic string, partition int, offset bigint, "
    "first bigint, last bigint, count bigint, gaps bigint"
)
MATCHED, REJECTED, UNMATCHED, CUT = "matched", "rejected", "unmatched", "cut"


@dataclass(frozen=True, slots=True)
class EventPattern:
    """How to recognize a line that reports an event.

    match  a regular expression with named groups
    event  the kind of the event; empty: the text matched by the group `event` is the kind
    """

    match: str
    event: str = ""


@dataclass(frozen=True, slots=True)
class LogPattern:
    """How to read a log.

    events    patterns of events; the first one that matches a line applies
    line      a pattern with groups that are common to all lines, such as `time`; empty: no such pattern
    time      format of the group `time`: a strptime format, or epoch-s, epoch-ms, epoch-us, epoch-ns
    instance  name of the instance if there is no group `instance`; empty: the name of the log file
    each      pattern of one topic and partition in the text of the group `partitions`, a comma-separated list
    """

    events: tuple[EventPattern, ...]
    time: str
    line: str = ""
    instance: str = ""
    each: str = ONE_PARTITION


def wrong(pattern: str) -> str:
    """Returns what is wrong with a regular expression; empty if it is valid."""
    try:
        pc.extract_regex(pa.array([""]), _named(pattern))
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ").splitlines()[0]
    return ""


def groups(pattern: str) -> frozenset[str]:
    """Returns the names of the groups in a valid regular expression."""
    form = pc.extract_regex(pa.array([""]), _named(pattern)).type
    return frozenset(form.field(n).name for n in range(form.num_fields)) - {_WHOLE}


def _named(pattern: str) -> str:
    """Wraps a regular expression in a group, because Arrow requires at least one group."""
    return f"(?P<{_WHOLE}>{pattern})"


# --- a batch of lines ---------------------------------------------------------------------------------


def parsed(lines: Sequence[str], files: Sequence[str], pattern: LogPattern) -> list[dict[str, Any]]:
    """Returns rows with the columns of FORM: one per event, then the numbers of rejected, unmatched and cut lines.

    Each number that is not 0 has a row of its own.
    """
    array = pa.array(lines, pa.string())
    cut = int(pc.sum(pc.greater(pc.utf8_length(array), LINE_MAX)).as_py() or 0)
    array = pc.utf8_slice_codeunits(array, 0, LINE_MAX)
    common = pc.extract_regex(array, _named(pattern.line)).to_pylist() if pattern.line else None
    found: dict[int, dict[str, Any]] = {}
    unmatched = list(range(len(lines)))
    for event in pattern.events:
        matches = pc.extract_regex(array.take(pa.array(unmatched, pa.int64())), _named(event.match)).to_pylist()
        for place, match in zip(unmatched, matches, strict=True):
            if match is not None:
                of_line = (common[place] or {}) if common is not None else {}
                matched = {name: text for name, text in {**of_line, **match}.items() if text}
                found[place] = {"event": event.event, **matched}
        unmatched = [place for place in unmatched if place not in found]
    times = _times([groups.get("time") for groups in found.values()], pattern.time)
    rows, rejected = [], 0
    for (place, groups), time_ns in zip(found.items(), times, strict=True):
        row = _row(groups, time_ns, pattern)
        if row is None:
            rejected += 1
            continue
        who = groups.get("instance") or pattern.instance or Path(files[place]).name
        rows.append({"status": MATCHED, "n": 1, "file": files[place], "line": place, "instance": who, **row})
    counts = ((REJECTED, rejected), (UNMATCHED, len(unmatched)), (CUT, cut))
    return rows + [{"status": status, "n": n} for status, n in counts if n]


def is_time_format(form: str) -> bool:
    """Returns whether a strptime format is usable: whether it can parse a time that was formatted with it."""
    try:
        written = datetime.now(UTC).strftime(form)
        return "%" in form and _times([written], form) != [None]
    except (ValueError, TypeError, KeyError):
        return False


def _times(texts: Sequence[str | None], form: str) -> list[int | None]:
    """Returns each text as nanoseconds since 1970, or None if it is not a time in this format."""
    import pandas as pd

    if form in EPOCHS:
        numbers = (_number(text) for text in texts)
        return [None if n is None or n * EPOCHS[form] >= 1 << 63 else n * EPOCHS[form] for n in numbers]
    found = pd.to_datetime(pd.Series(list(texts), dtype="str"), format=form, errors="coerce", utc=True)
    # 64-bit nanoseconds cover the years 1677 to 2262.
    return [None if pd.isna(time) or not 1678 <= time.year <= 2261 else int(time.value) for time in found]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) <= 18 else None


def _row(groups: dict[str, Any], time_ns: int | None, pattern: LogPattern) -> dict[str, Any] | None:
    """Returns the fields of an event. Returns None if a required field is missing, or if a field is invalid."""
    kind = groups["event"].lower()
    numbers = {name: _number(groups.get(name)) for name in NUMBERS}
    if time_ns is None or kind not in KINDS:
        return None
    if any(groups.get(name) and numbers[name] is None for name in NUMBERS):
        return None
    if (numbers.get("partition") or 0) >= 1 << 31:
        return None
    row: dict[str, Any] = {"time_ns": time_ns, "event": kind, "topic": groups.get("topic"), **numbers}
    if kind in OF_PARTITIONS:
        row["partitions"] = _partitions(groups, pattern.each)
        row["topic"] = row["partition"] = None
        return row if row["partitions"] is not None else None
    if kind in OF_OFFSET | OF_RANGE and (row["topic"] is None or row["partition"] is None):
        return None
    if kind in OF_OFFSET and row["offset"] is None:
        row["offset"] = None if row["last"] is None else row["last"] + 1
    if kind in OF_OFFSET and row["offset"] is None:
        return None
    if kind in OF_RANGE and (row["first"] is None or row["last"] is None or row["last"] < row["first"]):
        return None
    return row if kind != GENERATION or row["generation"] is not None else None


def _partitions(groups: dict[str, Any], each: str) -> list[list[str]] | None:
    if groups.get("topic") and groups.get("partition"):
        return [[groups["topic"], groups["partition"]]]
    if "partitions" not in groups:
        return []  # an empty list is valid
    parts = [part for part in groups["partitions"].strip("[]{}() ").split(",") if part.strip()]
    found = pc.extract_regex(pa.array(parts, pa.string()), _named(each)).to_pylist()
    return None if None in found else [[one["topic"], one["partition"]] for one in found]


# --- in Spark -----------------------------------------------------------------------------------------


def read(spark: Any, files: Sequence[Path], pattern: LogPattern) -> Any:
    """Returns the events in the files and the counts of other lines, as a data frame with the rows of `parsed`."""
    from pyspark.sql import functions as F

    from checker.pipeline.tables import escaped

    lines = spark.read.text([escaped(file) for file in files])
    named = lines.select("value", F.col("_metadata.file_path").alias("file"))
    return named.mapInArrow(partial(_task, pattern=pattern), FORM)


def _task(batches: Iterator[pa.RecordBatch], pattern: LogPattern) -> Iterator[pa.RecordBatch]:
    form = arrow_form()
    before = 0
    for batch in batches:
        lines, files = (batch.column(name).to_pylist() for name in ("value", "file"))
        rows = parsed(lines, files, pattern)
        for row in rows:
            if row["status"] == MATCHED:
                row["line"] += before
        before += len(lines)
        yield pa.RecordBatch.from_pylist(rows, schema=form)


def arrow_form() -> pa.Schema:
    """Returns FORM as an Arrow schema."""
    kinds = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32()}
    kinds["array<array<string>>"] = pa.list_(pa.list_(pa.string()))
    return pa.schema([(name, kinds[kind]) for name, kind in (part.split() for part in FORM.split(", "))])


def events(rows: Any) -> Any:
    """Converts the events in a data frame with the schema FORM to lines of the kind checker.pipeline.tables.EVENT.

    The name of their run is "". A generation applies to the following events of an instance, until another generation
    is logged. Each `started` of an instance begins a new incarnation.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    until = Window.partitionBy("instance").orderBy("time_ns", "line").rowsBetween(Window.unboundedPreceding, 0)
    started = F.sum((F.col("event") == "started").cast("bigint")).over(until)
    return (
        rows.where(F.col("status") == MATCHED)
        .withColumn("run", F.lit(""))
        .withColumn("incarnation", F.coalesce(started, F.lit(0)).cast("bigint"))
        .withColumn("generation", F.last("generation", ignorenulls=True).over(until))
        .where(F.col("event") != GENERATION)
        .drop("status", "n", "file")
    )
