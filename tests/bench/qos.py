"""The memory use of the live check over time.

    python -m tests.bench.qos [--minutes 15] [--rate 1000] [--warm-up 8] [--kafka-version 4.1.1]
                              [--out FOLDER]

One broker, a writer that sends this many records per second to an input topic and the same ids to an output topic half
a second later, and `harness qos` with windows of 60 s, started as a user would. Prints the resident memory of all its
processes every minute, and at the end its growth per minute after the warm-up (the slope of a regression line through
all samples). Draws qos-memory.png.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from matplotlib.figure import Figure

from harness.cluster.distribution import versions
from harness.cluster.local import namespaced_cluster
from harness.cluster.spec import ClusterSpec

SAMPLE_S = 5.0
LATER_S = 0.5
TURN_S = 0.02
PARTITIONS = 4


def resident_mib(pid: int) -> float:
    """Resident memory of a process and its descendants."""
    parents: dict[int, list[int]] = collections.defaultdict(list)
    sizes: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            own = int(fields["Pid"])
            parents[int(fields["PPid"])].append(own)
            sizes[own] = int(fields.get("VmRSS", "0 kB").split()[0])
    found, left = 0, [pid]
    while left:
        one = left.pop()
        found += sizes.get(one, 0)
        left += parents[one]
    return found / 1024


def write(bootstrap: str, rate: int, stop: threading.Event) -> None:
    """Sends ids 0, 1, ... to `in`, and each to `out` LATER_S afterwards, until stopped."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    waiting: collections.deque[tuple[float, bytes]] = collections.deque()
    began, sent = time.monotonic(), 0
    while not stop.wait(TURN_S):
        now = time.monotonic()
        while sent < (now - began) * rate:
            key = str(sent).encode()
            producer.produce("in", b"x" * 100, key=key)
            waiting.append((now + LATER_S, key))
            sent += 1
        while waiting and waiting[0][0] <= now:
            producer.produce("out", b"x" * 100, key=waiting.popleft()[1])
        producer.poll(0)
    for _, key in waiting:
        producer.produce("out", b"x" * 100, key=key)
    producer.flush(30)


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """Growth in MiB per minute, from (minutes, MiB)."""
    n = len(samples)
    x, y = (sum(one[at] for one in samples) / n for at in (0, 1))
    return sum((a - x) * (b - y) for a, b in samples) / sum((a - x) ** 2 for a, _ in samples)


def draw(samples: Sequence[tuple[float, float]], path: Path) -> None:
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([one[0] for one in samples], [one[1] for one in samples])
    axes.set(xlabel="minutes", ylabel="MiB resident", ylim=(0, None), xlim=(0, None))
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def measure(bootstrap: str, minutes: float, rate: int, folder: Path) -> list[tuple[float, float]]:
    """(minutes, MiB) of each sample."""
    argv = [
        sys.executable,
        "-m",
        "harness.cli.app",
        "qos",
        "--input",
        "in",
        "--output",
        "out",
        "--bootstrap",
        bootstrap,
        "--checkpoint",
        str(folder / "checkpoint"),
        "--until-idle",
        "120s",
    ]
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(bootstrap, rate, stop))
    samples: list[tuple[float, float]] = []
    with (folder / "said").open("w") as output:
        live = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT)
        writer.start()
        try:
            began = time.monotonic()
            while (passed := (time.monotonic() - began) / 60) < minutes and live.poll() is None:
                samples.append((passed, resident_mib(live.pid)))
                if int(passed) > int(passed - SAMPLE_S / 60):
                    print(f"{passed:>7.1f} {samples[-1][1]:>8.0f}", flush=True)
                time.sleep(SAMPLE_S)
        finally:
            stop.set()
            writer.join()
            live.terminate()
            live.wait(60)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--warm-up", type=float, default=8)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--kafka-version", default=versions.DEFAULT)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-qos-") as given:
        folder = Path(given)
        cluster = namespaced_cluster.make(
            ClusterSpec(
                nodes=1,
                kafka_version=versions.resolve(options.kafka_version),
                work_dir=folder / "cluster",
                network="loopback",
            )
        )
        try:
            cluster.up(lambda text: None)
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("in", "out")]).values():
                future.result(60)
            print(f"{'minutes':>7} {'MiB':>8}")
            samples = measure(cluster.bootstrap, options.minutes, options.rate, folder)
        finally:
            cluster.down()
        windows = folder / "checkpoint" / "windows.jsonl"
        lines = [json.loads(line) for line in windows.read_text().splitlines()] if windows.exists() else []
        if not lines:
            raise SystemExit((folder / "said").read_text())
    last = {one["start_ms"]: one for one in lines}
    print(
        ", ".join(
            f"{name} {sum(one[name] for one in last.values()):,}" for name in ("in", "out", "missing", "duplicate")
        )
    )
    warm = [one for one in samples if one[0] >= options.warm_up]
    if len(warm) > 1:
        print(f"after {options.warm_up:g} minutes: {slope(warm):+.2f} MiB a minute (bar: 1)")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(samples, options.out / "qos-memory.png")


if __name__ == "__main__":
    main()
