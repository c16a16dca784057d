"""What an exactly-once pipeline instance costs against a bare confluent-kafka loop with the same settings.

    python -m tests.bench.pipeline [--records 200000] [--rounds 3]

Both read the same 12 partitions of a three-broker cluster as one member of a group, parse each record, make
one output of it, and commit offsets and outputs in a transaction every 250 ms; each in a process of its own.
The rate runs from the first record to the last commit. The bar is a median ratio of 0.85 or more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import orjson

from harness.clients.confluent.pipeline import ConfluentPipeline
from harness.clients.confluent.pipeline_sink import LINGER_MS
from harness.clients.confluent.settings_and_errors import consumer_config, producer_config
from harness.clients.pipeline.config import PipelineConfig, parse_pipeline_config
from harness.clients.pipeline.events import EventLog
from harness.cluster.local import namespaced_cluster
from harness.cluster.spec import ClusterSpec
from harness.model import op_json
from harness.pipeline_app.instance import Instance
from harness.run.topics import Topics
from harness.run.worker_pool import AdminLink

PARTITIONS, KEYS, FLUSH_S = 12, 48, 0.25
BATCH_MAX, POLL_S, RECORDS_MAX = 20_000, 0.05, 2_000


def config(bootstrap: str, folder: Path, group: str = "none") -> dict[str, Any]:
    return {
        "libraries": ["confluent"],
        "bootstrap": bootstrap,
        "run": "bench",
        "concurrency": 1,
        "process": 0,
        "partitions_per_topic": PARTITIONS,
        "acks": "all",
        "idempotence": True,
        "op_timeout_s": 60.0,
        "group": group,
        "consumer_config": {"partition.assignment.strategy": "range"},
        "folder": str(folder),
        "logic_options": {
            "options": {
                "mode": "exactly-once",
                "flush_s": FLUSH_S,
                "batch_max": BATCH_MAX,
                "poll_s": POLL_S,
                "records_max": RECORDS_MAX,
            },
            "inputs": 1,
            "partitions": PARTITIONS,
            "work_s": 1.0,
            "assignor": "range",
            "static_members": False,
            "one_poll": False,
        },
    }


def fill(given: PipelineConfig, records: int) -> None:
    producer: Any = ck.Producer({"bootstrap.servers": given.settings.bootstrap, "linger.ms": 20})
    for id in range(records):
        key = id % KEYS
        while True:
            try:
                producer.produce("bench-0", orjson.dumps({"id": id, "key": key}), str(key).encode(), key % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.5)
    assert producer.flush(60) == 0


def ours(given: PipelineConfig, records: int) -> float:
    """Records a second through an instance, its events written as in a run."""
    log, library = EventLog(given.folder, given.settings.process), ConfluentPipeline()
    seen: dict[str, int] = {}
    committed: dict[tuple[str, int], int] = {}

    def emit(event: dict[str, Any]) -> None:
        log.write(event)
        if event["event"] == "polled":
            seen.setdefault("first", event["time_ns"])
        elif event["event"] == "committed":
            committed[event["topic"], event["partition"]] = event["offset"]
            seen["last"] = event["time_ns"]

    instance = Instance(given.options, 0, 0, library.source(given), library.sink(given), log.now, emit)
    while sum(committed.values()) < records:
        instance.step()
    instance.close(leave=True)
    return records / (seen["last"] - seen["first"]) * 1e9


def bare(given: PipelineConfig, records: int) -> float:
    """Records a second through a plain loop."""
    who = {"instance": 0, "incarnation": 0, "generation": 1}
    consumer: Any = ck.Consumer(
        consumer_config(given.settings) | {"enable.auto.commit": False, "enable.partition.eof": False}
    )
    producer: Any = ck.Producer(
        producer_config(given.settings)
        | {
            "linger.ms": LINGER_MS,
            "transactional.id": f"bare-{os.getpid()}",
            "transaction.timeout.ms": 6000,
            "message.timeout.ms": 6000,
        }
    )
    producer.init_transactions()
    consumer.subscribe(["bench-0"])
    done, first, since = 0, 0.0, 0.0
    rows: list[tuple[int, int]] = []
    positions: dict[tuple[str, int], int] = {}
    while done < records:
        messages = consumer.consume(RECORDS_MAX, POLL_S)
        now = time.monotonic()
        first = first or (now if messages else 0.0)
        since = since if rows else now
        for message in messages:
            value = orjson.loads(message.value())
            rows.append((value["id"], value["key"]))
            positions[message.topic(), message.partition()] = message.offset() + 1
        if rows and (len(rows) >= BATCH_MAX or time.monotonic() - since >= FLUSH_S):
            producer.begin_transaction()
            for id, key in rows:
                value = orjson.dumps({"id": id, "key": key, "n": 0, **who})
                producer.produce("bench-1", value, str(key).encode(), key % PARTITIONS)
            producer.send_offsets_to_transaction(
                [ck.TopicPartition(*at, offset) for at, offset in positions.items()],
                consumer.consumer_group_metadata(),
            )
            producer.commit_transaction()
            done, rows, positions = done + len(rows), [], {}
    ended = time.monotonic()
    consumer.close()
    return records / (ended - first)


def child(side: str, given: PipelineConfig, records: int) -> None:
    does = {"fill": fill, "ours": ours, "bare": bare}[side]
    print(json.dumps([does(given, records), time.process_time()]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("SIDE", "CONFIG"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], parse_pipeline_config(json.loads(args.child[1])), args.records)
        return
    folder = Path(tempfile.mkdtemp())
    for name in ("history", "events"):
        (folder / name).mkdir()
    (folder / "history" / "00000.jsonl").write_bytes(op_json.header("bench", 0, time.time_ns(), time.monotonic_ns()))
    cluster = namespaced_cluster.make(ClusterSpec(work_dir=folder / "cluster"))
    cluster.up(print)

    def run(side: str, group: str) -> list[float]:
        log = folder / f"{group}.log"
        client_config = json.dumps(config(cluster.bootstrap, folder, group))
        argv = [
            sys.executable,
            "-m",
            "tests.bench.pipeline",
            "--records",
            str(args.records),
            "--child",
            side,
            client_config,
        ]
        spawned = cluster.spawn("w0", argv, {**os.environ, "PYTHONPATH": str(Path.cwd())}, [], str(log))
        spawned.wait(600.0)
        found: list[float] = json.loads(log.read_text().strip().splitlines()[-1])
        return found

    try:
        admin = AdminLink(cluster, config(cluster.bootstrap, folder), folder, dict(os.environ))
        Topics(admin.call, "bench", PARTITIONS, 3, {}).ensure(PARTITIONS - 1)
        run("fill", "fill")
        ratios = []
        for round_ in range(args.rounds):
            order = ("ours", "bare") if round_ % 2 else ("bare", "ours")
            seen = {side: run(side, f"{side}-{round_}") for side in order}
            (ours_hz, ours_s), (bare_hz, bare_s) = seen["ours"], seen["bare"]
            ratios.append(ours_hz / bare_hz)
            rates = f"ours {ours_hz:7.0f} records/s, {ours_s:.1f} CPU s   bare loop {bare_hz:7.0f}, {bare_s:.1f}"
            print(f"{rates}   ratio {ratios[-1]:.2f}", flush=True)
        print(f"median ratio {statistics.median(ratios):.2f}   (bar: 0.85)")
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
