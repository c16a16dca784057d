"""Compares the checker's speed with that of an earlier commit, both measured in one run.

    python -m tests.bench.against COMMIT [--sizes 1M,1M-txn,10M] [--rounds 3]

The sizes are those of tests/bench/checker.py. Each tree generates the same history in its own format: up to a million
ops as a write-ahead log, which the first check converts to tables; above that as tables. The two trees take turns. A
time is that of a check with a running, warm session; the best of all rounds counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parents[2]
LOG_OPS = 1_000_000
MAKE = """
import sys
from pathlib import Path
from tests.bench import checker, histories
shape = checker.ROWS[sys.argv[1]].shape
history = histories.make(shape)
(histories.write_log if shape.ops <= int(sys.argv[3]) else histories.write_tables)(history, Path(sys.argv[2]))
"""


def python(tree: Path, *argv: str) -> str:
    """The output of this interpreter with the packages of a tree."""
    done = subprocess.run(
        [sys.executable, *argv],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=3600,
    )
    return done.stdout


def compare(size: str, trees: dict[str, Path], work: Path, rounds: int) -> None:
    runs = {name: work / f"{size}-{name}" for name in trees}
    for name, tree in trees.items():
        python(tree, "-c", MAKE, size, str(runs[name]), str(LOG_OPS))
    seconds: dict[str, list[float]] = {name: [] for name in trees}
    for at in range(rounds):
        for name in list(trees)[:: 1 if at % 2 else -1]:
            argv = ("-m", "tests.bench.checker", "--one-check", str(runs[name]), "--master", "local[2]")
            seconds[name].append(float(python(trees[name], *argv).split()[-1]))
    before, now = (min(seconds[name]) for name in ("before", "now"))
    print(f"{size:8} before {before:.2f} s, now {now:.2f} s: {100 * (now / before - 1):+.1f}%  {seconds}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--sizes", default="1M,1M-txn,10M")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        earlier = Path(folder) / "earlier"
        git = ("git", "-C", str(HERE), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(earlier), given.commit], check=True)
        try:
            for size in given.sizes.split(","):
                compare(size, {"before": earlier, "now": HERE}, Path(folder), given.rounds)
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)


if __name__ == "__main__":
    main()
