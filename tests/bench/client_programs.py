"""The overhead of the lines through which client programs are driven, on a real three-broker cluster.

    python -m tests.bench.client_programs [--rounds 3] [--seconds 10]

Ten producers, acks=all, idempotent, one record at a time. `lines`: the library as a client program of the harness
(`--client exec:COMMAND`). `bare`: the same library, in ten processes on the same hosts, in a simple loop without the
harness. `no-op`: a client program that acknowledges each record without sending it, which is the most that the harness
gets through lines. The requirement for a library is a median of at least 60% of `bare`, or at least 80% of `no-op`.

All sides have the same number of producers, connections and records in flight (one a producer), record size, acks and
idempotence. Each connects and fetches metadata before its time is taken. A first round, which is not counted, warms up
the brokers: in it they need up to twice the CPU time per record.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.cluster.local import namespaced_cluster
from harness.cluster.spec import ClusterSpec
from harness.run.topics import Topics
from harness.run.worker_pool import AdminLink
from tests.bench import overhead

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "clients"
SOURCES: Final = Path(__file__).with_name("bare_programs")
NO_OP: Final = "no-op"
LIBRARIES: Final = ("franz-go", "kafkajs")


def built(folder: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Builds all programs. Returns the command of each client program, and the arguments that start each bare one."""
    go, js = EXAMPLES / "franz-go", EXAMPLES / "kafkajs"
    go_build = ("go", "build", "-o")
    for command, where in (
        ((*go_build, folder / "franz-go", "."), go),
        ((*go_build, folder / "bare-franz-go", SOURCES / "franz_go.go"), go),
        ((*go_build, folder / NO_OP, SOURCES / "no_op.go"), go),
        (("npm", "ci", "--silent"), js),
    ):
        subprocess.run([str(each) for each in command], cwd=where, check=True)
    programs = {
        "franz-go": f"exec:{folder / 'franz-go'}",
        "kafkajs": f"exec:node {js / 'client.js'}",
        NO_OP: f"exec:{folder / NO_OP}",
    }
    node = ["env", f"NODE_PATH={js / 'node_modules'}", "node"]
    return programs, {
        "franz-go": [str(folder / "bare-franz-go")],
        "kafkajs": [*node, str(SOURCES / "kafkajs.js")],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    programs, bare_programs = built(folder)
    cluster = namespaced_cluster.make(ClusterSpec(work_dir=folder / "cluster"))
    cluster.up(print)
    try:
        admin = AdminLink(cluster, overhead.config(cluster.bootstrap), folder, dict(os.environ))
        Topics(admin.call, "bench", overhead.PARTITIONS, 3, {}).ensure(overhead.KEYS - 1)
        compare(cluster, folder, args.rounds, args.seconds, programs, bare_programs)
    finally:
        cluster.down()


def compare(
    cluster: namespaced_cluster.LocalCluster,
    folder: Path,
    rounds: int,
    seconds: float,
    programs: Mapping[str, str],
    bare_programs: Mapping[str, Sequence[str]],
) -> None:
    """Prints the rates of each round, in alternating order, and the median ratios of the rounds after the first."""
    sides: dict[str, Callable[[int], float]] = {}
    for name, client in programs.items():
        config = {**overhead.config(cluster.bootstrap), "libraries": [client], "idempotence": True}
        config["client_user"] = "root"  # the programs are below a folder that only root may read
        sides[name] = lambda round_, config=config, name=name: overhead.harnessed(  # type: ignore[misc]
            cluster, folder, seconds, f"{name}-{round_}", 1, config
        )
    for name, argv in bare_programs.items():
        sides[f"bare {name}"] = lambda round_, argv=argv: bare(cluster, argv, seconds, folder)  # type: ignore[misc]
    measured: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(rounds + 1):
        rates = {name: sides[name](round_) for name in sorted(sides, reverse=round_ % 2 == 1)}
        shown = ", ".join(f"{name} {rate:.0f}/s" for name, rate in rates.items())
        print(f"round {round_}: {shown}" if round_ else f"warm-up: {shown}")
        for name, rate in rates.items() if round_ else ():
            measured[name].append(rate)
    for name in LIBRARIES:
        of_bare, of_no_op = (
            statistics.median(ours / floor for ours, floor in zip(measured[name], measured[other], strict=True))
            for other in (f"bare {name}", NO_OP)
        )
        print(f"{name}: {of_bare:.2f} of bare (0.60 required), or {of_no_op:.2f} of no-op (0.80 required)")


def bare(cluster: namespaced_cluster.LocalCluster, argv: Sequence[str], seconds: float, folder: Path) -> float:
    """Acknowledged sends per second of ten bare producers."""
    begin = time.time() + 4.0
    children, logs = [], []
    for slot in range(overhead.CLIENTS):
        plan = {
            "partitions": overhead.partitions("bench"),
            "bytes": overhead.RECORD_BYTES,
            "begin": begin,
            "seconds": seconds,
            "offset": slot,
            "bootstrap": cluster.bootstrap,
        }
        log = Path(tempfile.mkstemp(dir=folder, suffix=".log")[1])
        children.append(cluster.spawn(f"w{slot}", [*argv, json.dumps(plan)], dict(os.environ), [], str(log)))
        logs.append(log)
    for child in children:
        child.wait(seconds + 20.0)
    return sum(int(log.read_text().split()[-1]) for log in logs) / seconds


if __name__ == "__main__":
    main()
