"""What a broker is told: server.properties by version, logging, JVM flags. Pure: data in, text out.

Nodes are KRaft. The first 1, 3 or 5 nodes (the largest odd number there is) are controllers too. Times are
short so that faults show within a run of a minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.cluster.jars import Jars, parse_version
from harness.cluster.java import Java
from harness.model.errors import BadInput

OLDEST = (3, 3, 1)  # KRaft is ready for production from 3.3.1 on
MAX_NODES = 30
MAX_CONTROLLERS = 5

# Settings that hold the cluster together: changing them breaks addresses, storage or the quorum.
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
)


@dataclass(frozen=True, slots=True)
class Node:
    """One broker's place.

    name        "n1"
    id          1, ...
    address     IPv4 address that brokers and workers use
    port        of the listener at `address`
    controller_port   of the controller's listener, used by controllers only
    outside_port      port of 127.0.0.1 outside that is forwarded to `forward_port`; None: no such listener
    forward_port      of the listener that advertises 127.0.0.1:outside_port
    """

    name: str
    id: int
    address: str
    port: int
    controller_port: int
    outside_port: int | None = None
    forward_port: int = 0


def controllers(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes that vote: an odd number, at most 5."""
    count = min(len(nodes), MAX_CONTROLLERS)
    return tuple(nodes[: count if count % 2 else count - 1])


def defaults(node_count: int) -> dict[str, str]:
    """Broker settings that a user may override; values are those of decision 10 where it names one."""
    replication = min(3, node_count)
    in_sync = min(2, node_count)
    return {
        # Faults show soon.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        # Durability.
        "default.replication.factor": str(replication),
        "min.insync.replicas": str(in_sync),
        "unclean.leader.election.enable": "false",
        "auto.create.topics.enable": "false",
        "num.partitions": "1",
        # Internal topics: replicated as the data is, few partitions so that they are there soon.
        "offsets.topic.replication.factor": str(replication),
        "offsets.topic.num.partitions": "6",
        "transaction.state.log.replication.factor": str(replication),
        "transaction.state.log.min.isr": str(in_sync),
        "transaction.state.log.num.partitions": "6",
        # Small: several brokers share a machine.
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "4",
    }


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Raises BadInput for a setting that is the harness's own, or that cannot be a property."""
    for key, value in overrides.items():
        if key in _RESERVED or key.startswith("listener.name."):
            raise BadInput(f"--broker-config {key}: the harness sets this one itself; leave it out")
        if not key or any(c in key for c in " =:#!\n\r\t\\") or any(c in value for c in "\n\r\\"):
            raise BadInput(f"--broker-config {key}={value}: give KEY=VALUE, one line, without backslashes")


def check_version(version: str) -> None:
    """Raises BadInput for a version that this cluster cannot run."""
    if parse_version(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise BadInput(f"Kafka version {version}: the local cluster runs KRaft only; give {oldest} or newer")


def properties(
    node: Node, nodes: Sequence[Node], version: str, data: str, overrides: Mapping[str, str]
) -> str:
    """The text of a node's server.properties. `data` is the directory of its logs."""
    check_version(version)
    check_overrides(overrides)
    voters = controllers(nodes)
    votes = node.id in {voter.id for voter in voters}
    listeners = [f"INSIDE://{node.address}:{node.port}"]
    advertised = [f"INSIDE://{node.address}:{node.port}"]
    protocols = ["INSIDE:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
    if node.outside_port is not None:
        listeners.append(f"OUTSIDE://{node.address}:{node.forward_port}")
        advertised.append(f"OUTSIDE://127.0.0.1:{node.outside_port}")
        protocols.append("OUTSIDE:PLAINTEXT")
    if votes:
        listeners.append(f"CONTROLLER://{node.address}:{node.controller_port}")
    settings = {
        "process.roles": "broker,controller" if votes else "broker",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{v.id}@{v.address}:{v.controller_port}" for v in voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(protocols),
        "inter.broker.listener.name": "INSIDE",
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


def log_config(version: str, log_file: str) -> tuple[str, str]:
    """(file name, text) of the logging configuration: Log4j 2 from 4.0 on, reload4j before."""
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
    """The command line of a broker's (or tool's) JVM.

    One collector thread and only the first compiler: three JVMs share two cores, and the second compiler
    would still be at work when a short run ends.
    """
    variable = (
        "log4j2.configurationFile" if log_config_path.endswith("log4j2.properties") else "log4j.configuration"
    )
    return [
        java.path,
        "-Xms64m",
        "-Xmx400m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        # The counters' files in /tmp are named by pid, and pids are the same in every cluster's namespace.
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
