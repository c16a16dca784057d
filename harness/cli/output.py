"""Functions that several commands use: printing a line, and finding the exit code of a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID

VERDICT_EXIT: Final[Mapping[str, int]] = {
    "valid": EXIT_VALID,
    "invalid": EXIT_INVALID,
    "unknown": EXIT_UNKNOWN,
}


def say(text: str) -> None:
    print(text, flush=True)
