"""The public functions of the checker: from the path of a history to a verdict.

A path is a run folder (with history/*.jsonl), a Parquet folder (`checker.tables.parquet_folder`), or a single history
file: `*.jsonl`, or Jepsen's `*.edn`, plain or gzipped.

    check        checks one history through Spark; writes tables/ and results/ if the path is a run folder
    check_plain  checks one history in this process, without Spark
    check_many   checks many small histories in one Spark job
    check_each   checks many histories of any size, each under its own options
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from checker import check_in_store
from checker.checks.table import CHECKS
from checker.tables import join_segments, make_tables, parquet_folder
from checker.tables.buckets_of_a_history import Source, in_memory, on_disk
from checker.tables.remote_run import RemoteRun
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result, from_data, to_data, worst
from harness.model.errors_and_exit_codes import EXIT_CRASH, BadHistory, BadInput, HarnessError

MANY_PER_TASK = 16


def _discard(text: str) -> None:
    """Discards a progress message."""


def judge(source: Source, options: CheckOptions) -> Result:
    """Runs the checks named in `options`, on the tables of a history.

    Returns one result for all the checks together, with the worst of their verdicts. Raises BadInput for an unknown
    check.
    """
    results = []
    for name in options.checks:
        if name not in CHECKS:
            raise BadInput(f"check {name!r} is not known; must be one of {', '.join(CHECKS)}")
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


Stored = Mapping[Path, RemoteRun]


def _run_folder(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _judge_run(run: Path, options: CheckOptions, progress: Callable[[str], None], spark: Any) -> Result:
    """Judges a run folder from its tables. Makes the tables first if they are missing, outdated or damaged."""
    folder = run / "tables"
    meta = make_tables.ready(run, folder, options.buckets)
    if meta is not None:
        with suppress(make_tables.DamagedTables):
            return judge(on_disk(run, folder, check_in_store.cut_off(run, meta), spark), options)
        progress("the tables are damaged; making them again from the history")
    meta = join_segments.make(run, folder, options.buckets, progress, spark)
    return judge(on_disk(run, folder, check_in_store.cut_off(run, meta), spark), options)


def _judge_tables(folder: Path, options: CheckOptions, spark: Any) -> Result:
    """Judges a Parquet folder. Its tables cannot be made again, so damage raises BadHistory."""
    try:
        return judge(parquet_folder.source(folder, spark), options)
    except make_tables.DamagedTables as error:
        message = str(error).removesuffix("; remove this folder and run the check again")
        raise BadHistory(f"{message}; {parquet_folder.AGAIN}") from None


def check(
    spark: Any,
    path: Path,
    options: CheckOptions,
    progress: Callable[[str], None] = print,
    remote: RemoteRun | None = None,
) -> Result:
    """Returns the verdict on one history, computed through Spark.

    remote  for a run in an object store, which the Spark tasks read and write; `path` is then this machine's copy of
            the run, without history and tables

    The tables of a run folder are made if they are missing or damaged, or do not match the history. Raises BadHistory
    if the content cannot be used, BadInput for unknown checks, and Missing if the run folder cannot be written.
    """
    if remote is not None:
        return check_in_store.check(path, remote, options, progress, spark, judge)
    if parquet_folder.is_tables(Path(path)):
        return _judge_tables(Path(path), options, spark)
    run = _run_folder(Path(path))
    if run is not None:
        return _judge_run(run, options, progress, spark)
    with tempfile.TemporaryDirectory(prefix="harness-tables-") as folder:
        meta = make_tables.make(Path(path), Path(folder) / "tables", options.buckets, progress)
        return judge(on_disk(None, Path(folder) / "tables", meta, spark), options)


def check_plain(path: Path, options: CheckOptions, progress: Callable[[str], None] = _discard) -> Result:
    """Returns the verdict on one history, computed in this process, without Spark.

    If the path is a single history file, the whole file is loaded into memory. Raises the same errors as `check`.
    """
    if parquet_folder.is_tables(Path(path)):
        return _judge_tables(Path(path), options, None)
    run = _run_folder(Path(path))
    if run is None:
        return judge(in_memory(make_tables.collect(Path(path))), options)
    return _judge_run(run, options, progress, None)


Job = tuple[str, tuple[CheckOptions, ...]]
Answer = tuple[str, Result | dict[str, Any]]


def _judge_small(job: Job) -> list[tuple[str, dict[str, Any]]]:
    """Judges one small history in memory, once under each of the options. A job is (path, options).

    Returns (path, data) for each of the options. The data is a result or an error, as a dict. Exceptions are not raised
    but returned as errors, so that the other histories are still judged.
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
    """Judges histories in one Spark job, or in this process if `spark` is None.

    Returns the answers in the order of `jobs`.
    """
    if spark is None or not jobs:
        found = [answer for job in jobs for answer in _judge_small(job)]
    else:
        slices = max(1, min(len(jobs), len(jobs) // MANY_PER_TASK or spark.sparkContext.defaultParallelism))
        found = spark.sparkContext.parallelize(jobs, slices).flatMap(_judge_small).collect()
    return [(path, data if "error" in data else from_data(data)) for path, data in found]


def check_many(spark: Any, paths: Sequence[Path], options: CheckOptions | Sequence[CheckOptions]) -> list[Answer]:
    """Judges many small histories in one Spark job, or in this process if `spark` is None.

    An answer is (path, Result), or (path, {"error", "exit_code"}) if the content cannot be used. The answers are in the
    order of `paths`. If several options are given, every history is judged under each of them, and there is one answer
    per history and option. Each task reads its histories itself, and holds one history in memory at a time.
    """
    each = (options,) if isinstance(options, CheckOptions) else tuple(options)
    return _in_one_job(spark, [(str(path), each) for path in paths])


def is_small(path: Path) -> bool:
    """Returns whether a history file is small enough for one task to load it into memory."""
    return path.is_file() and make_tables.buckets_for([path]) == 1


def check_each(
    spark: Any,
    items: Sequence[tuple[Path, CheckOptions]],
    progress: Callable[[str], None] = _discard,
    stored: Stored | None = None,
) -> Iterator[Answer]:
    """Judges histories, each under its own options, and yields the answers in the order of `items`.

    stored  for runs in object stores: path of this machine's copy -> the run in the store (see `remote` of `check`)

    Small files share one Spark job. Large files, run folders and Parquet folders are judged one after another by
    `check`, which splits each of them over many Spark tasks. An answer is (path, Result), or (path, {"error",
    "exit_code"}) if the content cannot be used. Raises Missing if a run folder cannot be written.
    """
    small = [(str(path), (options,)) for path, options in items if is_small(path)]
    answers = iter(_in_one_job(spark, small))
    for path, options in items:
        if is_small(path):
            yield next(answers)
            continue
        try:
            yield str(path), check(spark, path, options, progress, (stored or {}).get(path))
        except BadHistory as error:
            yield str(path), {"error": str(error), "exit_code": error.exit_code}


__all__ = ["BadHistory", "check", "check_each", "check_many", "check_plain", "judge"]
