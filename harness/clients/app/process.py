"""One process of an application under test.

The process and its children are in process groups of their own, but in the session of the worker that starts them. So
a fault that kills or pauses the worker also hits them: see `harness.cluster.local.supervisor`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from harness.clients.exec.process import EXIT_S, start
from harness.model.errors_and_exit_codes import BadInput

LOG_BYTES_MAX: Final = 16 << 20
LINE_BYTES: Final = 64 << 10
LAST_LINES: Final = 5
KILL_ROUNDS: Final = 50


def argv(words: Sequence[str], folder: Path) -> list[str]:
    """Returns the words of a command; the program is an absolute path. Raises BadInput if it cannot be executed.

    folder  the folder that a relative path of the program starts from
    """
    first = words[0]
    program = shutil.which(str(folder / first) if "/" in first else first)
    if program is None and "/" in first:
        file = folder / first
        raise BadInput(f"--app: command: {first} is not an executable file ({file}): build it, or correct the path")
    if program is None:
        raise BadInput(f"--app: command: no executable file {first} in PATH: install it, or give its path")
    return [str(Path(program).absolute()), *words[1:]]


class AppProcess:
    """A running instance. Its output is appended to a log, with secrets replaced, up to a limit.

    matched     set when a line of the output matched `pattern`
    last_lines  the last lines of the output

    Raises ClientError if the process cannot be started.
    """

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        user: str,
        log: Path,
        secrets: Sequence[str] = (),
        pattern: str | None = None,
    ) -> None:
        self.matched = threading.Event()
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._pattern = None if pattern is None else re.compile(pattern)
        self._secrets = [secret for secret in secrets if secret]
        self._log = log
        self._process = start(
            words, environ, user, "_APP", stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, folder=folder
        )
        assert self._process.stdout is not None
        self.note(f"started: {' '.join(words)}")
        self._copying = threading.Thread(target=self._copy, args=(self._process.stdout,), daemon=True)
        self._copying.start()

    def exit_code(self) -> int | None:
        """Returns the exit code; None while the process runs. Negative: the number of the signal that ended it."""
        code = self._process.poll()
        if code is not None:
            self._copying.join(0.2)  # so that `last_lines` has what it printed last
        return code

    def note(self, text: str) -> None:
        """Appends a line of the harness to the log, with secrets replaced."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        with self._log.open("ab") as log:
            log.write(f"[harness, {time.strftime('%H:%M:%S')}] {text}\n".encode())

    def terminate(self, name: str) -> None:
        """Sends the signal with this name to the process, not to its children."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.Signals[name])

    def kill(self) -> None:
        """Kills the process and all processes that it left behind. Safe to repeat."""
        for _ in range(KILL_ROUNDS):  # a process may start another one meanwhile
            found = _descendants(self._process.pid)
            with contextlib.suppress(ProcessLookupError):
                if self._process.poll() is None:
                    os.kill(self._process.pid, signal.SIGKILL)
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not found and self._process.poll() is not None:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_S / KILL_ROUNDS)
            _reap(found)

    def _copy(self, output: IO[bytes]) -> None:
        copied = 0
        with output, self._log.open("ab") as log:
            while line := output.readline(LINE_BYTES):
                text = line.decode(errors="replace")
                for secret in self._secrets:
                    text = text.replace(secret, "***")
                if not self.matched.is_set() and self._pattern is not None and self._pattern.search(text):
                    self.matched.set()
                if text.strip():
                    self.last_lines.append(text.rstrip())
                if copied > LOG_BYTES_MAX:
                    continue
                copied += len(line)
                log.write(text.encode())
                if copied > LOG_BYTES_MAX:
                    log.write(f"\nthe application wrote more than {LOG_BYTES_MAX >> 20} MiB here: cut off\n".encode())
                log.flush()


def _descendants(instance: int) -> list[int]:
    """Returns the pids of the processes of the worker's session except the worker's own group, and of all descendants
    of this process except the instance itself.

    The worker adopts orphans, so that a process that has left the session is found as well.
    """
    parents: dict[int, list[int]] = {}
    of_session = []
    session, own_group = os.getsid(0), os.getpgid(0)
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # After the command's name in parentheses: state, parent, process group, session.
            fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            if fields[0] == "Z" and int(fields[1]) != os.getpid():
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            if session == os.getpid() and int(fields[3]) == session and int(fields[2]) != own_group:
                of_session.append(int(entry.name))
    found, todo = list[int](), [os.getpid()]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return [pid for pid in dict.fromkeys((*found, *of_session)) if pid not in (instance, os.getpid())]


def _reap(pids: Sequence[int]) -> None:
    """Reaps those of the processes that this process has adopted and that have ended."""
    until = time.monotonic() + 0.5
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
                time.sleep(0.01)
