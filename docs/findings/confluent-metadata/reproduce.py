"""Commits metadata with confluent-kafka and reads it with raw requests, and the other way round."""

import struct

from confluent_kafka import Consumer, TopicPartition
from local_kafka import Cluster, Proxy

TOPIC, GROUP = "t", "g"
CALLS = 2000
LONGEST = 63
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
    """Returns the metadata that confluent-kafka reads. Raises UnicodeDecodeError."""
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=10)
    if found.error is not None:
        raise RuntimeError(f"the committed offset could not be read: {found.error}")
    return found.metadata


def main(kafka):
    with Cluster(kafka) as cluster:
        cluster.create_topic(TOPIC)
        proxy = Proxy()  # only sends raw requests; no client connects to it
        proxy.serve(cluster.brokers[0])
        consumer = Consumer({**cluster.clients, "group.id": GROUP})
        written = []
        for metadata in ("abc", ""):
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1, metadata=metadata)], asynchronous=False)
            written.append(committed(proxy))
        wrong, errors = [], 0
        for call in range(CALLS):
            metadata = "x" * (1 + call % LONGEST)
            commit(proxy, metadata.encode())
            try:
                if (found := read(consumer)) != metadata:
                    wrong.append(found)
            except UnicodeDecodeError:
                errors += 1
        consumer.close()
    example = ascii(min(wrong, key=len)) if wrong else "none"
    found = (
        f"1. the broker has {written[0]} and {written[1]}; "
        f"2. of {CALLS} calls, {len(wrong)} return other texts, such as {example}, and {errors} raise an error"
    )
    expected = f"1. the broker has b'abc' and b''; 2. of {CALLS} calls, all return the text that was committed"
    # Each of the two defects shows. With one of them alone, the page has to be changed.
    return expected, found, written == [b"abc\0", b"\0"] and bool(wrong or errors)
