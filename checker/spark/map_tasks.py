"""Runs a function over many items: as one Spark job, or in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from harness.model.errors_and_exit_codes import HarnessError

Item = TypeVar("Item")
T = TypeVar("T")


def spread(spark: Any, task: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """Runs the task on every item, and returns the results in the order of the items.

    If `spark` is None, the items are processed one by one in this process. Re-raises a HarnessError raised by a
    task.
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
    """Runs the task on an item. Returns (None, the result), or (the HarnessError that it raised, None).

    The error is returned because Spark does not keep the type of an exception that a task raises.
    """
    try:
        return None, task(item)
    except HarnessError as error:
        return error, None
