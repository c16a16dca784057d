"""The cache directory: downloads and prepared files that all runs on this machine share.

The directory is `$HARNESS_CACHE`, `$XDG_CACHE_HOME/kafka-log-harness`, or `~/.cache/kafka-log-harness`. Every entry in
it is complete, because it is created under a temporary name in the same directory and then renamed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.model.errors_and_exit_codes import Missing

Progress = Callable[[str], None]

_LOCK_TIMEOUT_S = 900.0


def root() -> Path:
    """Returns the cache directory, and creates it if necessary. Raises Missing if it is not writable."""
    named = os.environ.get("HARNESS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(named) if named else Path(base) / "kafka-log-harness"
    try:
        folder = folder.expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unusable(folder, error) from error
    except RuntimeError as error:  # ~ cannot be expanded
        raise Missing(f"the cache directory {folder}: {error}; set HARNESS_CACHE to a directory") from error
    return folder


def _unusable(folder: Path, error: OSError) -> Missing:
    return Missing(
        f"the cache directory {folder} cannot be written ({error.strerror}): "
        "make it writable, or set HARNESS_CACHE to a writable directory"
    )


@contextmanager
def locked(path: Path, progress: Progress, what: str, timeout_s: float = _LOCK_TIMEOUT_S) -> Iterator[None]:
    """Holds an exclusive lock on the file `path` while the block runs. If this process dies, the lock is released.

    `what` completes the message "waiting for another process that is ...". Raises Missing if the file cannot be
    created, or if another process still holds the lock after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    announced = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a")
    except OSError as error:
        raise _unusable(path.parent, error) from error
    with opened as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not announced:
                    progress(f"waiting for another process that is {what}")
                    announced = True
                if time.monotonic() > deadline:
                    raise Missing(
                        f"another process has been {what} for {timeout_s:.0f} s (it has locked {path}): "
                        "check what it is doing, end it, and try again"
                    ) from None
                time.sleep(0.1)
        yield


@contextmanager
def building(target: Path) -> Iterator[Path]:
    """Yields an empty temporary directory. If the block ends without an error, renames it to `target`.

    The caller must hold a lock, because this function removes what earlier attempts left. Raises Missing if there is no
    space or no permission.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f".{target.name}.*"):
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise _unusable(target.parent, error) from error
    try:
        yield folder
        if target.exists():
            shutil.rmtree(target)
        folder.chmod(0o755)
        folder.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM):
            raise _unusable(target.parent, error) from error
        raise
    finally:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)
