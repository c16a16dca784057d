"""Where a check finds its history, and how it runs a function over all buckets.

Either tables in a folder, whose buckets Spark tasks (or this process) load one by one, or tables in memory.
What a task gives back must be small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from checker import ingest
from checker.bucket import Data, Small
from harness.model.errors import HarnessError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part:
    """One bucket for a task: loads itself where it runs."""

    number: int
    folder: str
    meta: Mapping[str, Any]
    tables: ingest.Tables | None = None

    def load(self) -> tuple[Data, Small]:
        """The rows of this bucket and the small tables. Raises BadHistory."""
        if self.tables is not None:
            tables = self.tables
            return Data.of(tables.sends, tables.polls), ingest.small_of(tables.small, tables.meta)
        return ingest.load(Path(self.folder), self.number, self.meta)

    def ops(self) -> pa.Table:
        """The table of ops, of all buckets."""
        return self.tables.ops if self.tables is not None else ingest.load_ops(Path(self.folder))


@dataclass(frozen=True, slots=True)
class Source:
    """A history as tables.

    run      the run folder, where there is one: results are written below it
    parts    one per bucket
    spark    a SparkSession, or None to run in this process
    """

    run: Path | None
    parts: tuple[Part, ...]
    meta: Mapping[str, Any]
    spark: Any = None

    def map(self, task: Callable[[Part], T]) -> list[T]:
        """The task over all buckets, as one Spark job where there is Spark. Raises what a task raises."""
        if self.spark is None:
            return [task(part) for part in self.parts]
        context = self.spark.sparkContext
        job = context.parallelize(list(self.parts), len(self.parts)).map(partial(_answer, task))
        found: list[T] = []
        for error, answer in job.collect():
            if error is not None:
                raise error
            found.append(answer)
        return found

    def small(self, name: str) -> pa.Table:
        """One of the tables that are not spread over buckets."""
        first = self.parts[0]
        if first.tables is not None:
            return first.tables.small[name]
        return ingest.load_small(Path(first.folder), name)

    def texts(self) -> list[str]:
        """The dictionary of keys and values that are not plain integers."""
        first = self.parts[0]
        return list(first.tables.texts) if first.tables is not None else ingest.texts(Path(first.folder))


def _answer(task: Callable[[Part], T], part: Part) -> tuple[HarnessError | None, T | None]:
    """The task's result, or what it says is wrong: through Spark, an exception would lose its type."""
    try:
        return None, task(part)
    except HarnessError as error:
        return error, None


def in_memory(tables: ingest.Tables) -> Source:
    """A history held in memory, to be judged in this process."""
    return Source(None, (Part(0, "", tables.meta, tables),), tables.meta)


def on_disk(run: Path | None, folder: Path, meta: Mapping[str, Any], spark: Any = None) -> Source:
    """Tables below `folder`."""
    parts = tuple(Part(number, str(folder), meta) for number in range(meta["buckets"]))
    return Source(run, parts, meta, spark)
