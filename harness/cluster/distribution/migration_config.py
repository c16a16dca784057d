"""The configuration of a server while its cluster migrates from ZooKeeper to KRaft (KIP-866). Pure: data in, text out.

A server is in one of three modes. Brokers go from the first to the last; controllers start in the second one.

    zookeeper   a broker that keeps its metadata in ZooKeeper only
    migration   a broker of ZooKeeper that also knows the KRaft controllers; a controller that copies the metadata from
                ZooKeeper, and writes each change to both
    kraft       a broker or a controller that does not know ZooKeeper

Source: Kafka 3.9 documentation, 6.10, ZooKeeper to KRaft Migration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from harness.cluster.distribution import broker_config, versions
from harness.cluster.distribution.broker_config import Node
from harness.model.errors_and_exit_codes import BadInput

ZOOKEEPER: Final = "zookeeper"
MIGRATION: Final = "migration"
KRAFT: Final = "kraft"
SERIES: Final = "3.9"  # the last series with ZooKeeper, from which clusters should migrate
_ENABLE: Final = "zookeeper.metadata.migration.enable"


def check(version: str) -> None:
    """Raises BadInput if clusters are not migrated with this version."""
    if versions.parse_version(version)[:2] != versions.parse_version(versions.SERIES[SERIES])[:2]:
        raise BadInput(f"--kafka-version {version}: clusters are migrated from ZooKeeper to KRaft with {SERIES}")


def properties(
    node: Node,
    brokers: Sequence[Node],
    controllers: Sequence[Node],
    version: str,
    data: str,
    overrides: Mapping[str, str],
    zookeeper: str,
    mode: str,
) -> str:
    """Returns the text of server.properties for a server in a mode. The parameters are those of `broker_config`."""
    votes = node.id in {controller.id for controller in controllers}
    of_zookeeper = not votes and mode != KRAFT
    connect, voters = (zookeeper, ()) if of_zookeeper else ("", controllers)
    text = broker_config.properties(node, brokers, version, data, overrides, voters, connect)
    return text + "".join(f"{name}={value}\n" for name, value in _more(controllers, zookeeper, mode, votes).items())


def _more(controllers: Sequence[Node], zookeeper: str, mode: str, votes: bool) -> dict[str, str]:
    """Returns the settings that a server in the mode `migration` has in addition."""
    if mode != MIGRATION:
        return {}
    if votes:
        # The controllers send requests to the brokers of ZooKeeper.
        return {_ENABLE: "true", "zookeeper.connect": zookeeper, "inter.broker.listener.name": "INSIDE"}
    return {
        _ENABLE: "true",
        "controller.quorum.voters": broker_config.quorum(controllers),
        "controller.listener.names": "CONTROLLER",
    }
