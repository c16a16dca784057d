"""Reads a node's checkpoint files, with a shell command that runs where the files are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from harness.model.capabilities import CommandResult
from harness.model.errors_and_exit_codes import ClusterTrouble

TIMEOUT_S: Final = 20.0
# A node's log directories are DATA, DATA2, ...; each has its own checkpoint files.
_SCRIPT: Final = (
    'name=$1; shift; for data in "$@"; do test -d "$data" || exit 3; '
    'for file in "$data"*/"$name"; do test ! -f "$file" || cat "$file" || exit 4; done; done'
)


def argv(name: str, folders: Sequence[str]) -> list[str]:
    """Returns a shell command that prints the checkpoint files called `name` of some nodes, one after another.

    folders  the first log directory of each node; the command also reads the node's further ones (FOLDER2, ...)

    The command skips log directories without a file `name`. It fails if one of `folders` does not exist.
    """
    return ["sh", "-c", _SCRIPT, "sh", name, *folders]


def read(run: Callable[[Sequence[str]], CommandResult], name: str, folders: Sequence[str]) -> str:
    """Runs the command that `argv` returns for the same arguments; returns the concatenated texts of the files.

    `run` executes a command where the folders are. Raises ClusterTrouble if a file cannot be read.
    """
    done = run(argv(name, folders))
    if done.code:
        raise ClusterTrouble(f"{name} in {', '.join(folders)} cannot be read: {done.err.strip() or done.code}")
    return done.out
