"""Reads the files of pipeline runs as data frames: the files of one run folder, or of many run folders in one job.

Every table has a column `run`, with the path of the run folder. A line that is not JSON or lacks a required field is
rejected and counted. An unfinished last line is ignored, except in files that are written in one go. The files are
described in docs/use/pipelines.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Final

import orjson

from checker.anomalies.pipeline_modes import MODES
from harness.model.errors_and_exit_codes import BadHistory
from harness.model.transforms import TRANSFORMS

_CORRUPT: Final = "_corrupt"
_TAIL: Final = 1 << 20
TASKS_PER_CORE: Final = 2
COMMITTED: Final = "committed.json"
STATES: Final = ("count", "sum", "last")
_READ: Final = (
    "side string, topic string, partition int, offset bigint, id bigint, key bigint, n bigint, "
    "instance string, incarnation bigint, generation bigint, committed boolean, time_ns bigint, "
    "state string, end boolean, ends map<string,bigint>, caught_up boolean"
)
_SENT: Final = "id bigint, key bigint, topic string, partition int, offset bigint, outcome string, time_ns bigint"
_EVENT: Final = (
    "time_ns bigint, instance string, incarnation bigint, generation bigint, event string, "
    "partitions array<array<string>>, topic string, partition int, offset bigint, "
    "first bigint, last bigint, count bigint, gaps bigint"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: its path, its columns, and the condition that every line must satisfy.

    whole  whether the file is written in one go, so that an unfinished last line means damage
    """

    pattern: str
    columns: str
    needed: str
    whole: bool = False


READ: Final = Kind(
    "pipeline/read-*.jsonl",
    _READ,
    "(end and ends is not null and caught_up is not null) or "
    "(side = 'input' and topic is not null and partition >= 0 and offset >= 0) or "
    "(side = 'output' and topic is not null and partition >= 0 and offset >= 0)",
)
SENT: Final = Kind(
    "pipeline/sent-*.jsonl",
    _SENT,
    "id is not null and key is not null and topic is not null and partition is not null "
    "and outcome in ('ok', 'info', 'fail')",
    whole=True,
)
EVENT: Final = Kind(
    "events/instance-*.jsonl",
    _EVENT,
    "time_ns is not null and instance is not null and incarnation is not null and event is not null and ("
    "(event in ('assigned', 'revoked', 'lost') and partitions is not null) or "
    "(event in ('position', 'committed') and topic is not null and partition >= 0 and offset >= 0) or "
    "(event in ('polled', 'buffered', 'dropped', 'produced') and topic is not null and partition >= 0 "
    "and first >= 0 and last >= first) or "
    "event in ('aborted', 'paused', 'resumed', 'started', 'closed'))",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """The settings and final state of one run.

    mode       the pipeline's mode, from pipeline.json; empty if invalid
    transform  the pipeline's transform, from pipeline.json; empty if invalid
    mistake    the deliberate mistake that was switched on in the pipeline; None: no mistake
    committed  (topic, partition) -> the group's committed offset at the end
    readers    how many files the final reading writes; 0 if unknown
    outputs    the number of outputs of each input record, for an application of the user; None: our pipeline
    state      what the state that an application shows must be: count, sum or last; None: it shows none
    wrong      sentences that describe the problems in pipeline.json and committed.json
    """

    mode: str = ""
    transform: str = ""
    mistake: str | None = None
    committed: Mapping[tuple[str, int], int] = field(default_factory=dict)
    readers: int = 0
    outputs: int | None = None
    state: str | None = None
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The usable lines of one kind of file.

    rows      the lines, as a data frame
    cached    the data frame that Spark has cached; it must be released by `forget`, or another reading of the same
              paths would find the old content
    rejected  run -> number of lines that cannot be used
    files     run -> number of files
    """

    rows: Any
    cached: Any
    rejected: Mapping[str, int]
    files: Mapping[str, int]


def read(spark: Any, runs: Sequence[Path], kind: Kind) -> Table:
    """Reads all files of one kind in the run folders. Spark caches the lines until `forget` is called.

    The column `run` contains the run folder. The column `line` contains numbers that ascend within each file. Raises
    BadHistory for a path that is not a regular file, because reading it might never end.
    """
    from pyspark.sql import functions as F

    files = {run: sorted(run.glob(kind.pattern)) for run in runs}
    for path in (path for paths in files.values() for path in paths):
        if not path.is_file():
            raise BadHistory(f"{path}: not a regular file; the files of a pipeline run must be regular files")
    found = [(run, paths) for run, paths in files.items() if paths]
    form = f"{kind.columns}, {_CORRUPT} string"
    if not found:
        empty = spark.createDataFrame([], f"{form}, run string, line bigint")
        return Table(empty.drop(_CORRUPT), empty, {}, {})
    # One task per file would be too many small tasks.
    few = _lines(spark, found, form).coalesce(TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    raw = few.withColumn("line", F.monotonically_increasing_id()).persist()
    good = F.col(_CORRUPT).isNull() & F.coalesce(F.expr(kind.needed), F.lit(False))
    counted = raw.where(~good).groupBy("run").count().collect()
    torn = {} if kind.whole else {str(run): sum(map(_torn, paths)) for run, paths in found}
    rejected = {row["run"]: row["count"] - torn.get(row["run"], 0) for row in counted}
    return Table(
        raw.where(good).drop(_CORRUPT),
        raw,
        {run: count for run, count in rejected.items() if count > 0},
        {str(run): len(paths) for run, paths in found},
    )


def _lines(spark: Any, found: Sequence[tuple[Path, Sequence[Path]]], form: str) -> Any:
    """Returns the lines of the files, with a column `run`. `found`: (run, its files); `form`: schema of the lines."""
    from pyspark.sql import functions as F

    reader = spark.read.schema(form).option("columnNameOfCorruptRecord", _CORRUPT)
    if len(found) == 1:
        run, paths = found[0]
        return reader.json([escaped(path) for path in paths]).withColumn("run", F.lit(str(run)))
    lines = reader.json([escaped(path) for _, paths in found for path in paths])
    place = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))
    run = F.regexp_extract(place, r"^file:/*(/.*)/(?:pipeline|events)/[^/]*$", 1)
    return lines.withColumn("run", run)


def escaped(path: Path) -> str:
    """Returns the path as a URL in which special characters are escaped, because Spark interprets paths as patterns."""
    return "file:" + "".join(f"\\{c}" if c in "{}[]*?\\" else c for c in str(path.resolve()))


def _torn(path: Path) -> int:
    """Returns 1 if the last line of a file is unfinished and not JSON, else 0."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        last = file.read().rsplit(b"\n", 1)[-1]
    if not last.strip():
        return 0
    try:
        orjson.loads(last)
    except orjson.JSONDecodeError:
        return 1
    return 0


def forget(*tables: Any) -> None:
    """Removes data frames, such as `Table.cached`, from Spark's cache."""
    for table in tables:
        table.unpersist()


def joined(tables: Sequence[Any]) -> Any:
    """Returns the union of the tables, by column name."""
    return reduce(lambda one, other: one.unionByName(other), tables)


# --- the settings of a run ----------------------------------------------------------------------------


def setting(run: Path) -> Setting:
    """Returns the settings in pipeline.json and committed.json. Raises nothing: problems are described in `wrong`."""
    wrong: list[str] = []
    content = _object(run / "pipeline" / "pipeline.json", wrong)
    committed = _object(run / "pipeline" / COMMITTED, wrong)
    mode, transform = content.get("mode"), content.get("transform")
    if content and mode not in MODES:
        wrong.append(
            f"pipeline/pipeline.json: mode {str(mode)[:40]!r} is unknown; must be one of {', '.join(sorted(MODES))}"
        )
        mode = ""
    if content and content.get("schema", 1) != 1:
        wrong.append(f"pipeline/pipeline.json has schema {str(content['schema'])[:20]}; this checker reads 1")
    if content and transform not in TRANSFORMS:
        transforms = ", ".join(TRANSFORMS)
        wrong.append(
            f"pipeline/pipeline.json: transform {str(transform)[:40]!r} is unknown; must be one of {transforms}"
        )
        transform = ""
    mistake, readers, application = (content.get(name) for name in ("mistake", "readers", "application"))
    return Setting(
        str(mode or ""),
        str(transform or ""),
        None if mistake is None else str(mistake),
        _offsets(committed.get("offsets"), wrong) if committed else {},
        readers if isinstance(readers, int) else 0,
        _outputs(application, wrong),
        _state(application, wrong),
        tuple(wrong),
    )


def _outputs(application: Any, wrong: list[str]) -> int | None:
    """Returns the number of outputs of each input record of an application; None if the pipeline is ours.

    Appends a sentence to `wrong` if the number is invalid.
    """
    if application is None:
        return None
    outputs = application.get("outputs") if isinstance(application, dict) else None
    if type(outputs) is not int or outputs < 1:
        wrong.append("pipeline/pipeline.json: application.outputs must be a whole number from 1")
        return 1
    return outputs


def _state(application: Any, wrong: list[str]) -> str | None:
    """Returns what the state of an application must be; None if it shows none."""
    state = application.get("state") if isinstance(application, dict) else None
    if state is None or state in STATES:
        return state
    wrong.append(f"pipeline/pipeline.json: application.state must be one of {', '.join(STATES)}")
    return None


def _object(path: Path, wrong: list[str]) -> dict[str, Any]:
    name = f"pipeline/{path.name}"
    if path.exists() and not path.is_file():
        wrong.append(f"{name} is not a regular file")
        return {}
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        wrong.append(f"{name} cannot be read ({error.strerror}): the run did not finish")
        return {}
    except orjson.JSONDecodeError as error:
        wrong.append(f"{name} is not JSON ({error.msg})")
        return {}
    if not isinstance(found, dict):
        wrong.append(f"{name} is not a JSON object")
        return {}
    return found


def place(text: str) -> tuple[str, int] | None:
    """Returns (topic, partition) of "topic/partition"; None if it is malformed."""
    topic, slash, partition = text.rpartition("/")
    return (topic, int(partition)) if slash and topic and partition.isdecimal() else None


def _offsets(data: Any, wrong: list[str]) -> dict[tuple[str, int], int]:
    if not isinstance(data, dict):
        wrong.append(f"pipeline/{COMMITTED} has no offsets")
        return {}
    found: dict[tuple[str, int], int] = {}
    for name, offset in data.items():
        at = place(name)
        if at is None or type(offset) is not int:
            wrong.append(f"pipeline/{COMMITTED}: {name[:60]!r} is not an offset of a topic/partition")
        elif offset >= 0:  # the client library reports a missing offset as a negative number
            found[at] = offset
    return found
