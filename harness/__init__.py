"""The runtime: from a plan to a stored, reported run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harness.stored.run import Run


def load(name: str | Path = "latest", runs: str | Path = "runs") -> Run:
    """A stored run, for Python: see `harness.stored.run`, which is imported only when this is called."""
    from harness.stored import run

    return run.load(name, runs)
