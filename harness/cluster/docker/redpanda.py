"""Redpanda in containers: image, command line, ports, and requests that find coordinators. Pure: data in, data out.

A broker has listeners for brokers and for clients, like the Kafka brokers of docker-compose.yml. It also has an admin
port, which reports the controller leader.
Sources: https://docs.redpanda.com/current/reference/rpk/rpk-redpanda/rpk-redpanda-start/ and
.../reference/properties/; https://docs.redpanda.com/api/ for the admin port.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from harness.cluster.docker.compose import Port, Service
from harness.model.errors_and_exit_codes import BadInput

IMAGE: Final = "docker.redpanda.com/redpandadata/redpanda:v24.3.1"
KAFKA_PORT: Final = 9094
ADMIN_PORT: Final = 9644
CONTROLLER_PATH: Final = "/v1/cluster/health_overview"
_INSIDE_PORT: Final = 9092
_RPC_PORT: Final = 33145
_CLIENT: Final = b"harness"

# The counterparts of Kafka's settings in docker-compose.yml, where they exist.
_DEFAULTS: Final[Mapping[str, str]] = {
    "auto_create_topics_enabled": "false",
    "default_topic_replications": "3",
    "internal_topic_replication_factor": "3",
    "group_initial_rebalance_delay": "0",
    "group_min_session_timeout_ms": "1000",
    "enable_transactions": "true",
    "enable_idempotence": "true",
}
# Properties of the cluster's structure, which are set on the command line here.
_RESERVED: Final = frozenset({"node_id", "seed_servers", "kafka_api", "advertised_kafka_api", "rpc_server", "admin"})


def services(
    names: Sequence[str],
    image: str,
    ports: Mapping[str, tuple[int, int]],
    overrides: Mapping[str, str],
) -> tuple[Service, ...]:
    """Returns a service for each name.

    ports      name -> two ports of 127.0.0.1: for clients, and for the admin interface
    overrides  cluster properties

    Raises BadInput if a property is invalid or reserved for the harness.
    """
    for key, value in overrides.items():
        if key in _RESERVED:
            raise BadInput(f"--broker-config {key}: this setting is reserved for the harness; omit it")
        if not key.replace("_", "").isalnum() or any(c in value for c in "\n\r"):
            raise BadInput(
                f"--broker-config {key}={value}: write Redpanda's properties as lower_case=VALUE, on one line"
            )
    settings = {**_DEFAULTS, **overrides}
    return tuple(
        Service(
            name,
            image,
            name,
            {},
            (
                Port("127.0.0.1", ports[name][0], KAFKA_PORT),
                Port("127.0.0.1", ports[name][1], ADMIN_PORT),
            ),
            _command(name, number, names[0], ports[name][0], settings),
        )
        for number, name in enumerate(names, start=1)
    )


def _command(name: str, number: int, seed: str, port: int, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the arguments for the entry point of the image, which runs rpk."""
    return (
        "redpanda",
        "start",
        "--mode=dev-container",
        "--smp=1",
        "--memory=512M",
        "--reserve-memory=0M",
        "--default-log-level=info",
        f"--node-id={number}",
        f"--kafka-addr=inside://0.0.0.0:{_INSIDE_PORT},outside://0.0.0.0:{KAFKA_PORT}",
        f"--advertise-kafka-addr=inside://{name}:{_INSIDE_PORT},outside://127.0.0.1:{port}",
        f"--rpc-addr=0.0.0.0:{_RPC_PORT}",
        f"--advertise-rpc-addr={name}:{_RPC_PORT}",
        f"--seeds={seed}:{_RPC_PORT}",
        *(f"--set=redpanda.{key}={value}" for key, value in settings.items()),
    )


def coordinator_request(kind: str, name: str) -> bytes:
    """Returns a FindCoordinator request, version 1, without its size field.

    kind  "txn-coordinator": `name` is a transactional id; "group-coordinator": `name` is a group

    Request   int16 10 | int16 1 | int32 correlation | string client | string key | int8 type
    Source: https://kafka.apache.org/protocol#The_Messages_FindCoordinator
    """
    key = name.encode()
    key_type = 1 if kind == "txn-coordinator" else 0
    head = struct.pack(">hhih", 10, 1, 1, len(_CLIENT)) + _CLIENT
    return head + struct.pack(">h", len(key)) + key + struct.pack(">b", key_type)


def coordinator(answer: bytes) -> int | None:
    """Returns the broker id in a FindCoordinator response; None if there is no coordinator yet.

    Response  int32 correlation | int32 throttle | int16 error | nullable string message | int32 node ...
    Raises ValueError if the response is truncated.
    """
    try:
        error, length = struct.unpack_from(">hh", answer, 8)
        (node,) = struct.unpack_from(">i", answer, 12 + max(length, 0))
    except struct.error as cut:
        raise ValueError("a FindCoordinator answer is truncated") from cut
    return int(node) if not error and node >= 0 else None


def controller(answer: bytes) -> int | None:
    """Returns the controller leader's id from a response of the admin port; None if the response names none."""
    try:
        leader = json.loads(answer)["controller_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return leader if isinstance(leader, int) and leader >= 0 else None
