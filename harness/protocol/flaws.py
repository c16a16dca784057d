"""What is wrong with a file, and where."""

from __future__ import annotations

from dataclasses import dataclass


class Unreadable(ValueError):
    """Bytes that are not what they should be; the message says what is wrong, `at` where in them."""

    def __init__(self, what: str, at: int | None = None) -> None:
        super().__init__(what)
        self.what, self.at = what, at


@dataclass(frozen=True, slots=True)
class Flaw:
    """file: below the node's data folder; at: byte in it, None for all of it; what: a sentence."""

    file: str
    at: int | None
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}" if self.at is None else f"{self.file}, byte {self.at}: {self.what}"
