"""Creates run folders, and writes the history of a run as a write-ahead log.

    runs/<id>/plan.yaml  history/00000.jsonl ...  events/*.jsonl  tables/  results.json  results/  plots/
              logs/<node>/  harness.log
    runs/latest -> <id>

Each line of the history is one `write(2)`. An invocation is written before it is dispatched, so no dispatched op is
missing from the history if the harness is killed. A thread calls `fdatasync` once a second, so a power failure loses
about the last second. The tables are written by `checker.tables.make_tables`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

from checker.tables.storage import uri_of
from harness.model import op_json
from harness.model.errors_and_exit_codes import BadInput, Missing

# Smaller segments reach an object store sooner (`harness run --runs URI`).
SEGMENT_BYTES: Final = int(os.environ.get("HARNESS_SEGMENT_BYTES", 64 << 20))
SYNC_INTERVAL_S: Final = 1.0
OWNER: Final = "owner"  # file in the run folder that names the run's process while it is running


def new_run(runs: Path, name: str) -> Path:
    """Creates the run folder runs/<time>-<name>/ and its subfolders. Raises Missing if this fails.

    Raises BadInput if `runs` is a URI.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    if (uri := uri_of(runs)) is not None:
        raise BadInput(
            f"{uri}: this command creates runs in a local folder only; choose one with --runs, and then: "
            f"harness upload RUN {uri}"
        )
    try:
        runs.mkdir(parents=True, exist_ok=True)
        for attempt in range(1000):
            folder = runs / (f"{stamp}-{name}" if attempt == 0 else f"{stamp}-{name}-{attempt}")
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                break
        else:
            raise Missing(f"{runs}: too many runs named {stamp}-{name}; wait a second and try again")
        for part in ("history", "events", "logs", "plots", "results"):
            (folder / part).mkdir()
    except OSError as error:
        raise Missing(
            f"{runs}: cannot create a run folder there ({error.strerror}); use --runs to choose another folder"
        ) from None
    return folder


def point_latest(folder: Path) -> None:
    """Makes the link runs/latest point to this run, atomically.

    Does nothing on a file system without symbolic links.
    """
    temporary = folder.parent / f".latest-{os.getpid()}"
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(folder.name)
        temporary.replace(folder.parent / "latest")


def discard_unused(folder: Path) -> None:
    """Removes the folder of a run that never started. A folder that contains a history is kept."""
    if not any((folder / "history").iterdir()):
        shutil.rmtree(folder, ignore_errors=True)


class HistoryLog:
    """Appends lines to history/NNNNN.jsonl, and starts the next file after `segment_bytes`.

    `on_roll(path)` is called with each finished file. Methods raise Missing if a write to the disk fails.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        zero_ns: int,
        segment_bytes: int = SEGMENT_BYTES,
        on_roll: Callable[[Path], None] = lambda path: None,
    ) -> None:
        self._folder, self._run, self._zero_ns = folder, run, zero_ns
        self._segment_bytes, self._on_roll = segment_bytes, on_roll
        self._segment, self._written, self._fd = 0, 0, -1
        self._sync_error = ""
        self._dirty, self._lock, self._stop = False, threading.Lock(), threading.Event()
        self._open()
        self._syncer = threading.Thread(target=self._sync_loop, name="history-sync", daemon=True)
        self._syncer.start()

    @property
    def path(self) -> Path:
        """The path of the file that is being written."""
        return self._folder / f"{self._segment:05d}.jsonl"

    def _open(self) -> None:
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        behind_ns = time.monotonic_ns() - self._zero_ns
        self._written = 0
        self.append(op_json.header(self._run, self._segment, time.time_ns() - behind_ns, self._zero_ns))

    def append(self, lines: bytes) -> None:
        """Writes complete lines, which end with newlines, in one `write(2)`."""
        if self._sync_error:
            raise Missing(f"{self.path}: cannot write the history to disk ({self._sync_error})")
        if self._written > self._segment_bytes:
            self._roll()
        try:
            written = os.write(self._fd, lines)
            while written < len(lines):  # a write is partial only on a nearly full disk or after a signal
                written += os.write(self._fd, lines[written:])
        except OSError as error:
            raise Missing(f"{self.path}: cannot write the history ({error.strerror})") from None
        self._written += len(lines)
        self._dirty = True

    def _roll(self) -> None:
        self.sync()
        with self._lock:
            os.close(self._fd)
            done = self.path
            self._segment += 1
            self._open()
        self._on_roll(done)

    def _sync_loop(self) -> None:
        while not self._stop.wait(SYNC_INTERVAL_S):
            self.sync()

    def sync(self) -> None:
        """Flushes the written lines to disk. If that fails, the next `append` raises the error."""
        with self._lock:
            if self._dirty and self._fd >= 0:
                self._dirty = False
                try:
                    os.fdatasync(self._fd)
                except OSError as error:
                    self._sync_error = error.strerror or str(error)  # the next `append` raises it

    def close(self) -> None:
        """Syncs and closes the file. May be called more than once."""
        self._stop.set()
        self.sync()
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> HistoryLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


class Events:
    """Writes the events of a run that are not ops to events/harness.jsonl, one JSON object per line."""

    def __init__(self, folder: Path, zero_ns: int) -> None:
        self._path, self._zero_ns, self._lock = (
            folder / "events" / "harness.jsonl",
            zero_ns,
            threading.RLock(),
        )

    def write(self, event: str, detail: str, **more: Any) -> None:
        """Appends {"time_ns", "event", "detail", ...}. May be called from any thread and from signal handlers."""
        line = {"time_ns": time.monotonic_ns() - self._zero_ns, "event": event, "detail": detail, **more}
        with self._lock, self._path.open("ab") as file:
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def is_run(folder: Path) -> bool:
    """Returns whether a folder contains a recorded history."""
    return (folder / "history").is_dir()


def require_run(folder: Path) -> Path:
    """Returns the folder if it is a run folder.

    Otherwise raises BadInput, with a message about what is missing and what the user can do.
    """
    if not folder.exists():
        raise BadInput(f"{folder}: no such run; `harness list` shows all runs")
    if not is_run(folder):
        raise BadInput(f"{folder}: not a run folder (it has no history/); choose a run that `harness list` shows")
    return folder


def write_json(path: Path, data: Any) -> None:
    """Writes a JSON file atomically: readers see either the complete old content or the complete new content."""
    temporary = path.with_suffix(path.suffix + ".part")
    temporary.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
    temporary.replace(path)
