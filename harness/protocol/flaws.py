"""Damage found in files: what is wrong, and where."""

from __future__ import annotations

from dataclasses import dataclass


class Unreadable(ValueError):
    """Data that is not in the expected format. The message says what is wrong; `at` is the position in bytes."""

    def __init__(self, what: str, at: int | None = None) -> None:
        super().__init__(what)
        self.what, self.at = what, at


@dataclass(frozen=True, slots=True)
class Flaw:
    """Damage found in a file.

    file  path relative to the node's data folder
    at    position in bytes; None for the whole file
    what  a sentence that says what is wrong
    """

    file: str
    at: int | None
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}" if self.at is None else f"{self.file}, byte {self.at}: {self.what}"
