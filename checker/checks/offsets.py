"""The check of what instances did with their offsets, of one run: see checker.pipeline.offset_machine."""

from __future__ import annotations

from checker.checks.pipeline import of_run
from checker.pipeline import judge
from checker.tables.buckets_of_a_history import Source
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result


def check(source: Source, options: CheckOptions) -> Result:
    """The verdict on what the events show. Without Spark, or a run folder, there is none."""
    return of_run(judge.offsets, source, options)
