"""Damage found in files: what is wrong, and where."""

from __future__ import annotations

from dataclasses import dataclass


class Unreadable(ValueError):
    """Data that is not in the expected format. The message says what is wrong; `at` is the byte position."""

    def __init__(self, what: str, at: int | None = None) -> None:
        super().__init__(what)
        self.what, self.at = what, at


@dataclass(frozen=True, slots=True)
class Flaw:
    """file: path below the node's data folder; at: byte position, None for the whole file; what: a sentence."""

    file: str
    at: int | None
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}" if self.at is None else f"{self.file}, byte {self.at}: {self.what}"
