"""Functions that several commands use: printing a line, and finding the exit code of a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID
from harness.stored.staged_runs import with_uris

VERDICT_EXIT: Final[Mapping[str, int]] = {
    "valid": EXIT_VALID,
    "invalid": EXIT_INVALID,
    "unknown": EXIT_UNKNOWN,
}


def say(text: str) -> None:
    """Prints a line. If the line names the temporary copy of a run in a store, prints the run's URI instead."""
    print(with_uris(text), flush=True)
