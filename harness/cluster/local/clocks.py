"""Wall clocks of the local cluster's servers: each server starts with its own copy of the clock library.

To find out what a server's clock shows, the harness sends a malformed request. The server logs a line at once ("Invalid
receive", from Kafka 0.8 to now), and the timestamp of this line is the time on the server's clock.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from harness.cluster.local import clock_library

_LINE: Final = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]", re.MULTILINE)
_FORMAT: Final = "%Y-%m-%d %H:%M:%S,%f"
_LOGS_WITHIN_S: Final = 3.0
_LOOK_AGAIN_S: Final = 0.002
_LIBRARY: Final = "clock.so"


class Clocks:
    """The clocks of all servers. Thread-safe.

    home     function from a server's name to its folder, which contains server.log
    provoke  function that makes a server write a line with a timestamp to its log
    """

    def __init__(self, home: Callable[[str], Path], provoke: Callable[[str], None]) -> None:
        self._home, self._provoke = home, provoke
        self._strobes: dict[str, tuple[threading.Event, threading.Thread]] = {}
        self._lock = threading.Lock()

    def env(self, name: str) -> Mapping[str, str]:
        """Returns the environment variables that give a server its own clock.

        Creates the server's copy of the library if necessary. A restart of the server does not change its clock.
        """
        path = self._home(name) / _LIBRARY
        if not path.exists():
            path.write_bytes(clock_library.library())
        others = os.environ.get("LD_PRELOAD")
        return {"LD_PRELOAD": f"{path}:{others}" if others else str(path)}

    def set(self, name: str, ahead_s: float) -> None:
        """Sets the server's clock `ahead_s` seconds ahead of the right time. It stays ahead until the next call."""
        with self._lock:
            self._still(name)
            clock_library.set_ahead(self._home(name) / _LIBRARY, ahead_s)

    def strobe(self, name: str, ahead_s: float, every_s: float) -> None:
        """Switches the server's clock every `every_s` seconds between `ahead_s` ahead and the right time."""
        with self._lock:
            self._still(name)
            ended = threading.Event()
            arguments = (self._home(name) / _LIBRARY, ahead_s, every_s, ended)
            thread = threading.Thread(target=_flip, args=arguments, name=f"strobe-{name}", daemon=True)
            self._strobes[name] = ended, thread
            thread.start()

    def stop(self) -> None:
        """Stops all strobes. Clocks that are ahead at that moment stay ahead."""
        with self._lock:
            for name in list(self._strobes):
                self._still(name)

    def ahead_s(self, name: str) -> tuple[float, float] | None:
        """Returns bounds (min, max) of how far the server's clock is ahead, in seconds.

        Returns None if the server logs nothing in response to the request.
        """
        before_s = time.time()
        log = self._home(name) / "server.log"
        at = log.stat().st_size if log.exists() else 0
        with suppress(OSError):  # a stopped server logs nothing
            self._provoke(name)
        deadline = time.monotonic() + _LOGS_WITHIN_S
        while time.monotonic() < deadline:
            logged_s = _first_time(log, at)
            if logged_s is not None:
                return round(logged_s - time.time(), 3), round(logged_s - before_s, 3)
            time.sleep(_LOOK_AGAIN_S)
        return None

    def _still(self, name: str) -> None:
        if name in self._strobes:
            ended, thread = self._strobes.pop(name)
            ended.set()
            thread.join()


def _flip(library: Path, ahead_s: float, every_s: float, ended: threading.Event) -> None:
    ahead = True
    with suppress(FileNotFoundError):  # the cluster has been removed
        while True:
            clock_library.set_ahead(library, ahead_s if ahead else 0.0)
            if ended.wait(every_s):
                return
            ahead = not ahead


def _first_time(log: Path, at: int) -> float | None:
    """Returns the first timestamp after byte `at` of a log, in seconds since 1970; None if there is none."""
    with suppress(FileNotFoundError), log.open("rb") as lines:
        lines.seek(at)
        found = _LINE.search(lines.read(1 << 16))
        if found:
            return datetime.strptime(found[1].decode(), _FORMAT).timestamp()
    return None
