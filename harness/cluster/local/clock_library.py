"""A shared library that gives a process its own wall clock (LD_PRELOAD).

The library replaces `clock_gettime` and `gettimeofday` of the C library: it asks the kernel for the time and adds an
offset in nanoseconds. The offset is stored in the library's own file, which is mapped into the process, so writing to
the file changes the clock of the running process at once. The process's other clocks, such as the monotonic clock, do
not change. Sleeps and timeouts do not change either, even if the process asked to be woken at an absolute time.

libfaketime does the same, but opens a file at every reading of the clock, or once a second. With six JVM threads, a
reading then costs 50 us, or 5 us if the file is opened only once a second. A reading through this library costs 0.2 us,
and a reading of an unmodified clock 0.05 us. Nothing has to be installed or compiled: this folder contains
`clock_library.c`, and the binaries for x86-64 and arm64 that `make clock-library` builds from it.
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
_MARK: Final = b"harness clock ahead ns:\0"  # precedes the offset
_PROBE_S: Final = 1_000_000
_PROBE_TIMEOUT_S: Final = 20.0


@cache
def library(machine: str = "") -> bytes:
    """Returns the content of the shared library for a machine type ("": this machine's). Its clock offset is zero."""
    return Path(__file__).with_name(f"clock_library-{machine or platform.machine()}.so").read_bytes()


@cache
def number_at(machine: str = "") -> int:
    """Returns the position of the clock offset in the library's file, in bytes."""
    return library(machine).index(_MARK) + len(_MARK)


def set_ahead(path: Path, ahead_s: float) -> None:
    """Sets the clocks of all processes that have loaded the library at `path` ahead by `ahead_s`, in a single write."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(file, struct.pack("<q", round(ahead_s * 1e9)), number_at())
    finally:
        os.close(file)


def why_not() -> str:
    """Returns why processes here cannot have their own clocks, and what to do; empty if they can.

    To find out, starts a process with its own clock.
    """
    if platform.machine() not in MACHINES:
        return f"the clock library needs x86-64 or arm64, and this machine is {platform.machine()}: use one of those"
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
            return f"a test process with its own clock failed: {error}"
    if not _PROBE_S <= ahead_s < _PROBE_S + _PROBE_TIMEOUT_S:
        reason = done.stderr.strip() or "the C library's clock functions could not be replaced (LD_PRELOAD)"
        return f"a test process did not use its own clock: {reason}; use a system with glibc"
    return ""
