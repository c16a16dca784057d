"""The overhead of the harness compared with bare clients, on a real three-broker cluster.

    python tests/bench/overhead.py [--pairs 5] [--seconds 10] [--sends 1]

Ten producers in ten processes, acks=all, one record at a time, `--sends` of them per op. Harness: generator,
interpreter, write-ahead history, workers. Bare: the same library, processes, hosts, acks and record size in a simple
loop. They alternate in going first; the requirement is a median ratio of at least 0.90.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from harness import history_writer
from harness.cluster.local import namespaced_cluster
from harness.cluster.spec import ClusterSpec
from harness.generator import Clients, Fn, TimeLimit, op
from harness.model.fault_and_generator_protocols import Context
from harness.model.op import OK, Op
from harness.run.interpreter import Interpreter, Limits
from harness.run.topics import Topics
from harness.run.worker_pool import AdminLink, Crew

CLIENTS, PARTITIONS = 10, 4
KEYS = 12
RECORD_BYTES = 64


def config(bootstrap: str) -> dict[str, object]:
    return {
        "libraries": ["confluent"],
        "bootstrap": bootstrap,
        "run": "bench",
        "concurrency": CLIENTS,
        "partitions_per_topic": PARTITIONS,
        "acks": "all",
        "record_size": RECORD_BYTES,
    }


def partitions(run: str) -> list[tuple[str, int]]:
    """(topic, partition) of each key."""
    return [(f"{run}-{key // PARTITIONS}", key % PARTITIONS) for key in range(KEYS)]


def harnessed(
    cluster: namespaced_cluster.LocalCluster,
    folder: Path,
    seconds: float,
    name: object,
    sends: int,
    settings: Mapping[str, object],
) -> float:
    """Acknowledged sends per second through the harness. `name` distinguishes this measurement from the others."""
    crew = Crew(cluster, settings, CLIENTS, 1, folder, dict(os.environ))
    crew.start()
    done, warm = [0], [0]
    zero_ns = time.monotonic_ns()

    def count(event: Op) -> None:
        done[0] += sends if event.type == OK else 0

    history = folder / f"history-{name}"
    history.mkdir()

    def run(generator: object, log: history_writer.HistoryLog) -> None:
        interpreter = Interpreter(
            crew,
            lambda fault: fault,
            log.append,
            concurrency=CLIENTS,
            seed=1,
            zero_ns=zero_ns,
            limits=Limits(),
            listener=count,
        )
        interpreter.run(generator)  # type: ignore[arg-type]

    def make(ctx: Context, n: int) -> Op:
        return op("send", [["send", (n + k) % KEYS, n * sends + k] for k in range(sends)])

    try:
        with history_writer.HistoryLog(history, "bench", zero_ns) as log:
            run(Clients(TimeLimit(Fn(make), 2_000_000_000)), log)  # first connect and fetch metadata
            warm[0] = done[0]
            began = time.perf_counter()
            run(Clients(TimeLimit(Fn(make), int(seconds * 1e9))), log)
            return (done[0] - warm[0]) / (time.perf_counter() - began)
    finally:
        crew.stop()


def bare(cluster: namespaced_cluster.LocalCluster, folder: Path, seconds: float, round_: int, sends: int) -> float:
    """Acknowledged sends per second of bare clients, without ops."""
    begin = time.time() + 4.0
    children, logs = [], []
    for slot in range(CLIENTS):
        plan = {
            "partitions": partitions("bench"),
            "bytes": RECORD_BYTES,
            "begin": begin,
            "seconds": seconds,
            "offset": slot,
            "config": {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0},
        }
        log = folder / f"bare-{round_}-{slot}.log"
        argv = [sys.executable, str(Path(__file__).with_name("bare_client.py")), json.dumps(plan)]
        children.append(cluster.spawn(f"w{slot}", argv, dict(os.environ), [], str(log)))
        logs.append(log)
    for child in children:
        child.wait(seconds + 20.0)
    return sum(int(log.read_text().split()[-1]) for log in logs) / seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--sends", type=int, default=1)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    cluster = namespaced_cluster.make(ClusterSpec(work_dir=folder / "cluster"))
    cluster.up(print)
    try:
        admin = AdminLink(cluster, config(cluster.bootstrap), folder, dict(os.environ))
        Topics(admin.call, "bench", PARTITIONS, 3, {}).ensure(KEYS - 1)
        bare(cluster, folder, args.seconds, args.pairs, args.sends)  # warm up the brokers
        ratios = []
        for round_ in range(args.pairs):
            floor = bare(cluster, folder, args.seconds, round_, args.sends) if round_ % 2 == 0 else None
            ours = harnessed(cluster, folder, args.seconds, round_, args.sends, config(cluster.bootstrap))
            floor = floor or bare(cluster, folder, args.seconds, round_, args.sends)
            ratios.append(ours / floor)
            print(f"harness {ours:7.0f} sends/s   bare clients {floor:7.0f} sends/s   ratio {ratios[-1]:.2f}")
        print(f"median ratio {statistics.median(ratios):.2f}   (bar: 0.90)")
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
