"""Reads what a server adds to its log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.model.capabilities import ServerLogs

LOG_BYTES_MAX: Final = 64 << 20
LINE_BYTES_MAX: Final = 4096


class Log:
    """A reader of the lines that a server adds to its log after this object was created."""

    def __init__(self, logs: ServerLogs, node: str) -> None:
        self._logs, self._node = logs, node
        _, self._at = logs.read_log(node, None)
        self._rest, self._read = b"", 0

    def fresh(self) -> Iterator[str]:
        """Yields the complete lines that were added since the previous call.

        Over all calls together, reads at most about LOG_BYTES_MAX bytes.
        """
        while self._read < LOG_BYTES_MAX:
            chunk, self._at = self._logs.read_log(self._node, self._at)
            if not chunk:
                return
            self._read += len(chunk)
            *whole, rest = (self._rest + chunk).split(b"\n")
            self._rest = rest[-LINE_BYTES_MAX:]
            for line in whole:
                yield line[:LINE_BYTES_MAX].decode(errors="replace")
