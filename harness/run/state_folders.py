"""The state folders of an application's instances: a temporary folder of each run, which is deleted with the run.

The harness holds a lock on a file in the folder. So a later run recognizes the folder of a harness that was killed, and
deletes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "harness-app-"
LOCK: Final = ".lock"


def make(stack: contextlib.ExitStack) -> str:
    """Creates the folder of the state folders of one run. Returns its path. `stack` deletes it.

    Deletes the folders that killed harnesses left behind.
    """
    _delete_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    lock = stack.enter_context((folder / LOCK).open("wb"))
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder.chmod(0o711)  # instances run as another user; each slot's folder belongs to that user
    return str(folder)


def _delete_abandoned(parent: Path) -> None:
    """Deletes the folders of this user whose locks nobody holds. Ignores errors."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            with (folder / LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
