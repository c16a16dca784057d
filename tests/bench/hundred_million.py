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

from checker.spark import session
from checker.tables import make_tables
from harness.run.spark import session_now
from tests.bench.checker import Peak, judge, made, timed
from tests.bench.histories import Shape

COPIES, KEYS = 10, 768
TIMES_BAR, GIB_BAR, CORES_BAR = 14.0, 16.0, 1.7


def judged(run: Path, cores: int) -> None:
    """Prints the elapsed seconds of a check, its processor seconds, and the peak of memory in GiB."""
    spark = session_now(f"local[{cores}]")
    session.warm_up(spark)
    with Peak() as peak:
        seconds = timed(lambda: judge(spark, run))
    print(seconds, peak.cpu_s, peak.bytes / 2**30)


def check(run: Path, cores: int) -> tuple[float, float]:
    """Checks a run in a new session with this many cores. Returns (elapsed seconds, peak of memory in GiB)."""
    command = [sys.executable, "-m", "tests.bench.hundred_million", "--check", str(run), "--cores", str(cores)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=3600)
    seconds, cpu, gib = map(float, done.stdout.split()[-3:])
    meta = make_tables.read_meta(run / "tables")
    assert meta is not None
    print(f"{meta['ops']:>12,} ops, {cores} cores: {seconds:.2f} s (cpu {cpu:.1f})  {gib:.2f} GiB", flush=True)
    return seconds, gib


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--ops", type=int, default=10_000_000)
    parser.add_argument("--check", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.check:
        judged(given.check, given.cores)
        return
    shape = Shape(given.ops, KEYS)
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        with made(shape, Path(folder)) as run:
            (one, _), (two, _) = check(run, 1), check(run, 2)
        print(f"two cores against one: x{one / two:.2f}", "met" if one / two >= CORES_BAR else "MISSED")
        with made(shape, Path(folder), copies=COPIES) as run:
            ten, gib = check(run, 2)
        met = ten <= TIMES_BAR * two and gib <= GIB_BAR
        print(f"ten times the ops: x{ten / two:.1f}, {gib:.2f} GiB", "met" if met else "MISSED")


if __name__ == "__main__":
    main()
