"""The time that a broker needs to recover its logs, as a function of the amount of unflushed data.

    python -m tests.bench.recovery [--sizes 0,32,64,128,256] [--kafka-version 4.1.1] [--out FOLDER]

One broker. For each size in MiB, a new topic is filled with this amount, in segments of SEGMENT_MIB. The server is
killed, its recovery point file is deleted, and it is restarted: its log shows which segments it recovers, and how long
loading took. Kafka flushes a segment when it rolls the next one, so with the recovery point only the last segment would
be recovered. The files are still in the page cache, so the time is that of reading, checking and rebuilding indexes,
not of the disk. Prints a table, and draws recovery.png.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from matplotlib.figure import Figure

from harness.cluster.distribution import versions
from harness.cluster.local import namespaced_cluster
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.cluster.spec import ClusterSpec
from nemesis.recovery.log_lines import STARTED, read

SEGMENT_MIB = 16
RECORD = 10_000
UP_S = 180.0
MIB = 1 << 20


def fill(bootstrap: str, topic: str, size: int) -> None:
    """Writes this many bytes to one partition, and waits for their acknowledgement."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must outlive its requests
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "batch.size": 200_000})
    body = bytes(range(250)) * (RECORD // 250)
    for _ in range(size // RECORD):
        producer.produce(topic, body)
        while len(producer) > 5000:
            producer.poll(0.05)
    if producer.flush(120):
        raise SystemExit(f"{topic}: not everything was acknowledged")


def restarted(cluster: LoopbackCluster, topic: str) -> dict[str, Any]:
    """Kills the server, deletes its recovery point, and restarts it; returns figures from its log."""
    cluster.kill("n1")
    cluster.damage("n1", "no-point", topic, 1)
    _, at = cluster.read_log("n1", None)
    lines: list[str] = []
    began = time.monotonic()
    cluster.start("n1")
    while not any(STARTED in line for line in lines):
        chunk, at = cluster.read_log("n1", at)
        lines += chunk.decode(errors="replace").split("\n")
        if time.monotonic() - began > UP_S:
            raise SystemExit(f"the broker did not start within {UP_S:.0f} s")
        time.sleep(0.02)
    return {**read(lines, topic), "started_s": time.monotonic() - began}


def measure(size_mib: int, version: str) -> tuple[int, int, int, float]:
    """(MiB, segments recovered, ms of loading, s until the server had started)."""
    config = {"log.segment.bytes": str(SEGMENT_MIB * MIB), "log.flush.offset.checkpoint.interval.ms": "500"}
    with tempfile.TemporaryDirectory(prefix="bench-recovery-") as folder:
        cluster = namespaced_cluster.make(
            ClusterSpec(nodes=1, kafka_version=version, broker_config=config, work_dir=Path(folder), network="loopback")
        )
        try:
            cluster.up(lambda text: None)
            topic = f"t{size_mib}"
            fill(cluster.bootstrap, topic, size_mib * MIB)
            time.sleep(1.5)  # wait until the recovery point has been written
            restart = restarted(cluster, topic)
            segments = sum(map(len, restart["segments"].values()))
            return (
                size_mib,
                segments,
                int(restart["load_ms"].get(f"{topic}-0", 0)),
                float(restart["started_s"]),
            )
        finally:
            cluster.down()


def draw(rows: list[tuple[int, int, int, float]], path: Path) -> None:
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([row[0] for row in rows], [row[2] / 1000 for row in rows], marker="o")
    axes.set(xlabel="MiB to recover", ylabel="s to load the log", ylim=(0, None), xlim=(0, None))
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="0,32,64,128,256")
    parser.add_argument("--kafka-version", default=versions.DEFAULT)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    rows = []
    print(f"{'MiB':>6} {'segments':>9} {'load ms':>8} {'MiB/s':>7} {'started s':>10}")
    for size in map(int, options.sizes.split(",")):
        rows.append(measure(size, versions.resolve(options.kafka_version)))
        mib, segments, ms, started = rows[-1]
        speed = f"{mib / (ms / 1000):.0f}" if ms else "-"
        print(f"{mib:>6} {segments:>9} {ms:>8} {speed:>7} {started:>10.1f}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    draw(rows, options.out / "recovery.png")


if __name__ == "__main__":
    main()
