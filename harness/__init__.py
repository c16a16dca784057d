"""The runtime: from a plan to a stored, reported run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harness.loaded import Run


def load(name: str | Path = "latest", runs: str | Path = "runs") -> Run:
    """A stored run, for Python: see `harness.loaded`, which is imported only when this is called."""
    from harness import loaded

    return loaded.load(name, runs)
