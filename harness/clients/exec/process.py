"""A process of a client program: requests to its standard input, answers from its standard output.

All reading and writing happens in the thread that waits for an answer, so neither side can block the other, and the
memory for answers is bounded. If a process dies, stays silent beyond a deadline, or writes what the protocol does not
allow, the harness kills the whole process group. Then every later request raises a fatal ClientError.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import orjson

from harness.clients.connection import redacted
from harness.clients.exec import answers
from harness.clients.exec.answers import BadAnswer
from harness.protocol.error_codes import ClientError

LINE_BYTES_MAX: Final = 64 << 20
# Python allocates a buffer of this size for each read; above 128 KiB the C library would map and unmap memory.
READ_BYTES: Final = 64 << 10
STDERR_BYTES_MAX: Final = 16 << 20
STDERR_LINE_BYTES: Final = 64 << 10
GRACE_S: Final = 1.0  # beyond the time limit that the program was given
EXIT_S: Final = 5.0  # for a killed process to be gone
NOBODY: Final = "nobody"

FOLDER: Final = "harness-client-"  # the names of the programs' folders begin with it
DIED: Final = "_CLIENT_DIED"
SILENT: Final = "_CLIENT_SILENT"
BROKE_PROTOCOL: Final = "_CLIENT_BROKE_PROTOCOL"

Answered = Callable[[dict[str, Any] | None, ClientError | None], None]
"""Called once, with the `ok` object of an answer and None, or with None and the error."""

Rebalanced = Callable[[dict[str, Any]], None]
"""Called with each rebalance event, as the program wrote it."""


def remove_folders(run: str) -> None:
    """Removes the folders of a run's client programs. A worker that is killed cannot do it."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}{glob.escape(run)}-*"):
        shutil.rmtree(folder, ignore_errors=True)


class ClientProcess:
    """One process of a client program. Not thread-safe.

    argv     the command; the program is an absolute path
    environ  all environment variables except HOME and TMPDIR, which name an empty folder that is deleted afterwards
    secrets  texts that are replaced with *** in the process's errors and in what it writes to its standard error
    user     the account as which the process runs, if this process runs as root
    run      id of the run, for `remove_folders`
    library  name of the program's library, from the answer to `hello`; set by the adapter

    Raises ClientError if the program cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        secrets: Sequence[str] = (),
        user: str = NOBODY,
        run: str = "",
    ) -> None:
        self.library = ""
        self._folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER}{run}-"))
        runs_as = account(user)
        if runs_as is not None:
            os.chown(self._folder, runs_as.pw_uid, runs_as.pw_gid)
        environment = {**environ, "HOME": str(self._folder), "TMPDIR": str(self._folder)}
        try:
            self._process = start(argv, environment, user, DIED, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        except ClientError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._into, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        for descriptor in (self._into, self._out):
            os.set_blocking(descriptor, False)
        self._unread, self._searched = bytearray(), 0
        self._unwritten = bytearray()
        self._last_id = 0
        self._waiting: dict[int, Answered] = {}
        self._rebalanced: Rebalanced | None = None
        self._polling: int | None = None
        self._trouble: ClientError | None = None
        self._killed = False
        self._stars = dict.fromkeys(filter(None, secrets), "***")
        threading.Thread(target=_copy_stderr, args=(self._process.stderr, self._stars), daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether the process can no longer answer requests."""
        return self._trouble is not None

    def post(self, do: str, fields: Mapping[str, Any], timeout_s: float, answered: Answered) -> None:
        """Sends a request without waiting for the answer. Raises ClientError.

        answered  called with the answer, during a later call that reads from the process
        """
        if self._trouble is not None:
            raise self._trouble
        self._last_id += 1
        self._waiting[self._last_id] = answered
        self._write({"id": self._last_id, "do": do, **fields, "timeout_ms": int(timeout_s * 1000)})

    def request(self, do: str, fields: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Sends a request, waits for the answer, and returns the answer's `ok` object. Raises ClientError.

        A process that does not answer within `timeout_s` + GRACE_S seconds is killed.
        """
        result: list[dict[str, Any]] = []
        raised: list[ClientError] = []

        def answered(ok: dict[str, Any] | None, error: ClientError | None) -> None:
            result.extend([] if ok is None else [ok])
            raised.extend([] if error is None else [error])

        self.post(do, fields, timeout_s, answered)
        if not self.read_until(lambda: bool(result or raised), timeout_s + GRACE_S):
            raise self._give_up(SILENT, f"did not answer `{do}` within {timeout_s + GRACE_S:.1f} s, and was killed")
        if raised:
            raise raised[0]
        return result[0]

    def polling(self, do: str, fields: Mapping[str, Any], timeout_s: float, rebalanced: Rebalanced) -> dict[str, Any]:
        """Like `request`, but rebalance events may arrive before the answer.

        Calls `rebalanced` with each event, and then tells the program to continue. `rebalanced` may make other
        requests.
        """
        self._rebalanced, self._polling = rebalanced, self._last_id + 1
        try:
            return self.request(do, fields, timeout_s)
        finally:
            self._rebalanced, self._polling = None, None

    def read_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Reads answers until `done` returns true or `timeout_s` has passed. Returns the last result of `done`.

        If the process ends, every open request is answered with the error `_CLIENT_DIED`.
        """
        deadline = time.monotonic() + timeout_s
        while not done():
            left_s = deadline - time.monotonic()
            if self._trouble is not None or left_s <= 0:
                return done()
            self._exchange(left_s)
        return True

    def kill(self) -> None:
        """Kills the process group, as a crash would. Safe to repeat."""
        if self._killed:  # its process group's id may have been used again
            return
        self._killed = True
        if self._trouble is None:
            self._trouble = ClientError(DIED, "the client program was killed by the harness", "fatal")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def close_input(self, patience_s: float) -> int | None:
        """Closes the program's standard input, and waits for the program to end.

        Returns the exit code, or None if the program still runs after `patience_s`.
        """
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        return self._process.returncode

    def broke_protocol(self, why: BadAnswer) -> ClientError:
        """Kills the process because of a line that the protocol does not allow. Returns the error to raise."""
        return self._give_up(BROKE_PROTOCOL, f"wrote {why}, and was killed")

    def without_secrets(self, error: ClientError) -> ClientError:
        """Returns an error of the program with *** in place of each secret."""
        return ClientError(redacted(error.code, self._stars), redacted(error.text, self._stars), error.kind)

    # --- lines ---

    def _write(self, fields: Mapping[str, Any]) -> None:
        self._unwritten += orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unwritten:
                written = os.write(self._into, memoryview(self._unwritten)[: 1 << 16].tobytes())
                del self._unwritten[:written]
        except BlockingIOError:
            return
        except OSError:  # it has closed its standard input, or ended: reading will say which
            self._unwritten.clear()

    def _exchange(self, timeout_s: float) -> None:
        """Waits until the process has read or written something, and handles each complete line that it wrote."""
        awaited = select.poll()
        awaited.register(self._out, select.POLLIN)
        if self._unwritten:
            awaited.register(self._into, select.POLLOUT)
        ready = [descriptor for descriptor, _ in awaited.poll(timeout_s * 1000)]
        if self._into in ready:
            self._flush()
        if self._out not in ready:
            return
        try:
            data = os.read(self._out, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._ended()
            return
        self._unread += data
        self._pass_on()

    def _pass_on(self) -> None:
        while (end := self._unread.find(b"\n", self._searched)) >= 0:
            line = bytes(self._unread[:end])
            del self._unread[: end + 1]
            self._searched = 0
            if not self._take(line):
                return
        self._searched = len(self._unread)
        if self._searched > LINE_BYTES_MAX:
            self._give_up(BROKE_PROTOCOL, f"wrote a line of more than {LINE_BYTES_MAX >> 20} MiB, and was killed")

    def _take(self, line: bytes) -> bool:
        """Handles one line from the process. Returns False if the process can no longer be used."""
        answered: Answered | None = None
        try:
            message = answers.message(line)
            number = message["id"]
            if "event" in message:
                if number != self._polling or self._rebalanced is None:
                    raise BadAnswer(f"an event outside a poll: {line[: answers.SHOWN_BYTES]!r}")
                self._rebalanced(message)
                if self._trouble is None:
                    self._write({"id": number, "do": "continue"})
                return self._trouble is None
            answered = self._waiting.pop(number, None)
            if answered is None:
                raise BadAnswer(f"an answer with the id of no open request: {line[: answers.SHOWN_BYTES]!r}")
            if "error" in message:
                answered(None, self.without_secrets(answers.error(message["error"], self.library)))
            else:
                answered(message["ok"], None)
        except BadAnswer as why:
            trouble = self.broke_protocol(why)
            if answered is not None:
                answered(None, trouble)
            return False
        return self._trouble is None

    # --- the end ---

    def _ended(self) -> None:
        """Kills the process, because it has closed its standard output or has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        code = self._process.poll()
        how = "closed its standard output" if code is None else f"ended with exit code {code}"
        self._give_up(DIED, f"{how}; its standard error is in the worker's log")

    def _give_up(self, code: str, how: str) -> ClientError:
        """Kills the process, and answers every open request with a fatal ClientError. Returns this error."""
        text = f"the client program {self.library or '(not greeted yet)'} {how}"
        trouble = self.without_secrets(ClientError(code, text, "fatal"))
        self._trouble = trouble
        self.kill()
        waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            answered(None, trouble)
        return trouble


def start(
    argv: Sequence[str],
    environ: Mapping[str, str],
    user: str,
    code: str,
    *,
    stdin: int,
    stderr: int,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a program in a process group of its own, with a pipe as its standard output.

    Raises ClientError with this code if it cannot be started.

    user           the account as which it runs, if this process runs as root
    stdin, stderr  as for subprocess.Popen
    folder         its working directory; None: that of this process
    """
    runs_as = account(user)
    try:
        return subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder,
            env=dict(environ),
            process_group=0,
            user=None if runs_as is None else runs_as.pw_uid,
            group=None if runs_as is None else runs_as.pw_gid,
            extra_groups=None if runs_as is None else [],
        )
    except OSError as error:
        hint = f": user {user} must be able to read and execute it; or use --client-user" if runs_as else ""
        raise ClientError(code, f"{argv[0]} cannot be started: {error.strerror}{hint}", "fatal") from None


def account(user: str) -> pwd.struct_passwd | None:
    """Returns the account as which the program must run. Raises ClientError if there is no such account.

    Returns None if this process has no privileges to drop: it is not root, or is root only in a user namespace without
    that account.
    """
    if os.geteuid() != 0 or user == "root":
        return None
    try:
        found = pwd.getpwnam(user)
        rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except KeyError:
        raise ClientError(DIED, f"--client-user {user}: this machine has no such user", "fatal") from None
    except OSError:
        return None
    mapped = any(int(first) <= found.pw_uid < int(first) + int(count) for first, _, count in rows)
    return found if mapped else None


def _copy_stderr(source: IO[bytes], stars: Mapping[str, str]) -> None:
    """Copies a process's standard error to this process's standard error, with secrets replaced.

    After STDERR_BYTES_MAX bytes, discards what it reads.
    """
    copied = 0
    with source:
        while line := source.readline(STDERR_LINE_BYTES):
            if copied > STDERR_BYTES_MAX:
                continue
            copied += len(line)
            text = redacted(line.decode(errors="replace"), stars)
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(text)
                sys.stderr.flush()
            if copied > STDERR_BYTES_MAX:
                sys.stderr.write(f"\nthe client program wrote more than {STDERR_BYTES_MAX >> 20} MiB here: cut off\n")
