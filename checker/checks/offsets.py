"""The offsets check: judges the positions and commits of a pipeline's instances (checker.pipeline.offset_machine)."""

from __future__ import annotations

from checker.checks.pipeline import of_run
from checker.pipeline import judge
from checker.tables.buckets_of_a_history import Source
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result


def check(source: Source, options: CheckOptions) -> Result:
    """Judges the events of the instances. The verdict is unknown without Spark or without a run folder."""
    return of_run(judge.offsets, source, options)
