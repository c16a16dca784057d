"""The public entry: from the path of a history to a verdict.

A path is a run folder (history/*.jsonl in it), or one history file: `*.jsonl`, or Jepsen's `*.edn`, plain or
gzipped. `check` works through Spark and leaves tables/ and results/ in a run folder (beside nothing else);
`check_plain` does the same in this process; `check_many` judges many small histories in one Spark job.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from checker import ingest
from checker.checks.table import CHECKS
from checker.source import Source, in_memory, on_disk
from harness.model.errors import BadHistory, BadInput, HarnessError
from harness.model.options import CheckOptions
from harness.model.result import Result, from_data, to_data, worst

MANY_PER_TASK = 16


def _nothing(text: str) -> None:
    """Progress that nobody reads."""


def judge(source: Source, options: CheckOptions) -> Result:
    """Every check that the options name; the worst verdict wins. Raises BadInput for an unknown one."""
    results = []
    for name in options.checks:
        if name not in CHECKS:
            raise BadInput(f"check {name!r} is not known; one of {', '.join(CHECKS)}")
        results.append(CHECKS[name](source, options))
    if len(results) == 1:
        return results[0]
    found = [anomaly for result in results for anomaly in result.anomalies]
    statistics: dict[str, Any] = {}
    for result in results:
        statistics.update(result.statistics)
    answers = {result.promised for result in results if result.valid == "invalid"}
    return Result(
        worst(*(result.valid for result in results)),
        True if True in answers else None if None in answers or not answers else False,
        tuple(reason for result in results for reason in result.reasons),
        tuple(sorted(found, key=lambda anomaly: not anomaly.bad)),
        statistics,
        results[0].checker_version if results else "",
    )


def _run_folder(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _judge_run(run: Path, options: CheckOptions, progress: Callable[[str], None], spark: Any) -> Result:
    """A run folder, from the tables that it has, or else from such as are made now."""
    folder = run / "tables"
    meta = ingest.ready(run, folder, options.buckets)
    if meta is not None:
        with suppress(ingest.DamagedTables):
            return judge(on_disk(run, folder, meta, spark), options)
        progress("the tables are damaged: they are made again from the history")
    meta = ingest.make(run, folder, options.buckets, progress)
    return judge(on_disk(run, folder, meta, spark), options)


def check(spark: Any, path: Path, options: CheckOptions, progress: Callable[[str], None] = print) -> Result:
    """The verdict, through Spark.

    Tables are made where they are missing, damaged, or not those of the history as it is now. Raises
    BadHistory when the content cannot be used, BadInput for unknown checks, Missing when the run folder
    cannot be written.
    """
    run = _run_folder(Path(path))
    if run is not None:
        return _judge_run(run, options, progress, spark)
    with tempfile.TemporaryDirectory(prefix="harness-tables-") as folder:
        meta = ingest.make(Path(path), Path(folder) / "tables", options.buckets, progress)
        return judge(on_disk(None, Path(folder) / "tables", meta, spark), options)


def check_plain(path: Path, options: CheckOptions, progress: Callable[[str], None] = _nothing) -> Result:
    """The verdict, in this process and without Spark; a single file is held in memory."""
    run = _run_folder(Path(path))
    if run is None:
        return judge(in_memory(ingest.collect(Path(path))), options)
    return _judge_run(run, options, progress, None)


def _judge_file(path: str, options: Sequence[CheckOptions]) -> list[tuple[str, dict[str, Any]]]:
    """One small history in memory, under each of the options: (path, result or error as plain data)."""
    try:
        tables = ingest.collect(Path(path))
        return [(path, to_data(judge(in_memory(tables), each))) for each in options]
    except HarnessError as error:
        return [(path, {"error": str(error), "exit_code": error.exit_code})] * len(options)


def check_many(
    spark: Any, paths: Sequence[Path], options: CheckOptions | Sequence[CheckOptions]
) -> list[tuple[str, Result | dict[str, Any]]]:
    """Many small histories in one Spark job (in this process with spark None), in the order given.

    Each is (path, Result), or (path, {"error", "exit_code"}) where its content cannot be used; with several
    options, each history answers once per option. Histories are read where the task runs and held in memory
    one at a time.
    """
    each = (options,) if isinstance(options, CheckOptions) else tuple(options)
    texts = [str(path) for path in paths]
    task = partial(_judge_file, options=each)
    if spark is None or not texts:
        found = [answer for text in texts for answer in task(text)]
    else:
        slices = max(1, min(len(texts), len(texts) // MANY_PER_TASK or spark.sparkContext.defaultParallelism))
        found = spark.sparkContext.parallelize(texts, slices).flatMap(task).collect()
    return [(path, data if "error" in data else from_data(data)) for path, data in found]


__all__ = ["BadHistory", "check", "check_many", "check_plain", "judge"]
