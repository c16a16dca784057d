"""Decides which servers a local cluster has, and what their names, ids, addresses and ports are. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from harness.cluster.distribution import broker_config
from harness.cluster.distribution.broker_config import MAX_CONTROLLERS, MAX_NODES, Node
from harness.cluster.distribution.versions import KRAFT, ZOOKEEPER, Metadata
from harness.cluster.distribution.zookeeper import Keeper
from harness.cluster.spec import ClusterSpec
from harness.model.errors_and_exit_codes import BadInput

MAX_ZOOKEEPERS = 3
Place: TypeAlias = Node | Keeper


@dataclass(frozen=True, slots=True)
class Layout:
    """The servers, by kind.

    brokers      n1, n2, ...
    controllers  c1, c2, ...: dedicated controllers; empty if the first brokers are also controllers
    zookeepers   z1, ...; empty with KRaft
    """

    brokers: tuple[Node, ...]
    controllers: tuple[Node, ...] = ()
    zookeepers: tuple[Keeper, ...] = ()

    @property
    def metadata(self) -> Metadata:
        return ZOOKEEPER if self.zookeepers else KRAFT

    @property
    def voters(self) -> tuple[Node, ...]:
        """The controllers that vote in the metadata quorum; empty with ZooKeeper."""
        return () if self.zookeepers else self.controllers or broker_config.controllers(self.brokers)

    @property
    def metadata_servers(self) -> tuple[Place, ...]:
        """The metadata servers that are not brokers: dedicated controllers and ZooKeepers."""
        return (*self.controllers, *self.zookeepers)

    @property
    def places(self) -> tuple[Place, ...]:
        """All servers, in the order in which they start."""
        return (*self.metadata_servers, *self.brokers)


def _make(
    nodes: int,
    controllers: int,
    metadata: Metadata,
    address: Callable[[int], str],
    port: Callable[[int], int],
    migrates: bool,
) -> Layout:
    """Returns a layout. The brokers have the ids 1, 2, ..., and the dedicated controllers the next ids.

    address   function from a host number to an address; brokers are hosts 1, 2, ..., dedicated controllers 101, ...,
              ZooKeepers 201, ...
    port      function from the default port of a listener, such as 9092, to the port that a server uses for it
    migrates  whether the cluster will migrate from ZooKeeper to the controllers
    """
    if not 1 <= nodes <= MAX_NODES:
        raise BadInput(f"--nodes {nodes}: must be from 1 to {MAX_NODES}")
    if not 0 <= controllers <= MAX_CONTROLLERS:
        raise BadInput(
            f"--controllers {controllers}: must be from 1 to {MAX_CONTROLLERS}, or 0 for no dedicated controllers"
        )
    if controllers and metadata == ZOOKEEPER and not migrates:
        raise BadInput("--controllers requires KRaft: with ZooKeeper one of the brokers is the controller")
    return Layout(
        tuple(Node(f"n{i}", i, address(i), port(9092), port(9093)) for i in range(1, nodes + 1)),
        tuple(Node(f"c{i}", nodes + i, address(100 + i), 0, port(9093)) for i in range(1, controllers + 1)),
        tuple(
            Keeper(f"z{i}", i, address(200 + i), port(2181), port(2888), port(3888))
            for i in range(1, _keepers(nodes, metadata) + 1)
        ),
    )


def metadata_server_names(nodes: int, controllers: int, metadata: Metadata) -> list[str]:
    """Returns the names of the metadata servers that are not brokers."""
    return [f"c{i + 1}" for i in range(controllers)] + [f"z{i + 1}" for i in range(_keepers(nodes, metadata))]


def server_names(spec: ClusterSpec) -> list[str]:
    """Returns the names of all servers of a local cluster: brokers, then the other metadata servers."""
    brokers = [f"n{number}" for number in range(1, spec.nodes + 1)]
    return brokers + metadata_server_names(spec.nodes, spec.controllers, spec.metadata_kept)


def _keepers(nodes: int, metadata: Metadata) -> int:
    """Returns the number of ZooKeeper servers."""
    return 0 if metadata == KRAFT else MAX_ZOOKEEPERS if nodes >= MAX_ZOOKEEPERS else 1


def isolated(nodes: int, controllers: int, metadata: Metadata, migrates: bool = False) -> Layout:
    """Returns a layout in which every server has its own address. Raises BadInput."""
    return _make(nodes, controllers, metadata, lambda n: f"10.64.1.{n}", lambda usual: usual, migrates)


def on_loopback(
    nodes: int, controllers: int, metadata: Metadata, free: Callable[[], int], migrates: bool = False
) -> Layout:
    """Returns a layout in which all servers are on 127.0.0.1, at ports that `free` returns.

    Raises BadInput, and whatever `free` raises.
    """
    return _make(nodes, controllers, metadata, lambda n: "127.0.0.1", lambda usual: free(), migrates)
