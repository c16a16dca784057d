"""The checker on 100 million operations: time and memory, compared with 10 million and with one core.

    python -m tests.bench.hundred_million [--ops 10000000]

The tables are generated directly: a history of `--ops` operations, and one of ten copies of it, each with its own keys
and processes. Every check runs once, in a new session whose Python workers are warm. Memory is the peak of the summed
resident sets of the driver, the JVM and the Python workers. The requirements:

    cores   on two cores, at least 1.7 times as fast as on one
    100M    at most 14 times the time of 10 M on two cores, and at most 16 GiB
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.checker import Peak, made
from tests.bench.histories import Shape

COPIES, KEYS = 10, 768
TIMES_BAR, GIB_BAR, CORES_BAR = 14.0, 16.0, 1.7


def check(run: Path, cores: int) -> tuple[float, float]:
    """Seconds of a check in a new session with this many cores, and the peak of memory in GiB."""
    command = [sys.executable, "-m", "tests.bench.checker", "--one-check", str(run), "--master", f"local[{cores}]"]
    with Peak() as peak:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=3600)
    return float(done.stdout.split()[-1]), peak.bytes / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--ops", type=int, default=10_000_000)
    shape = Shape(parser.parse_args().ops, KEYS)
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        with made(shape, Path(folder)) as run:
            (one, _), (two, gib) = check(run, 1), check(run, 2)
        verdict = "met" if one / two >= CORES_BAR else "MISSED"
        print(f"{shape.ops:>12,} ops: one core {one:.2f} s, two {two:.2f} s, {gib:.2f} GiB: x{one / two:.2f} {verdict}")
        with made(shape, Path(folder), copies=COPIES) as run:
            seconds, gib = check(run, 2)
        verdict = "met" if seconds <= TIMES_BAR * two and gib <= GIB_BAR else "MISSED"
        print(
            f"{COPIES * shape.ops:>12,} ops: two cores {seconds:.2f} s, {gib:.2f} GiB: x{seconds / two:.1f} {verdict}"
        )


if __name__ == "__main__":
    main()
