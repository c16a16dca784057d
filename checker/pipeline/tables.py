"""What pipeline runs leave, as DataFrames: of one run folder, or of many in one job.

Every table has a column `run`, the folder. A line that is no JSON, or lacks what it must have, is rejected
and counted; a last line that its writer did not finish is none, but in files that are written as a whole.
The files are those of docs/use/pipelines.md.
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
_READ: Final = (
    "side string, topic string, partition int, offset bigint, id bigint, key bigint, n bigint, "
    "instance string, incarnation bigint, generation bigint, committed boolean, time_ns bigint, "
    "end boolean, ends map<string,bigint>, caught_up boolean"
)
_SENT: Final = "id bigint, key bigint, topic string, partition int, offset bigint, outcome string, time_ns bigint"
_EVENT: Final = (
    "time_ns bigint, instance string, incarnation bigint, generation bigint, event string, "
    "partitions array<array<string>>, topic string, partition int, offset bigint, "
    "first bigint, last bigint, count bigint, gaps bigint"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: where it is, its columns, and what every line must have.

    whole  it is written as a whole: a last line that breaks off is damage
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
    """What one run says of itself.

    mode, transform  as in pipeline.json; empty when it cannot be used
    committed        (topic, partition) -> the group's committed offset at the end
    readers          how many files the final reading leaves; 0 where that is not said
    wrong            why a part of it cannot be used, each a sentence
    """

    mode: str = ""
    transform: str = ""
    mistake: str | None = None
    committed: Mapping[tuple[str, int], int] = field(default_factory=dict)
    readers: int = 0
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Lines that can be used; how many lines of each run cannot, and how many files there are.

    held  what is persisted: to be forgotten, or another reading of the same paths would find it again
    """

    rows: Any
    cached: Any
    rejected: Mapping[str, int]
    files: Mapping[str, int]


def read(spark: Any, runs: Sequence[Path], kind: Kind) -> Table:
    """All lines of one kind, with `run`, and `line`: in the order of each file. Kept until `forget`.

    Raises BadHistory for what is no regular file, which would be read for ever.
    """
    from pyspark.sql import functions as F

    files = {run: sorted(run.glob(kind.pattern)) for run in runs}
    for path in (path for paths in files.values() for path in paths):
        if not path.is_file():
            raise BadHistory(f"{path}: not a regular file; what a pipeline's run recorded is in regular files only")
    found = [(run, paths) for run, paths in files.items() if paths]
    form = f"{kind.columns}, {_CORRUPT} string"
    if not found:
        empty = spark.createDataFrame([], f"{form}, run string, line bigint")
        return Table(empty.drop(_CORRUPT), empty, {}, {})
    # A task per file would be many, of which each does little.
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
    """The lines of files, with the run that each is of and where in its file it stands."""
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
    """A path that Spark does not take for a pattern."""
    return "file:" + "".join(f"\\{c}" if c in "{}[]*?\\" else c for c in str(path.resolve()))


def _torn(path: Path) -> int:
    """1 if the last line of a file was not finished and is no JSON."""
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
    """Let go of what `persist` holds."""
    for table in tables:
        table.unpersist()


def joined(tables: Sequence[Any]) -> Any:
    """The rows of all of them, by the names of columns."""
    return reduce(lambda one, other: one.unionByName(other), tables)


# --- what a run says of itself ------------------------------------------------------------------------


def setting(run: Path) -> Setting:
    """From pipeline.json and committed.json. What is wrong with them is said, never raised."""
    wrong: list[str] = []
    about = _object(run / "pipeline" / "pipeline.json", wrong)
    committed = _object(run / "pipeline" / COMMITTED, wrong)
    mode, transform = about.get("mode"), about.get("transform")
    if about and mode not in MODES:
        wrong.append(f"pipeline/pipeline.json: mode {str(mode)[:40]!r} is none of {', '.join(sorted(MODES))}")
        mode = ""
    if about and about.get("schema", 1) != 1:
        wrong.append(f"pipeline/pipeline.json has schema {str(about['schema'])[:20]}; this checker reads 1")
    if about and transform not in TRANSFORMS:
        known = ", ".join(TRANSFORMS)
        wrong.append(f"pipeline/pipeline.json: transform {str(transform)[:40]!r} is none of {known}")
        transform = ""
    mistake, readers = about.get("mistake"), about.get("readers")
    return Setting(
        str(mode or ""),
        str(transform or ""),
        None if mistake is None else str(mistake),
        _offsets(committed.get("offsets"), wrong) if committed else {},
        readers if isinstance(readers, int) else 0,
        tuple(wrong),
    )


def _object(path: Path, wrong: list[str]) -> dict[str, Any]:
    name = f"pipeline/{path.name}"
    if path.exists() and not path.is_file():
        wrong.append(f"{name} is no regular file")
        return {}
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        wrong.append(f"{name} cannot be read ({error.strerror}): the run did not come to its end")
        return {}
    except orjson.JSONDecodeError as error:
        wrong.append(f"{name} is no JSON ({error.msg})")
        return {}
    if not isinstance(found, dict):
        wrong.append(f"{name} is not an object")
        return {}
    return found


def place(text: str) -> tuple[str, int] | None:
    """(topic, partition) of "topic/partition"; None when it is none."""
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
        elif offset >= 0:  # the client library's way to say that there is none is below 0
            found[at] = offset
    return found
