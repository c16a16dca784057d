"""Which upgrades from one Kafka version to another are documented, and what they need. Pure.

Kafka documents rolling upgrades between any two releases of the same mode, also past several releases. A cluster with
ZooKeeper must first migrate to KRaft, on 3.9, before it can run 4.0 or later. Before the upgrade, a cluster with
ZooKeeper pins inter.broker.protocol.version to its current version, and lifts the pin in a second roll. With KRaft the
brokers' features stay at their levels until UpdateFeatures raises them. Source: Kafka documentation, 1.5, Upgrading.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from harness.cluster.distribution import versions
from harness.cluster.distribution.versions import KRAFT, WITHOUT_ZOOKEEPER, ZOOKEEPER, Metadata, parse_version
from harness.model.errors_and_exit_codes import BadInput

# The broker setting that pins the protocol between brokers, with ZooKeeper.
PROTOCOL: Final = "inter.broker.protocol.version"
# The pairs that are tested, neighbours in the lists of series.
TESTED: Final[dict[Metadata, tuple[str, ...]]] = {
    ZOOKEEPER: ("2.8", "3.4", "3.9"),
    KRAFT: ("3.4", "3.9", "4.1", "4.3", "4.4"),
}


def check(old: str, new: str, metadata: Metadata) -> None:
    """Raises BadInput if Kafka does not document a rolling upgrade of a cluster from version `old` to `new`."""
    if parse_version(new) <= parse_version(old):
        raise BadInput(f"--upgrade-to {new}: must be newer than --kafka-version {old}")
    if metadata == ZOOKEEPER and parse_version(new) >= WITHOUT_ZOOKEEPER:
        raise BadInput(
            f"--upgrade-to {new} with Kafka {old} and ZooKeeper: {new} has no ZooKeeper. Kafka documents the way over "
            "3.9: upgrade to 3.9, migrate to KRaft there, then upgrade to 4.x"
            + ("; or use --metadata kraft" if KRAFT in versions.modes(old) else "")
        )
    versions.check(new, metadata)


def protocol_of(version: str) -> str:
    """Returns the value of inter.broker.protocol.version for a version, such as "2.8"."""
    major, minor, _ = parse_version(version)
    return f"{major}.{minor}"


def neighbours() -> list[tuple[Metadata, str, str]]:
    """Returns (mode, old series, new series) of each tested pair of neighbours."""
    return [(mode, old, new) for mode, series in TESTED.items() for old, new in pairwise(series)]
