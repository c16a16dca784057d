"""Metadata of committed offsets, written and read by confluent-kafka, and by raw requests beside it."""

import struct

from confluent_kafka import Consumer, TopicPartition
from local_kafka import Cluster, Proxy

TOPIC, GROUP = "t", "g"
TRIES = 2000
OFFSET_COMMIT, OFFSET_FETCH = (8, 2), (9, 1)  # (API key, version)


def text(value):
    return struct.pack(">h", len(value)) + value


def request(proxy, api, body):
    """Sends a request to the broker. Returns the response after its correlation id."""
    return proxy.send(struct.pack(">hhi", *api, 1) + text(b"raw") + text(GROUP.encode()) + body)[4:]


def partition(fields):
    """The part of a request that names partition 0 of the topic."""
    return struct.pack(">i", 1) + text(TOPIC.encode()) + struct.pack(">ii", 1, 0) + fields


def commit(proxy, metadata):
    body = struct.pack(">i", -1) + text(b"") + struct.pack(">q", -1)
    response = request(proxy, OFFSET_COMMIT, body + partition(struct.pack(">q", 1) + text(metadata)))
    if response[-2:] != b"\0\0":
        raise RuntimeError(f"the commit failed: {response}")


def committed(proxy):
    """Returns the metadata that the broker has, as bytes."""
    response = request(proxy, OFFSET_FETCH, partition(b""))
    at = 4 + len(text(TOPIC.encode())) + struct.calcsize(">iiq")
    (size,) = struct.unpack_from(">h", response, at)
    return response[at + 2 : at + 2 + size]


def read(consumer):
    """Returns the metadata that confluent-kafka reads, or its error."""
    try:
        return consumer.committed([TopicPartition(TOPIC, 0)], timeout=10)[0].metadata
    except UnicodeDecodeError as error:
        return f"UnicodeDecodeError: {error}"


def main(kafka):
    with Cluster(kafka) as cluster:
        cluster.create_topic(TOPIC)
        proxy = Proxy()
        proxy.serve(cluster.brokers[0])
        consumer = Consumer({**cluster.clients, "group.id": GROUP})
        written = []
        for metadata in ("seven b", ""):
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1, metadata=metadata)], asynchronous=False)
            written.append(committed(proxy))
        wrong = set()
        for size in range(1, TRIES + 1):
            metadata = "x" * (size % 64)
            commit(proxy, metadata.encode())
            if (found := read(consumer) or "") != metadata:
                wrong.add(found)
        consumer.close()
    found = (
        f"the broker has {written[0]} and {written[1]}; {len(wrong)} different wrong texts, "
        f"among them {sorted(map(ascii, wrong), key=len)[:3]}"
    )
    return (
        "what one client commits is what the other one reads: b'seven b', b'', and x's only",
        found,
        written != [b"seven b", b""] or bool(wrong),
    )
