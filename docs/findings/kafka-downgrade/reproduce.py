"""A downgrade of metadata.version that the controller accepts, and the next start of the old version."""

import socket
import struct
import time

from local_kafka import Cluster, jars, read_frame, wait_for, write_frame

# New release -> old version, and metadata.version of both. No metadata record differs between them, so that Kafka
# accepts the downgrade.
PAIRS = {"4.1": ("4.0.2", 25, 27), "4.2": ("4.1.2", 27, 29)}
UPDATE_FEATURES = 57
UPGRADE, SAFE_DOWNGRADE = 1, 2


def set_level(broker, level, kind):
    """Sends UpdateFeatures (version 1) for metadata.version. Raises ChildProcessError if the controller refuses."""
    name = b"metadata.version"
    feature = bytes([len(name) + 1]) + name + struct.pack(">hb", level, kind) + b"\0"
    request = struct.pack(">hhih", UPDATE_FEATURES, 1, 1, -1) + b"\0"
    request += struct.pack(">i", 10_000) + b"\2" + feature + b"\0" + b"\0"
    with socket.create_connection(("127.0.0.1", broker.port)) as connection:
        write_frame(connection, request)
        answer = read_frame(connection)
    (error,) = struct.unpack_from(">h", answer, 9)  # behind the correlation id, tags and the throttle time
    if error:
        raise ChildProcessError(f"metadata.version {level} is refused with error {error}: {answer[11:]!r}")


def main(kafka):
    release = ".".join(kafka.split(".")[:2])
    if release not in PAIRS:
        raise ValueError(f"Kafka accepts no downgrade from {kafka}: give a version of {' or '.join(PAIRS)}")
    old, low, high = PAIRS[release]
    with Cluster(old) as cluster:
        (broker,) = cluster.brokers
        broker.stop()
        cluster.jars = jars(kafka)
        broker.start()
        set_level(broker, high, UPGRADE)
        set_level(broker, low, SAFE_DOWNGRADE)
        time.sleep(2)
        broker.stop()
        cluster.jars = jars(old)
        broker.log.unlink()
        broker.launch()
        try:
            wait_for(broker.is_serving, 30, "the broker serves")
            time.sleep(3)  # it may serve for a moment
            code = broker.process.poll()
        except ChildProcessError:
            code = broker.process.poll()
        lines = [line.strip() for line in broker.log.read_text().splitlines()]
    reasons = [line for line in lines if "FeatureLevelRecord" in line or "feature level" in line]
    found = f"Kafka {old} serves" if code is None else f"Kafka {old} exits with code {code}:"
    return (
        f"after metadata.version {low} to {high} and back, both of which are accepted, Kafka {old} starts",
        "\n          ".join([found, *dict.fromkeys(reasons)]),
        code is not None and bool(reasons),
    )
