"""Checks a run in an object store. The Spark tasks read from the store and write to it (`checker.tables.remote_run`).

The Spark driver has only a copy of the run without history and tables. From what the tasks return, the driver joins
small tables, time series and witnesses, and computes the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from checker.tables import join_segments, make_tables, remote_run, schema
from checker.tables.buckets_of_a_history import Source, on_disk
from checker.tables.read_history import identity, require_all
from checker.tables.remote_run import TABLES, RemoteRun
from checker.tables.storage import UPLOAD
from checker.verdict.results import PARTS
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import BadHistory, BadInput

LOCAL_ONLY = frozenset({"pipeline", "offsets"})  # Spark's own readers open these files
Judge = Callable[[Source, CheckOptions], Result]


def check(
    run: Path, remote: RemoteRun, options: CheckOptions, progress: Callable[[str], None], spark: Any, judge: Judge
) -> Result:
    """Returns the verdict on a run in a store. Makes its tables first if they are missing, outdated or damaged.

    run  this machine's copy of the run, with the metadata of the tables but without history and tables

    Afterwards, `remote.files` lists the files of the tables. Raises BadHistory, BadInput, Missing.
    """
    if needing := sorted(LOCAL_ONLY & {*options.checks}):
        raise BadInput(
            f"{remote.uri}: the check {needing[0]!r} cannot read from an object store on a cluster; "
            "use --spark-master local[N]"
        )
    with remote_run.using(remote, run):
        require_all(Path(remote.uri) / "history", [Path(name) for name in remote.below("history")])
        meta = _ready(run, remote, options.buckets, spark)
        if meta is not None:
            try:
                return judge(on_disk(run, remote.tables, cut_off(run, meta), spark, remote), options)
            except make_tables.DamagedTables:
                progress("the tables are damaged; making them again from the history")
        meta = _made(run, remote, options.buckets, progress, spark)
        return judge(on_disk(run, remote.tables, cut_off(run, meta), spark, remote), options)


def cut_off(run: Path, meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the metadata of a run's tables. If the run is a part of an upload, the history counts as truncated."""
    if not (run / UPLOAD).is_file():
        return meta
    last = meta["sources"][-1][0]
    return {**meta, "truncated": f"the run's upload has not finished: it ends with the segment {last}"}


def _identity(path: Path) -> list[Any]:
    return identity(remote_run.local(path))


def _ready(run: Path, remote: RemoteRun, buckets: int | None, spark: Any) -> Mapping[str, Any] | None:
    """Returns the metadata of the tables in the store. Returns None if the tables are missing or do not match."""

    def complete(files: Mapping[str, int]) -> bool:
        found = remote.files
        return all((entry := found.get(f"{TABLES}/{name}")) and entry.size == files[name] for name in files)

    meta = make_tables.read_meta(run / TABLES, complete)
    if meta is None or meta["schema"] != schema.SCHEMA or (buckets and meta["buckets"] != buckets):
        return None
    _keep_only(remote, meta)
    same = remote_run.spread(spark, remote, _identity, remote.paths("history")) == meta["sources"]
    return meta if same else None


def _keep_only(remote: RemoteRun, meta: Mapping[str, Any]) -> None:
    """Removes from `remote.files` all table files that do not belong to the tables with this metadata."""
    own = {f"{TABLES}/{name}" for name in (*meta["files"], make_tables.META)}
    for name in remote.below(TABLES):
        if name not in own:
            del remote.files[name]


def _made(
    run: Path, remote: RemoteRun, buckets: int | None, progress: Callable[[str], None], spark: Any
) -> Mapping[str, Any]:
    """Makes the tables and returns their metadata.

    If the tasks cannot convert the segments independently of each other, this process copies all segments to this
    machine and converts them.
    """
    for name in (*remote.below(TABLES), *remote.below(PARTS)):
        del remote.files[name]
    if not _in_tasks(run, remote, buckets, progress, spark):
        for path in remote.paths("history"):
            remote_run.local(path)
        make_tables.make(run, run / TABLES, buckets, progress)
    meta: dict[str, Any] = orjson.loads((run / TABLES / make_tables.META).read_bytes())
    _share(run, remote, [f"{TABLES}/{name}" for name in (*meta["files"], make_tables.META)])
    _keep_only(remote, meta)
    return meta


def _in_tasks(run: Path, remote: RemoteRun, buckets: int | None, progress: Callable[[str], None], spark: Any) -> bool:
    """Lets tasks make the tables. Returns False if that is not possible, or if the history has a defect.

    `make_tables.make` then finds the defect again, and reports it.
    """
    try:
        return join_segments.make_remote(remote, run / TABLES, buckets, progress, spark)
    except BadHistory:
        return False


def _share(run: Path, remote: RemoteRun, names: Sequence[str]) -> None:
    """Uploads those files of the tables that this process made, for the tasks that follow."""
    remote.share(run, [name for name in names if name not in remote.files])
