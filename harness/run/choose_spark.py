"""Decides whether a check is worth the start of a Spark session: `--spark-master auto`.

A session starts in about START_S, and this process checks most histories in less. The decision compares the estimated
time in this process with the estimated time on all cores after the start of Spark. Both ways give the same results.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.model.check_options import CheckOptions
from harness.model.errors_and_exit_codes import BadHistory
from harness.run import spark
from harness.stored import staged_runs

START_S: Final = 10.0
CONVERT_S_PER_BYTE: Final = 40e-9  # text to tables
JUDGE_S_PER_OP: Final = 4e-6
BYTES_PER_OP: Final = 200  # its two lines
ON_SPARK: Final = frozenset({"pipeline", "offsets"})  # checks that are `unknown` without Spark
PARTS: Final = ("history", "pipeline", "events")  # folders of a run that checks read


@dataclass(frozen=True, slots=True)
class Work:
    """The size of a check.

    bytes     approximate size of the history: of its text, or of the tables if it has been converted
    ops       number of operations; estimated if there are no tables yet
    shared_s  estimated duration in one process of the work that Spark can distribute, in seconds
    single_s  the same for the work that Spark cannot distribute
    """

    bytes: int = 0
    ops: int = 0
    shared_s: float = 0.0
    single_s: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.bytes + other.bytes,
            self.ops + other.ops,
            self.shared_s + other.shared_s,
            self.single_s + other.single_s,
        )


def bytes_of(path: Path) -> int:
    """Returns roughly how many bytes a check of the history reads."""
    from checker.tables import make_tables, parquet_folder

    if path.is_file():
        return make_tables.size_of([path])
    if parquet_folder.is_tables(path):
        return make_tables.size_of(path.rglob("*.parquet"))
    return make_tables.size_of(one for part in PARTS for one in (path / part).glob("*.jsonl*"))


def work_of(path: Path) -> Work:
    """Estimates the size of the check of one history, which is a run folder, a Parquet folder or a file."""
    size = bytes_of(path)
    ops = _ops_of_tables(path)
    if ops is not None:
        return Work(size, ops, shared_s=ops * JUDGE_S_PER_OP)
    ops = size // BYTES_PER_OP
    judging, converting = ops * JUDGE_S_PER_OP, size * CONVERT_S_PER_BYTE
    if path.is_dir():
        return Work(size, ops, shared_s=judging + converting)
    return Work(size, ops, shared_s=judging, single_s=converting)


def _ops_of_tables(path: Path) -> int | None:
    """Returns the number of operations in a history's tables. Returns None if a check would have to make the tables.

    Compares only the names and sizes of the history's files, because the number need not be exact. Damaged tables are
    ignored here; the check reports them.
    """
    from checker.tables import join_segments, make_tables, parquet_folder, read_history

    if path.is_file():
        return None
    exported = parquet_folder.is_tables(path)
    with suppress(BadHistory, OSError, LookupError, TypeError, ValueError):
        meta = make_tables.read_meta(path if exported else path / "tables")
        if meta is not None and (exported or join_segments.by_size(read_history.sources(path), meta["sources"])):
            return int(meta["ops"])
    return None


def decide(work: Work, cores: int) -> bool:
    """Returns whether Spark is likely to be faster than this process."""
    return START_S + work.single_s + work.shared_s / cores < work.single_s + work.shared_s


def settled(master: str, items: Sequence[tuple[Path, CheckOptions]]) -> tuple[str, str]:
    """Decides which master to use. Returns (master, a sentence that explains the decision).

    A master other than `auto` is returned unchanged, with an empty sentence.

    items  the histories to check, each with its options
    """
    if master != spark.AUTO:
        return master, ""
    needing = sorted({name for path, options in items if path.is_dir() for name in ON_SPARK & {*options.checks}})
    if needing:
        return spark.ALL_CORES, f"checking on Spark: the check {needing[0]} needs it"
    work, cores = sum((work_of(path) for path, _ in items), Work()), len(os.sched_getaffinity(0))
    size = f"{work.ops:,} operations ({work.bytes / 1e6:,.1f} MB)"
    alone = f"about {work.shared_s + work.single_s:,.0f} s"
    if decide(work, cores):
        return spark.ALL_CORES, f"checking on Spark: {size} would take one process {alone}"
    return spark.NONE, f"checking in this process, without Spark: {size} take {alone}, too short for a Spark session"


def session_for(master: str, items: Sequence[tuple[Path, CheckOptions]]) -> tuple[Any, str]:
    """Starts a session if `settled` decides to use Spark. Returns (session or None, the sentence from `settled`)."""
    chosen, why = settled(master, items)
    paths = [str(path.absolute()) for path, _ in items if not staged_runs.is_copy(path)]
    return spark.session_now(chosen, sum(bytes_of(path) for path, _ in items), paths), why
