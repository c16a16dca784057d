"""The start of a broker with an invalid line in recovery-point-offset-checkpoint."""

import time

from confluent_kafka import Producer
from local_kafka import Cluster

TOPIC = "recovery-point"


def main(kafka):
    with Cluster(kafka) as cluster:
        (broker,) = cluster.brokers
        cluster.create_topic(TOPIC)
        producer = Producer(cluster.clients)
        producer.produce(TOPIC, b"x")
        producer.flush(10)
        broker.stop()
        with (broker.data / "recovery-point-offset-checkpoint").open("a") as file:
            file.write("this is not a recovery point\n")
        broker.log.unlink()
        broker.launch()
        end = time.monotonic() + 30
        while broker.process.poll() is None and not broker.is_serving() and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(3)  # it may serve for a moment
        code = broker.process.poll()
        lines = [
            line.strip()
            for line in broker.log.read_text().splitlines()
            if "recovery checkpoint to 0" in line or "Shutdown broker" in line or "have failed" in line
        ]
    found = "the broker serves" if code is None else f"the broker has exited with code {code}:"
    return (
        "the broker recovers its logs from offset 0, as it logs, and serves",
        "\n          ".join([found, *dict.fromkeys(lines)]),
        code is not None and any("have failed" in line for line in lines),
    )
