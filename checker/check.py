"""The public entry: from the path of a history to a verdict.

A path is a run folder (history/*.jsonl in it), a Parquet folder (`checker.tables.parquet_folder`), or one history file:
`*.jsonl`, or Jepsen's `*.edn`, plain or gzipped. `check` works through Spark and leaves tables/ and results/
in a run folder (beside nothing else); `check_plain` does the same in this process; `check_many` judges many
small histories in one Spark job, each under the same options, and `check_each` each under its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from checker.checks.table import CHECKS
from checker.tables import join_segments, make_tables, parquet_folder
from checker.tables.buckets_of_a_history import Source, in_memory, on_disk
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, from_data, to_data, worst
from harness.model.errors_and_exit_codes import EXIT_CRASH, BadHistory, BadInput, HarnessError

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
    meta = make_tables.ready(run, folder, options.buckets)
    if meta is not None:
        with suppress(make_tables.DamagedTables):
            return judge(on_disk(run, folder, meta, spark), options)
        progress("the tables are damaged: they are made again from the history")
    meta = join_segments.make(run, folder, options.buckets, progress, spark)
    return judge(on_disk(run, folder, meta, spark), options)


def _judge_tables(folder: Path, options: CheckOptions, spark: Any) -> Result:
    """A Parquet folder, of which nothing can be made again."""
    try:
        return judge(parquet_folder.source(folder, spark), options)
    except make_tables.DamagedTables as error:
        message = str(error).removesuffix("; remove the folder and check again")
        raise BadHistory(f"{message}; {parquet_folder.AGAIN}") from None


def check(spark: Any, path: Path, options: CheckOptions, progress: Callable[[str], None] = print) -> Result:
    """The verdict, through Spark.

    Tables are made where they are missing, damaged, or not those of the history as it is now. Raises
    BadHistory when the content cannot be used, BadInput for unknown checks, Missing when the run folder
    cannot be written.
    """
    if parquet_folder.is_tables(Path(path)):
        return _judge_tables(Path(path), options, spark)
    run = _run_folder(Path(path))
    if run is not None:
        return _judge_run(run, options, progress, spark)
    with tempfile.TemporaryDirectory(prefix="harness-tables-") as folder:
        meta = make_tables.make(Path(path), Path(folder) / "tables", options.buckets, progress)
        return judge(on_disk(None, Path(folder) / "tables", meta, spark), options)


def check_plain(path: Path, options: CheckOptions, progress: Callable[[str], None] = _nothing) -> Result:
    """The verdict, in this process and without Spark; a single file is held in memory."""
    if parquet_folder.is_tables(Path(path)):
        return _judge_tables(Path(path), options, None)
    run = _run_folder(Path(path))
    if run is None:
        return judge(in_memory(make_tables.collect(Path(path))), options)
    return _judge_run(run, options, progress, None)


Job = tuple[str, tuple[CheckOptions, ...]]
Answer = tuple[str, Result | dict[str, Any]]


def _judge_small(job: Job) -> list[tuple[str, dict[str, Any]]]:
    """One small history in memory, under each of the options: (path, result or error as plain data).

    Whatever goes wrong with one history is said of that one, and the others are judged.
    """
    path, options = job
    try:
        if parquet_folder.is_tables(Path(path)):
            return [(path, to_data(_judge_tables(Path(path), each, None))) for each in options]
        source = in_memory(make_tables.collect(Path(path)))
        noted = replace(source, noted=_run_folder(Path(path)))
        return [(path, to_data(judge(noted, each))) for each in options]
    except HarnessError as error:
        failure: dict[str, Any] = {"error": str(error), "exit_code": error.exit_code}
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        failure = {
            "error": f"{path}: the checker crashed: {type(error).__name__}: {first}",
            "exit_code": EXIT_CRASH,
        }
    return [(path, failure)] * len(options)


def _in_one_job(spark: Any, jobs: Sequence[Job]) -> list[Answer]:
    """All of them, in the order given; in this process with spark None."""
    if spark is None or not jobs:
        found = [answer for job in jobs for answer in _judge_small(job)]
    else:
        slices = max(1, min(len(jobs), len(jobs) // MANY_PER_TASK or spark.sparkContext.defaultParallelism))
        found = spark.sparkContext.parallelize(jobs, slices).flatMap(_judge_small).collect()
    return [(path, data if "error" in data else from_data(data)) for path, data in found]


def check_many(spark: Any, paths: Sequence[Path], options: CheckOptions | Sequence[CheckOptions]) -> list[Answer]:
    """Many small histories in one Spark job (in this process with spark None), in the order given.

    Each is (path, Result), or (path, {"error", "exit_code"}) where its content cannot be used; with several
    options, each history answers once per option. Histories are read where the task runs and held in memory
    one at a time.
    """
    each = (options,) if isinstance(options, CheckOptions) else tuple(options)
    return _in_one_job(spark, [(str(path), each) for path in paths])


def is_small(path: Path) -> bool:
    """Whether one task may hold a history file in memory."""
    return path.is_file() and make_tables.buckets_for([path]) == 1


def check_each(
    spark: Any,
    items: Sequence[tuple[Path, CheckOptions]],
    progress: Callable[[str], None] = _nothing,
) -> Iterator[Answer]:
    """Histories, each under its own options, in the order given.

    Small files share one Spark job. Large ones, run folders and Parquet folders are judged by `check`, one
    after another, when their turn comes: the work of each is spread by itself. What cannot be used is
    (path, {"error", "exit_code"}). Raises Missing when a run folder cannot be written.
    """
    small = [(str(path), (options,)) for path, options in items if is_small(path)]
    answers = iter(_in_one_job(spark, small))
    for path, options in items:
        if is_small(path):
            yield next(answers)
            continue
        try:
            yield str(path), check(spark, path, options, progress)
        except BadHistory as error:
            yield str(path), {"error": str(error), "exit_code": error.exit_code}


__all__ = ["BadHistory", "check", "check_each", "check_many", "check_plain", "judge"]
