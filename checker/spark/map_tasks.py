"""Runs a function over many items: as one Spark job, or in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from harness.model.errors_and_exit_codes import HarnessError

Item = TypeVar("Item")
T = TypeVar("T")


def spread(spark: Any, task: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """Runs the task on every item and returns the results in order; without Spark, one by one.

    Raises what a task raises.
    """
    if spark is None or not items:
        return [task(item) for item in items]
    job = spark.sparkContext.parallelize(list(items), len(items)).map(partial(_answer, task))
    found: list[T] = []
    for error, answer in job.collect():
        if error is not None:
            raise error
        found.append(answer)
    return found


def _answer(task: Callable[[Item], T], item: Item) -> tuple[HarnessError | None, T | None]:
    """Returns the task's result, or its HarnessError: an exception raised through Spark would lose its type."""
    try:
        return None, task(item)
    except HarnessError as error:
        return error, None
