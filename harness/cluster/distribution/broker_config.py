"""Generates a broker's configuration: server.properties by version, logging, JVM flags. Pure: data in, text out.

With KRaft, if there are no dedicated controllers, the first brokers are also controllers: 5 of them, or 3 or 1 in
smaller clusters. Older versions store metadata in ZooKeeper. Timeouts are short, so that faults have effects within a
run of a minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.cluster.distribution import versions
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.cluster.distribution.versions import parse_version
from harness.model.errors_and_exit_codes import BadInput
from harness.model.racks import rack

MAX_NODES = 30
MAX_CONTROLLERS = 5
_HERE = "127.0.0.1"

# Settings of addresses, storage and the quorum, which users must not change.
_RESERVED = (
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
    "broker.id",
    "process.roles",
    "zookeeper.connect",
)


@dataclass(frozen=True, slots=True)
class Node:
    """A broker or dedicated controller, with its addresses.

    name              "n1" (broker) or "c1" (controller)
    id                1, ...; unique among brokers and controllers
    address           IPv4 address that brokers and workers use
    port              port of the listener INSIDE, at `address`
    controller_port   port of the listener CONTROLLER, which only controllers have
    outside_port      port that the listener OUTSIDE advertises; None: no listener OUTSIDE
    forward_port      port where the listener OUTSIDE listens; connections to `outside_port` are forwarded to it
    client_port       port of the listener CLIENTS, which advertises address:proxy_port; 0: no listener CLIENTS
    proxy_port        port at `address` where the wire proxy accepts connections from clients
    peer_port         port at `address` where the wire proxy accepts connections from brokers; 0: brokers bypass it
    outside_address   address that OUTSIDE advertises; if not 127.0.0.1, OUTSIDE listens at every address of the host
    """

    name: str
    id: int
    address: str
    port: int
    controller_port: int
    outside_port: int | None = None
    forward_port: int = 0
    client_port: int = 0
    proxy_port: int = 0
    peer_port: int = 0
    outside_address: str = _HERE


def controllers(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the brokers that are also controllers: an odd number, at most 5."""
    count = min(len(nodes), MAX_CONTROLLERS)
    return tuple(nodes[: count if count % 2 else count - 1])


def defaults(node_count: int) -> dict[str, str]:
    """Returns the harness's default broker settings, which the user may override."""
    replication = min(3, node_count)
    in_sync = min(2, node_count)
    return {
        # Short timeouts, so that faults have effects soon.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        # A topic's retention may be shortened at run time. (Before 3.5 the initial delay cannot be set.)
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "1000",
        # Durability.
        "default.replication.factor": str(replication),
        "min.insync.replicas": str(in_sync),
        "unclean.leader.election.enable": "false",
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        # Internal topics: replicated like the data; few partitions, so that they are created quickly.
        "offsets.topic.replication.factor": str(replication),
        "offsets.topic.num.partitions": "6",
        "transaction.state.log.replication.factor": str(replication),
        "transaction.state.log.min.isr": str(in_sync),
        "transaction.state.log.num.partitions": "6",
        # Small values, because several brokers share a machine.
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "4",
    }


def of_rack(node: Node, racks: int) -> dict[str, str]:
    """Returns the settings of a broker in a rack. As leader it sends consumers to the replica in their own rack."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    return {"broker.rack": rack(node.id, racks), "replica.selector.class": selector}


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Raises BadInput if a setting is reserved for the harness, or is not valid in a properties file."""
    for key, value in overrides.items():
        if key in _RESERVED or key.startswith("listener.name."):
            raise BadInput(f"--broker-config {key}: this setting is reserved for the harness; omit it")
        if not key or any(c in key for c in " =:#!\n\r\t\\") or any(c in value for c in "\n\r\\"):
            raise BadInput(f"--broker-config {key}={value}: must be KEY=VALUE, on one line, without backslashes")


def properties(
    node: Node,
    nodes: Sequence[Node],
    version: str,
    data: str,
    overrides: Mapping[str, str],
    voters: Sequence[Node] = (),
    zookeeper: str = "",
) -> str:
    """Returns the text of a node's server.properties.

    nodes      the brokers
    data       the node's log directories, separated by commas
    voters     the voters of the metadata quorum; empty: chosen from `nodes`
    zookeeper  addresses of the ZooKeepers, host:port,...; empty with KRaft

    Raises BadInput.
    """
    versions.check(version, versions.ZOOKEEPER if zookeeper else versions.KRAFT)
    check_overrides(overrides)
    voters = () if zookeeper else voters or controllers(nodes)
    settings = {
        **(_zookeeper(node, zookeeper) if zookeeper else _kraft(node, nodes, voters)),
        **_listeners(node, _is_one(node, nodes), _is_one(node, voters)),
        "log.dirs": data,
        **defaults(len(nodes)),
        **(
            {
                "share.coordinator.state.topic.replication.factor": str(min(3, len(nodes))),
                "share.coordinator.state.topic.min.isr": str(min(2, len(nodes))),
            }
            if parse_version(version) >= (4, 0, 0)
            else {}
        ),
        **overrides,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _kraft(node: Node, nodes: Sequence[Node], voters: Sequence[Node]) -> dict[str, str]:
    """Returns the KRaft settings: the node's roles and id, the quorum, short session timeouts."""
    roles = [role for role, members in (("broker", nodes), ("controller", voters)) if _is_one(node, members)]
    return {
        "process.roles": ",".join(roles),
        "node.id": str(node.id),
        "controller.quorum.voters": quorum(voters),
        "controller.listener.names": "CONTROLLER",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # Several snapshots within a short run.
        "metadata.log.max.record.bytes.between.snapshots": "4000",
    }


def quorum(voters: Sequence[Node]) -> str:
    """Returns the value of controller.quorum.voters."""
    return ",".join(f"{voter.id}@{voter.address}:{voter.controller_port}" for voter in voters)


def _zookeeper(node: Node, connect: str) -> dict[str, str]:
    """Returns the ZooKeeper settings: the broker's id, the ensemble, a short session and a long connection timeout."""
    return {
        "broker.id": str(node.id),
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": "3000",
        "zookeeper.connection.timeout.ms": "30000",
    }


def _is_one(node: Node, nodes: Sequence[Node]) -> bool:
    return node.id in {each.id for each in nodes}


def _listeners(node: Node, serves: bool, votes: bool) -> dict[str, str]:
    """Returns the settings of the node's listeners.

    serves  the node is a broker: it has the listeners for brokers and clients
    votes   the node is a controller: it has the listener CONTROLLER
    """
    at = f"//{node.address}"
    # name, bind address, advertised address
    rows = [("INSIDE", f"{at}:{node.port}", f"{at}:{node.peer_port or node.port}")] if serves else []
    if node.outside_port is not None:
        listens = at if node.outside_address == _HERE else "//0.0.0.0"
        advertises = f"//{node.outside_address}:{node.outside_port}"
        rows.append(("OUTSIDE", f"{listens}:{node.forward_port}", advertises))
    if node.client_port:
        rows.append(("CLIENTS", f"{at}:{node.client_port}", f"{at}:{node.proxy_port}"))
    listeners = [f"{name}:{place}" for name, place, _ in rows]
    advertised = [f"{name}:{place}" for name, _, place in rows]
    if votes:
        listeners.append(f"CONTROLLER:{at}:{node.controller_port}")
    names = dict.fromkeys(["INSIDE", "CONTROLLER", *(name for name, _, _ in rows)])
    found = {
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
    }
    # A dedicated controller must not advertise listeners.
    broker = {"advertised.listeners": ",".join(advertised), "inter.broker.listener.name": "INSIDE"}
    return {**found, **broker} if serves else found


def log_config(version: str, log_file: str) -> tuple[str, str]:
    """Returns (file name, text) of the logging configuration: for Log4j 2 from Kafka 4.0 on, for reload4j before."""
    if parse_version(version) >= (4, 0, 0):
        return "log4j2.properties", (
            "status=warn\n"
            "appender.file.type=File\n"
            "appender.file.name=file\n"
            f"appender.file.fileName={log_file}\n"
            "appender.file.layout.type=PatternLayout\n"
            "appender.file.layout.pattern=[%d] %p %m (%c)%n\n"
            "rootLogger.level=info\n"
            "rootLogger.appenderRef.file.ref=file\n"
        )
    return "log4j.properties", (
        "log4j.rootLogger=INFO, file\n"
        "log4j.appender.file=org.apache.log4j.FileAppender\n"
        f"log4j.appender.file.File={log_file}\n"
        "log4j.appender.file.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
    )


def java_argv(
    java: Java, jars: Jars, log_config_path: str, main: str, args: Sequence[str], flags: Sequence[str] = ()
) -> list[str]:
    """Returns the command line that runs class `main` in a JVM: a broker or one of Kafka's tools.

    The JVM uses one garbage collector thread and only the C1 compiler, because a small machine runs three brokers on
    two cores, and C2 would still be compiling when a short run ends.
    """
    variable = "log4j2.configurationFile" if log_config_path.endswith("log4j2.properties") else "log4j.configuration"
    return [
        java.path,
        "-Xms64m",
        "-Xmx400m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        # The performance data files in /tmp are named by pid, and pids repeat across the clusters' namespaces.
        "-XX:-UsePerfData",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        f"-D{variable}=file:{log_config_path}",
        *flags,
        "-cp",
        jars.classpath,
        main,
        *args,
    ]
