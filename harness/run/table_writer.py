"""Converts finished segments of the history to tables during the run, in a separate process.

So the check after a long run need not read the whole history. Segments are converted one at a time and in order. The
process has the lowest priority, so that it does not disturb the load. The check converts the segments that are left
when the run ends.
"""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Final

LOWEST: Final = 19
TIMEOUT_S: Final = 600.0
STOP_S: Final = 10.0

log = logging.getLogger("harness")


class Roller:
    """Converts history segments until its context ends. `HistoryLog` calls `add` for each finished segment.

    When the context ends, waits briefly for the conversion in progress.
    """

    def __init__(self, tables: Path) -> None:
        self._tables = tables
        self._waiting: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def add(self, segment: Path) -> None:
        """Queues a finished segment for conversion."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="rolling", daemon=True)
            self._thread.start()
        self._waiting.put(segment)

    def _work(self) -> None:
        while (segment := self._waiting.get()) is not None and not self._stopping:
            command = [sys.executable, "-m", "checker.tables.join_segments", str(segment), str(self._tables)]
            try:
                self._child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
                )
                os.setpriority(os.PRIO_PROCESS, self._child.pid, LOWEST)
                output = self._child.communicate(timeout=TIMEOUT_S)[1]
            except (OSError, subprocess.SubprocessError) as error:
                log.warning("%s was not converted to tables: %s", segment, error)
                self._end()
                return
            if self._stopping:
                return  # killed by `__exit__`
            if self._child.returncode:
                log.warning("%s was not converted to tables: %s", segment, output.decode(errors="replace")[-500:])
                return

    def _end(self) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.kill()

    def __enter__(self) -> Roller:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        if self._thread is None:
            return
        self._waiting.put(None)
        self._thread.join(STOP_S)
        self._end()  # the check converts a partly converted segment again
        self._thread.join(STOP_S)
