"""Defines `Source`: the history that a check judges, as tables split into buckets by key.

A `Source` runs tasks on its buckets. The tables are in memory or in a folder. If they are in a folder, each task loads
one bucket, either in a Spark worker or, one after another, in this process. The result of a task must be small.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from checker.spark.map_tasks import Item, T
from checker.tables import make_tables, read_tables, remote_run
from checker.tables.columns import Data, Small, visible_info
from checker.tables.packing import Ints, empty
from checker.tables.remote_run import RemoteRun
from checker.tables.schema import BUCKETED, INFO, OK


@dataclass(frozen=True, slots=True)
class Part:
    """A reference to one bucket of a history. A task gets this reference, and loads the bucket itself."""

    number: int
    folder: str
    meta: Mapping[str, Any]
    tables: make_tables.Tables | None = None

    def load(self) -> tuple[Data, Small]:
        """Returns the rows of this bucket, and the other tables that kernels need. Raises BadHistory."""
        if self.tables is not None:
            tables = self.tables
            return Data.of(tables.sends, tables.polls), make_tables.small_of(tables.small, tables.meta)
        return read_tables.load(Path(self.folder), self.number, self.meta)

    def ops(self, *names: str) -> Iterator[pa.Table]:
        """Yields the columns `names` of the table of ops, piece by piece. Raises DamagedTables.

        That table is not split: it has the ops of all buckets.
        """
        if self.tables is not None:
            yield self.tables.ops.select(list(names))
            return
        yield from read_tables.ops_columns(Path(self.folder), *names)

    def stamp(self) -> tuple[str, int, int] | None:
        """Returns a value that changes when the tables are made again; None for tables in memory."""
        return None if self.tables is not None else read_tables.stamp(Path(self.folder))

    def visible_info(self) -> Ints:
        """Returns the ascending ids of the `info` ops that sent a value of this bucket that an `ok` op polled."""
        if self.tables is not None:
            return self.load()[0].visible_info()
        folder = Path(self.folder)
        sends, polls = (partial(read_tables.bucket_columns, folder, kind, self.number) for kind in BUCKETED)
        uncertain = np.flatnonzero(sends("type").column("type").to_numpy() == INFO)
        if len(uncertain) == 0:
            return empty()
        infos = sends("op", "key", "value").take(pa.array(uncertain))
        read = polls("key", "value", "type")
        return visible_info(infos, read.filter(pa.array(read.column("type").to_numpy() == OK)))

    def ops_between(self, low: int, high: int) -> Iterator[pa.Table]:
        """Yields the ops with ids from low to high inclusive, piece by piece.

        They have the columns that the dependency graph needs.
        """
        names = ("index", "invoke_index", "process", "type", "f")
        if self.tables is None:
            yield from read_tables.ops_between(Path(self.folder), low, high, *names)
            return
        index = self.tables.ops.column("index").to_numpy()
        yield self.tables.ops.filter(pa.array((index >= low) & (index <= high)))


@dataclass(frozen=True, slots=True)
class Source:
    """A history as tables.

    run     the run folder, to which results are written; None: no results are written
    parts   a reference to each bucket
    meta    the metadata of the tables: see `checker.tables.make_tables`
    spark   a SparkSession, or None to run tasks in this process
    noted   the folder whose events/ is read if `run` is None; None: no events are read
    remote  the run in an object store that tasks read and write; `run` is then this machine's copy of a part of it
    """

    run: Path | None
    parts: tuple[Part, ...]
    meta: Mapping[str, Any]
    spark: Any = None
    noted: Path | None = None
    remote: RemoteRun | None = None

    def map(self, task: Callable[[Part], T]) -> list[T]:
        """Runs the task on every bucket, and returns the results in the order of the buckets; see `spread`."""
        return self.spread(task, self.parts)

    @property
    def cores(self) -> int:
        """The number of tasks that run at the same time."""
        return 1 if self.spark is None else int(self.spark.sparkContext.defaultParallelism)

    def spread(self, task: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
        """Runs the task on every item, and returns the results in the order of the items.

        This is one Spark job if there is a session. An error that a task raises is raised again.
        """
        return remote_run.spread(self.spark, self.remote, task, items)

    @property
    def written(self) -> str | None:
        """The path or URI of the run folder to which tasks write results; None: they write none."""
        return None if self.run is None else str(self.run) if self.remote is None else self.remote.uri

    def fetch(self, folder: str) -> None:
        """Copies what tasks wrote to a folder of a remote run to this machine's copy of the run."""
        for path in () if self.remote is None else self.remote.paths(folder):
            remote_run.local(path)

    def bytes(self, part: Part) -> int:
        """Returns the total size of a bucket's files; 0 for tables in memory."""
        own = tuple(f"{kind}/{part.number:05d}/" for kind in BUCKETED)
        return sum(size for name, size in self.meta.get("files", {}).items() if name.startswith(own))

    @contextmanager
    def scratch(self) -> Iterator[Path | None]:
        """Yields the path of a temporary folder for the files of tasks; None if the tables are in memory.

        The folder is in the folder of the tables. It does not exist yet, and is removed at the end.
        """
        if self.parts[0].tables is not None:
            yield None
            return
        folder = Path(self.parts[0].folder) / f".scratch-{uuid4().hex[:12]}"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def small(self, name: str) -> pa.Table:
        """Returns a table that is not split into buckets, by its name."""
        first = self.parts[0]
        if first.tables is not None:
            return first.tables.small[name]
        return read_tables.load_small(Path(first.folder), name)

    def texts(self) -> list[str]:
        """Returns the keys and values that are not plain integers, as JSON texts in the order of their codes."""
        first = self.parts[0]
        return list(first.tables.texts) if first.tables is not None else read_tables.texts(Path(first.folder))


def in_memory(tables: make_tables.Tables) -> Source:
    """Returns a `Source` with tables in memory. Its tasks run in this process."""
    return Source(None, (Part(0, "", tables.meta, tables),), tables.meta)


def on_disk(
    run: Path | None, folder: Path, meta: Mapping[str, Any], spark: Any = None, remote: RemoteRun | None = None
) -> Source:
    """Returns a `Source` with the tables in `folder`, whose metadata is `meta`. The folder of a remote run is a URI."""
    needed = {name: value for name, value in meta.items() if name != "files"}
    parts = tuple(Part(number, str(folder), needed) for number in range(meta["buckets"]))
    return Source(run, parts, meta, spark, remote=remote)
