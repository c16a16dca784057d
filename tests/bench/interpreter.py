"""The rate at which the interpreter dispatches and records ops, with clients that do nothing.

    python tests/bench/interpreter.py [--ops 100000] [--pairs 5]

Concurrency 10, two worker processes, with the queue workload's generator; every invocation and completion is written
to a history. The baseline is a simple loop that sends the same ops through the same worker processes, but writes and
parses nothing. Prints both rates and their ratio.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import history_writer
from harness.cluster.sim import SimCluster
from harness.generator import Clients, Limit
from harness.model import op_json
from harness.model.op import Op
from harness.run.interpreter import Interpreter, Limits
from harness.run.progress_display import Live
from harness.run.worker_pool import Crew
from workloads.queue import Options, workload

CONCURRENCY, PROCESSES = 10, 2


def crew_of(cluster: SimCluster, folder: Path) -> Crew:
    client = {"libraries": ["noop"], "concurrency": CONCURRENCY, "inline": True}
    crew = Crew(cluster, client, CONCURRENCY, CONCURRENCY // PROCESSES, folder, dict(os.environ))
    crew.start()
    return crew


def interpreted(crew: Crew, folder: Path, ops: int) -> float:
    """Ops per second through the interpreter, counted as in a run."""
    zero_ns = time.monotonic_ns()
    with history_writer.HistoryLog(folder, "bench", zero_ns) as history:
        interpreter = Interpreter(
            crew,
            lambda op: op,
            history.append,
            concurrency=CONCURRENCY,
            seed=1,
            zero_ns=zero_ns,
            limits=Limits(),
            listener=Live(0.0, zero_ns).event,
        )
        began = time.perf_counter()
        interpreter.run(Clients(Limit(workload(Options()).generator, ops)))
        return ops / (time.perf_counter() - began)


def bare(crew: Crew, folder: Path, ops: int) -> float:
    """Ops per second of a loop that sends the line of one op repeatedly."""
    lines = [op_json.encode(Op(n, 0, n, "invoke", "send", [["send", 1, 1]])) for n in range(CONCURRENCY)]
    began, done = time.perf_counter(), 0
    for slot, line in enumerate(lines):
        crew.send(slot, line)
    while done < ops:
        crew.flush()
        for _, line in crew.receive(1.0):
            done += 1
            if line is not None:
                slot = int(line.split(b'"process":', 1)[1].split(b",", 1)[0])
                crew.send(slot, lines[slot])
    return ops / (time.perf_counter() - began)


def measured(side: Callable[[Crew, Path, int], float], ops: int) -> float:
    """The rate of one side, with its own workers and folder."""
    folder = Path(tempfile.mkdtemp())
    cluster = SimCluster(folder / "cluster")
    cluster.up(lambda text: None)
    crew = crew_of(cluster, folder)
    try:
        return side(crew, folder, ops)
    finally:
        crew.stop()
        cluster.down()
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    pairs = [(measured(interpreted, args.ops), measured(bare, args.ops)) for _ in range(args.pairs)]
    for ours, floor in pairs:
        print(f"interpreter {ours:8.0f} ops/s   bare loop {floor:8.0f} ops/s   ratio {ours / floor:.2f}")
    ours = statistics.median(pair[0] for pair in pairs)
    ratio = statistics.median(pair[0] / pair[1] for pair in pairs)
    print(f"median      {ours:8.0f} ops/s   ratio to the bare loop {ratio:.2f}   (bar: 15000 ops/s)")


if __name__ == "__main__":
    main()
