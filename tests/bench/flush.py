"""The cost of flushing: throughput and latency of appends, by partitions, codec and flush setting.

    python -m tests.bench.flush [--partitions 1,10,100] [--codecs none,lz4] [--flush none,messages=1,ms=100]
                                [--mib 30] [--kafka-version 4.1.1] [--disks]

Modelled on the linear write test of KAFKA-615: one broker, and one producer (acks=all, records of 1 kB, half random)
that writes this many MiB over all partitions of a topic with segments of 1 MiB, so that many segments are rolled.
Latency is measured from `produce` to the acknowledgement, under full load; `roll` is the mean for records that were in
flight while the broker rolled a segment, according to its log. With --disks (root) the data is on a separate ext4
file system in a file.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster.distribution import versions
from harness.cluster.local import namespaced_cluster
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.cluster.spec import ClusterSpec
from harness.model.capabilities import Disks

RECORD = 1000
SEGMENT = 1 << 20
ROLLED = re.compile(r"^\[(\S+ \S+?)\] .*Rolled new log segment")
ROLL_S = 0.05
FLUSH = {
    "none": {},
    "messages=1": {"flush.messages": "1"},
    "messages=100": {"flush.messages": "100"},
    "ms=100": {"flush.ms": "100"},
}


def rolls(cluster: LoopbackCluster, at: int) -> list[float]:
    """Wall-clock times, in seconds, at which segments were rolled, from the server's log after a byte position."""
    found = []
    while True:
        chunk, after = cluster.read_log("n1", at)
        for line in chunk.decode(errors="replace").splitlines():
            match = ROLLED.match(line)
            if match:
                found.append(datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").timestamp())
        if not chunk:
            return found
        at = after


def write(cluster: LoopbackCluster, topic: str, partitions: int, codec: str, flush: str, size: int) -> str:
    """A row of the table."""
    bootstrap = cluster.outside_bootstrap
    config = {"segment.bytes": str(SEGMENT), **FLUSH[flush]}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(120)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "compression.type": codec,
            "linger.ms": 5,
            "delivery.timeout.ms": 300_000,
        }
    )
    for n in range(partitions):  # discover every leader, and create every log
        producer.produce(topic, b"first", partition=n)
    producer.flush(300)
    draw = random.Random(1)
    bodies = [draw.randbytes(RECORD // 2) + bytes(RECORD // 2) for _ in range(64)]
    took: list[tuple[float, float]] = []
    failed: list[Any] = []

    def done(sent: float) -> Any:
        def report(error: Any, message: Any) -> None:
            now = time.time()
            (failed.append(error) if error else took.append((now, now - sent)))

        return report

    _, at = cluster.read_log("n1", None)
    began = time.time()
    for n in range(size // RECORD):
        producer.produce(topic, bodies[n % 64], partition=n % partitions, on_delivery=done(time.time()))
        while len(producer) > 2000:
            producer.poll(0.01)
        producer.poll(0)
    producer.flush(300)
    seconds = time.time() - began
    admin.delete_topics([topic])[topic].result(60)  # so that the next topic has the broker to itself
    if failed or not took:
        raise SystemExit(f"{topic}: {len(failed)} records were not acknowledged: {failed[:1]}")
    latencies = [ms for _, ms in took]
    times = rolls(cluster, at)
    near = [ms for end, ms in took if any(end - ms - ROLL_S <= roll <= end for roll in times[:200])]
    roll = f"{statistics.mean(near) * 1000:8.0f}" if near else f"{'-':>8}"
    mean, most = statistics.mean(latencies) * 1000, max(latencies) * 1000
    head = f"{partitions:>10} {codec:>6} {flush:>12} {size / seconds / 1e6:7.1f}"
    return f"{head} {mean:8.0f} {most:8.0f} {roll} {len(times):>6}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", default="1,10,100")
    parser.add_argument("--codecs", default="none,lz4")
    parser.add_argument("--flush", default="none,messages=1,ms=100")
    parser.add_argument("--mib", type=int, default=30)
    parser.add_argument("--kafka-version", default=versions.DEFAULT)
    parser.add_argument("--disks", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-flush-", dir=os.environ.get("BENCH_DIR")) as folder:
        cluster = namespaced_cluster.make(
            ClusterSpec(
                nodes=1,
                kafka_version=versions.resolve(options.kafka_version),
                work_dir=Path(folder),
                network="namespaces" if options.disks else "loopback",
                outside=True,
                needed=frozenset({Disks} if options.disks else ()),
            )
        )
        try:
            cluster.up(lambda text: None)
            print(
                f"{'partitions':>10} {'codec':>6} {'flush':>12} {'MB/s':>7} {'mean ms':>8} {'max ms':>8} "
                f"{'roll ms':>8} {'rolls':>6}"
            )
            cases = itertools.product(
                map(int, options.partitions.split(",")), options.codecs.split(","), options.flush.split(",")
            )
            write(cluster, "warm", 1, "none", "none", options.mib << 20)  # warm up the broker's JVM
            for n, (partitions, codec, flush) in enumerate(cases):
                print(write(cluster, f"t{n}", partitions, codec, flush, options.mib << 20), flush=True)
        finally:
            cluster.down()


if __name__ == "__main__":
    main()
