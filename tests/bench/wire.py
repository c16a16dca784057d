"""The overhead and the capacity of the wire proxy.

    python -m tests.bench.wire [--pairs 5] [--seconds 10]

Overhead: the queue workload at its default rate on a real three-broker cluster, with its clients connected alternately
to the proxy and to the brokers' other listeners, without the proxy; the median latency may grow by at most 10%.
Capacity: a proxy in front of a fake broker that only answers, with ten clients that wait for each response, and then
with one client that sends without waiting. "A core" is the throughput per processor second of the proxy.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from harness import history_writer
from harness.cluster.distribution.broker_config import Node
from harness.cluster.local import namespaced_cluster, remote_process, wire_faults
from harness.cluster.local.supervisor_client import Control
from harness.cluster.spec import ClusterSpec
from harness.generator import Clients, Rate, TimeLimit
from harness.model.op import INVOKE, OK, Op
from harness.run.interpreter import Interpreter, Limits
from harness.run.topics import Topics
from harness.run.worker_pool import AdminLink, Crew
from tests.unit.cluster.wire_proxy.speech import fetch, framed, produce, read
from workloads import queue

CLIENTS, PARTITIONS, RATE_HZ = 10, 4, 200
BAR = 1.10
RECORD_BYTES = 1 << 20

ANSWER = """
import socket, struct, sys, threading
listener = socket.socket(fileno=3)
def serve(sock):
    stream = sock.makefile("rb", 1 << 20)
    while head := stream.read(4):
        body = stream.read(struct.unpack(">i", head)[0])
        if body[:2] == b"\\0\\1":  # a Fetch; nobody waits for an answer to the others
            sock.sendall(struct.pack(">i", 104) + body[4:8] + bytes(100))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def config(bootstrap: str) -> dict[str, object]:
    return {
        "libraries": ["confluent"],
        "bootstrap": bootstrap,
        "run": "bench",
        "concurrency": CLIENTS,
        "partitions_per_topic": PARTITIONS,
        "acks": "all",
        "idempotence": True,
    }


def median_ms(
    cluster: namespaced_cluster.LoopbackCluster, bootstrap: str, folder: Path, seconds: float, n: int
) -> float:
    """Median latency of the sends of the queue workload at its default rate."""
    crew = Crew(cluster, config(bootstrap), CLIENTS, 1, folder, dict(os.environ))
    crew.start()
    begun: dict[object, int] = {}
    took: list[int] = []
    zero_ns = time.monotonic_ns()

    def measure(event: Op) -> None:
        if event.type == INVOKE:
            begun[event.process] = event.time_ns
        elif event.type == OK and event.f == "send" and event.time_ns > 3_000_000_000:  # after the warm-up
            took.append(event.time_ns - begun[event.process])

    load = TimeLimit(Rate(queue.workload(queue.Options()).generator, 10**9 // RATE_HZ), int(seconds * 1e9))
    (folder / f"history-{n}").mkdir()
    try:
        with history_writer.HistoryLog(folder / f"history-{n}", "bench", zero_ns) as log:
            interpreter = Interpreter(
                crew,
                lambda fault: fault,
                log.append,
                concurrency=CLIENTS,
                seed=n // 2,
                zero_ns=zero_ns,
                limits=Limits(),
                listener=measure,
            )
            interpreter.run(Clients(load))
    finally:
        crew.stop()
    return statistics.median(took) / 1e6


def cost(pairs: int, seconds: float) -> None:
    folder = Path(tempfile.mkdtemp())
    cluster = namespaced_cluster.make(ClusterSpec(work_dir=folder / "cluster", proxy="clients"))
    cluster.up(print)
    try:
        admin = AdminLink(cluster, config(cluster.direct_bootstrap), folder, dict(os.environ))
        Topics(admin.call, "bench", PARTITIONS, 3, {}).ensure(60)
        median_ms(cluster, cluster.bootstrap, folder, seconds, 2 * pairs)  # warm up the brokers
        ratios = []
        for n in range(pairs):
            ways = [("through", cluster.bootstrap), ("past", cluster.direct_bootstrap)]
            ms = {
                name: median_ms(cluster, at, folder, seconds, 2 * n + step)
                for step, (name, at) in enumerate(ways if n % 2 else ways[::-1])
            }
            ratios.append(ms["through"] / ms["past"])
            print(
                f"median of sends: {ms['through']:6.2f} ms through the proxy, {ms['past']:6.2f} ms past it, "
                f"ratio {ratios[-1]:.2f}"
            )
        print(f"median ratio {statistics.median(ratios):.2f}   (bar: {BAR:.2f})")
    finally:
        cluster.down()


def ceiling(seconds: float) -> None:
    folder = Path(tempfile.mkdtemp())
    control = Control(False, folder / "supervisor.log")
    try:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        answer = [sys.executable, "-c", ANSWER]
        remote_process.spawn(control, "", answer, {}, [listener.fileno()], str(folder / "answer.log"))
        port = listener.getsockname()[1]
        (node,), proxy = wire_faults.start(
            control,
            [Node("n1", 1, "127.0.0.1", port, 0)],
            lambda host, address, at: socket.create_server((address, at)),
            lambda: (port, 0, 0),
            "clients",
            str(folder / "wire.log"),
        )
        place = ("127.0.0.1", node.proxy_port)
        process = psutil.Process(proxy.child.pid)
        requests, share = _busy(process, seconds, lambda stop: _ask(place, stop))
        print(f"requests and answers of 100 bytes: {requests / seconds:8,.0f}/s, {requests / share:8,.0f}/s a core")
        sent, share = _busy(process, seconds, lambda stop: _send(place, stop))
        print(
            f"requests of 1 MiB:                 {sent / seconds / 1e6:8,.0f} MB/s, "
            f"{sent / share / 1e6:8,.0f} MB/s a core"
        )
    finally:
        control.close()


def _busy(process: psutil.Process, seconds: float, load: Callable[[threading.Event], int]) -> tuple[int, float]:
    """(result of `load`, processor seconds that the process used during it)."""
    stop = threading.Event()
    threading.Timer(seconds, stop.set).start()
    before = process.cpu_times()
    done = load(stop)
    after = process.cpu_times()
    return done, after.user + after.system - before.user - before.system


def _ask(place: tuple[str, int], stop: threading.Event) -> int:
    """Number of requests answered to ten clients that wait for each response."""
    counts = [0] * CLIENTS
    request = framed(fetch(1) + bytes(60))

    def client(slot: int) -> None:
        with socket.create_connection(place) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not stop.is_set():
                sock.sendall(request)
                read(sock)
                counts[slot] += 1

    threads = [threading.Thread(target=client, args=(slot,)) for slot in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def _send(place: tuple[str, int], stop: threading.Event) -> int:
    """Bytes sent by a client that does not wait; all of them have arrived."""
    record = framed(produce(1, acks=0, size=RECORD_BYTES))
    sent = 0
    with socket.create_connection(place) as sock:
        while not stop.is_set():
            sock.sendall(record)
            sent += len(record)
        sock.sendall(framed(fetch(2)))
        assert struct.unpack_from(">i", read(sock)) == (2,)
    return sent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    ceiling(args.seconds)
    cost(args.pairs, args.seconds)


if __name__ == "__main__":
    main()
