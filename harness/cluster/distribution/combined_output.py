"""Runs a tool to its end, and returns what it printed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(
    command: Sequence[str] | str, timeout_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command without input. `stdout` of the result is its standard output and standard error together.

    Raises OSError if the command cannot be started, and subprocess.TimeoutExpired.

    command  the arguments of a program, or one text for the shell
    """
    return subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
