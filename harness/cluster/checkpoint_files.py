"""Reads a node's checkpoint files, with a shell command that runs where the files are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from harness.model.capabilities import CommandResult
from harness.model.errors_and_exit_codes import ClusterTrouble

TIMEOUT_S: Final = 20.0
# Log directories are DATA, DATA2, ...: a server has a checkpoint in each.
_SCRIPT: Final = (
    'name=$1; shift; for data in "$@"; do test -d "$data" || exit 3; '
    'for file in "$data"*/"$name"; do test ! -f "$file" || cat "$file" || exit 4; done; done'
)


def argv(name: str, folders: Sequence[str]) -> list[str]:
    """Returns a shell command that prints the checkpoint file `name` of each folder, one after another.

    The command skips folders that have no such file.
    """
    return ["sh", "-c", _SCRIPT, "sh", name, *folders]


def read(run: Callable[[Sequence[str]], CommandResult], name: str, folders: Sequence[str]) -> str:
    """Reads the checkpoint file `name` of each folder with the command of `argv`; returns the texts, joined.

    `run` executes a command where the folders are. Raises ClusterTrouble if a file cannot be read.
    """
    done = run(argv(name, folders))
    if done.code:
        raise ClusterTrouble(f"{name} in {', '.join(folders)} cannot be read: {done.err.strip() or done.code}")
    return done.out
