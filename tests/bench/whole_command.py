"""The processor time of whole commands, beside that of an earlier commit in the same run.

    python -m tests.bench.whole_command COMMIT [--rounds 3] [--ingest 1000000]

    run      `harness check` of a run of 5,000 operations that was checked before
    edn      `harness check` of a Jepsen history of 100,000 operations, and edn-txn of 100,000 transactions
    ingest   from the log of a run to tables, in one process. `floor` is `orjson.loads` of every line

Every command runs with its defaults. Times are processor seconds of the command and all its descendants, such as
Spark's JVM, without the first execution, which compiles the modules; the best of all rounds counts. Processor time
depends less on other work of the machine than elapsed time, which is shown in brackets.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench import histories
from tests.bench.checker import Peak, edn_line
from tests.bench.histories import Shape

HERE = Path(__file__).parents[2]
RUN_OPS, EDN_OPS = 5_000, 100_000
INGEST = """
import sys, time
from pathlib import Path
import orjson
from checker.tables import make_tables
run, tables = map(Path, sys.argv[1:])
began = time.process_time()
make_tables.make(run, tables)
made = time.process_time()
for file in sorted((run / "history").iterdir()):
    with file.open("rb") as lines:
        for line in lines:
            orjson.loads(line)
print(made - began, time.process_time() - made)
"""
Trees = dict[str, Path]


def command(tree: Path, work: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Executes this interpreter with the packages of a tree, and with compiled modules as an installation has them."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": str(work / "compiled" / tree.name)}
    done = subprocess.run([sys.executable, *argv], cwd=tree, env=env, capture_output=True, text=True, timeout=3600)
    if done.returncode:
        raise SystemExit(f"{tree}: {argv}: exit code {done.returncode}: {done.stderr}")
    return done


def taken(action: Callable[[], object]) -> tuple[float, float]:
    """Returns (processor seconds, elapsed seconds) of the processes that an action starts."""
    began, own = time.perf_counter(), time.process_time()
    with Peak() as peak:
        action()
    own = time.process_time() - own  # of the measuring process, which `peak` includes
    return peak.cpu_s - own, time.perf_counter() - began


def checks(name: str, paths: dict[str, Path], trees: Trees, work: Path, rounds: int) -> None:
    """Prints the times of `harness check`; each tree has its own copy of the history."""
    times: dict[str, list[tuple[float, float]]] = {tree: [] for tree in trees}
    for at in range(rounds + 1):
        for tree in list(trees)[:: 1 if at % 2 else -1]:
            argv = ("-m", "harness.cli.app", "check", str(paths[tree]))
            found = taken(lambda tree=tree, argv=argv: command(trees[tree], work, *argv))  # type: ignore[misc]
            if at:
                times[tree].append(found)
    show(name, {tree: min(found) for tree, found in times.items()})


def show(name: str, best: dict[str, tuple[float, float]], after: str = "") -> None:
    shown = ", ".join(f"{tree} {cpu:.2f} s [{elapsed:.1f}]" for tree, (cpu, elapsed) in best.items())
    print(f"{name:8} {shown}: {best['now'][0] / best['before'][0]:.2f} times{after}", flush=True)


def ingest(ops: int, trees: Trees, work: Path, rounds: int) -> None:
    run = work / "ingest"
    histories.write_log(histories.make(Shape(ops)), run)
    best: dict[str, tuple[float, float]] = {}
    floors = []
    for tree, path in trees.items():
        found = []
        for _ in range(rounds):
            began = time.perf_counter()
            made, floor = map(float, command(path, work, "-c", INGEST, str(run), str(work / "tables")).stdout.split())
            found.append((made, time.perf_counter() - began))
            floors.append(floor)
        best[tree] = min(found)
    show("ingest", best, f"; floor {min(floors):.2f} s, now {best['now'][0] / min(floors):.2f} times the floor")


def edn(path: Path, txn: bool) -> Path:
    """Writes a Jepsen history."""
    with path.open("w") as out:
        for data in histories.ops_of(histories.make(Shape(EDN_OPS, txn=txn))):
            out.write(edn_line(data))
    return path


def measure(trees: Trees, work: Path, rounds: int, ingest_ops: int) -> None:
    runs = {tree: work / f"run-{tree}" for tree in trees}
    for run in runs.values():
        histories.write_log(histories.make(Shape(RUN_OPS)), run)
    checks("run", runs, trees, work, rounds)
    for name, txn in (("edn", False), ("edn-txn", True)):
        history = edn(work / f"{name}.edn", txn)
        checks(name, dict.fromkeys(trees, history), trees, work, rounds)
    ingest(ingest_ops, trees, work, rounds)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ingest", type=int, default=1_000_000)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        earlier = Path(folder) / "earlier"
        git = ("git", "-C", str(HERE), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(earlier), given.commit], check=True)
        try:
            measure({"before": earlier, "now": HERE}, Path(folder), given.rounds, given.ingest)
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)


if __name__ == "__main__":
    main()
