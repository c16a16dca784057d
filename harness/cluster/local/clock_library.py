"""A shared library that gives a process a wall clock of its own (LD_PRELOAD).

It stands in for `clock_gettime` and `gettimeofday` of the C library: it asks the kernel, and adds a number of
nanoseconds that stands in the library's own file. The file is mapped into the process, so writing the number
there changes the clock of the running process at once. Clocks other than the wall clock are left alone, as
are absolute deadlines that the process gives to the kernel.

libfaketime, which does the same, opens a file at each reading, or once a second: six threads of a JVM pay
50 us for it, or 5 us and clocks that change a second late, where the plain clock takes 0.05 us and this one
0.2 us. Nothing has to be installed or compiled: `clock_library.c` and what `make clock-library` makes of it, for
x86-64 and arm64, lie beside this file.
"""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final

MACHINES: Final = ("x86_64", "aarch64")
_MARK: Final = b"harness clock ahead ns:\0"  # stands before the number
_PROBE_S: Final = 1_000_000
_PROBE_TIMEOUT_S: Final = 20.0


@cache
def library(machine: str = "") -> bytes:
    """The library of a machine, empty for this one, with a clock that is right."""
    return Path(__file__).with_name(f"clock_library-{machine or platform.machine()}.so").read_bytes()


@cache
def number_at(machine: str = "") -> int:
    """The byte offset of the number in the library's file."""
    return library(machine).index(_MARK) + len(_MARK)


def set_ahead(path: Path, ahead_s: float) -> None:
    """Set the clocks of all processes that run with the library at `path`, in one write."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(file, struct.pack("<q", round(ahead_s * 1e9)), number_at())
    finally:
        os.close(file)


def why_not() -> str:
    """Why processes here cannot have clocks of their own, with what to do; empty when they can. Tries it."""
    if platform.machine() not in MACHINES:
        return f"the clock library is for x86-64 and arm64 and this machine is {platform.machine()}: use one of those"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clock.so"
        path.write_bytes(library())
        set_ahead(path, _PROBE_S)
        before = time.time()
        try:
            done = subprocess.run(
                [sys.executable, "-c", "import time; print(time.time())"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_TIMEOUT_S,
                env={**os.environ, "LD_PRELOAD": str(path)},
                check=True,
            )
            ahead_s = float(done.stdout) - before
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return f"a process with a clock of its own does not run: {error}"
    if not _PROBE_S <= ahead_s < _PROBE_S + _PROBE_TIMEOUT_S:
        reason = done.stderr.strip() or "the C library does not let itself be stood in for (LD_PRELOAD)"
        return f"a process does not take its own clock: {reason}; use a system with glibc"
    return ""
