"""Waits for a run in another process; every wait has a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.harness_command import left_behind


def wait_for_load(runs: Path, ops_min: int) -> Path:
    """The run's folder, once its history has this many lines."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        for path in runs.glob("*/history/00000.jsonl"):
            if path.read_bytes().count(b"\n") > ops_min:
                return path.parent.parent
        time.sleep(0.2)
    raise AssertionError(f"no load in 200 s: {(runs / 'out').read_text()}")


def eventually(what: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + timeout_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def wait_until_gone(before: dict[str, set[str]]) -> None:
    """Waits until the kernel has removed processes and namespaces."""
    deadline = time.monotonic() + 60
    while left_behind(before) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left_behind(before) == {}
