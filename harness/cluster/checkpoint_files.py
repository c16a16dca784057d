"""Reads a node's checkpoint files where they are, with a shell command."""

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
    """Returns a command that prints a checkpoint of every folder, one after another; skips those without one."""
    return ["sh", "-c", _SCRIPT, "sh", name, *folders]


def read(run: Callable[[Sequence[str]], CommandResult], name: str, folders: Sequence[str]) -> str:
    """Returns the output of that command. `run` executes it where the folders are. Raises ClusterTrouble."""
    done = run(argv(name, folders))
    if done.code:
        raise ClusterTrouble(f"{name} in {', '.join(folders)} cannot be read: {done.err.strip() or done.code}")
    return done.out
