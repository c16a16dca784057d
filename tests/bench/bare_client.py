"""A bare producer in a simple loop: the baseline for the harness.

    python bare_client.py '{"bootstrap": ..., "topic": ..., "partition": 0, "seconds": 5, "config": {...}}'

Sends one record at a time and waits for its delivery report; prints how many were acknowledged. Starts at
the wall-clock second "begin".
"""

from __future__ import annotations

import json
import os
import sys
import time

from confluent_kafka import Producer


def main() -> None:
    plan = json.loads(sys.argv[1])
    producer = Producer(plan["config"])
    payload = os.urandom(plan["bytes"])
    acknowledged = [0]

    def delivered(error: object, message: object) -> None:
        acknowledged[0] += error is None

    def send(n: int) -> None:
        topic, partition = plan["partitions"][n % len(plan["partitions"])]
        want = acknowledged[0] + 1
        producer.produce(topic, payload, partition=partition, on_delivery=delivered)
        while acknowledged[0] < want:
            producer.poll(1.0)

    for n in range(len(plan["partitions"])):  # first connect and fetch metadata
        send(n)
    first = acknowledged[0]
    time.sleep(max(0.0, plan["begin"] - time.time()))
    end, n = time.monotonic() + plan["seconds"], plan["offset"]
    while time.monotonic() < end:
        send(n)
        n += 1
    print(acknowledged[0] - first, flush=True)


if __name__ == "__main__":
    main()
