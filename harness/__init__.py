"""The test harness: runs a plan against a cluster, and stores and reports the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harness.stored.stored_run import Run


def load(name: str | Path = "latest", runs: str | Path = "runs") -> Run:
    """Load a stored run: see `harness.stored.stored_run`, which is imported only when this is called."""
    from harness.stored import stored_run

    return stored_run.load(name, runs)
