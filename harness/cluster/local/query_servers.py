"""Queries the servers of a local cluster one by one: registered brokers, partition leaders, active controller."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from harness.cluster.distribution import zookeeper
from harness.cluster.distribution.broker_config import Node
from harness.cluster.local.layout import Layout, Place
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.protocol import brokers_metadata_views, features, quorum
from harness.protocol.brokers_metadata_views import View
from harness.protocol.one_exchange import exchange
from harness.protocol.quorum import Quorum

_TIMEOUT_S: Final = 1.0
_CHANGE_TIMEOUT_S: Final = 10.0
_STATUS_BYTES: Final = 1 << 16
# The length prefix -1: the server closes the connection and logs that it did.
_NONSENSE: Final = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class ServerQueries:
    """Queries the servers of one cluster. `connect` creates a TCP socket in the cluster's network."""

    layout: Layout
    connect: Callable[[], socket.socket]

    def view(self, broker: Node) -> View | None:
        """Returns what a broker knows of the metadata; None if the broker does not answer."""
        with suppress(OSError, ValueError):
            return brokers_metadata_views.ask(self.connect(), broker.address, broker.port, _TIMEOUT_S)
        return None

    def views(self) -> list[View]:
        """Returns what each broker that answers knows of the metadata."""
        found = (self.view(broker) for broker in self.layout.brokers)
        return [view for view in found if view is not None]

    def controller(self) -> int | None:
        """Returns the id of the active controller; None if it cannot be determined.

        With KRaft, all voters are asked for the leader of the metadata quorum; the response with the highest epoch
        counts. So it is while a cluster migrates from ZooKeeper and has controllers. Brokers are not asked, because a
        broker forwards the request to the leader that it knows, and waits if that leader does not answer. With
        ZooKeeper, the controller is the broker that most brokers name.
        """
        if self.layout.zookeepers and not self.layout.controllers:
            return most_named(view.controller for view in self.views())
        found = [state for _, state in self.quorum()]
        return max(found).leader if found else None

    def quorum(self) -> list[tuple[str, Quorum]]:
        """Asks each voter for the state of the metadata quorum. Returns (name, answer) for those that say they lead."""
        found = []
        for voter in self.layout.controllers or self.layout.voters:
            with suppress(OSError, ValueError):
                found.append((voter.name, quorum.parse(self._quorum(voter))))
        return found

    def ask_leader(self, request: bytes) -> bytes:
        """Sends a request to the leader of the metadata quorum, and returns the response.

        Raises ClusterTrouble if no voter leads, or if the leader does not answer.
        """
        states = self.quorum()
        leader = max(state for _, state in states).leader if states else None
        for voter in self.layout.voters:
            if voter.id == leader:
                try:
                    return exchange(self.connect(), voter.address, voter.controller_port, request, _CHANGE_TIMEOUT_S)
                except (OSError, ValueError) as error:
                    raise ClusterTrouble(f"{voter.name} does not answer: {error}") from None
        raise ClusterTrouble("the metadata quorum has no leader")

    def silent(self) -> list[str]:
        """Returns the names of the dedicated controllers and ZooKeepers that do not answer."""
        return [place.name for place in self.layout.metadata_servers if not self._answers(place)]

    def features(self, name: str) -> features.Finalized | None:
        """Returns the finalized features that a server reports; None if it reports none, or does not answer."""
        node = next(place for place in self.layout.places if place.name == name)
        if not isinstance(node, Node):
            return None
        with suppress(OSError, ValueError):
            port = node.port or node.controller_port
            return features.reported(exchange(self.connect(), node.address, port, features.request(), _TIMEOUT_S))
        return None

    def provoke(self, name: str) -> None:
        """Makes the broker or controller `name` write a line to its log, by sending a malformed request.

        Raises OSError if the server accepts no connection.
        """
        node = next(place for place in self.layout.places if place.name == name and isinstance(place, Node))
        with self.connect() as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect((node.address, node.port or node.controller_port))
            connection.sendall(_NONSENSE)

    def _answers(self, place: Place) -> bool:
        with suppress(OSError, ValueError):
            if isinstance(place, Node):  # any answer shows that it is running, whoever the leader is
                return bool(self._quorum(place))
            return zookeeper.serves(self._status(place.address, place.port))
        return False

    def _quorum(self, voter: Node) -> bytes:
        """Returns a controller's response to a DescribeQuorum request."""
        port = voter.controller_port
        return exchange(self.connect(), voter.address, port, quorum.REQUEST, _TIMEOUT_S)

    def _status(self, address: str, port: int) -> bytes:
        """Returns a ZooKeeper's response to a status command. ZooKeeper then closes the connection."""
        answer = b""
        with self.connect() as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect((address, port))
            connection.sendall(zookeeper.STATUS)
            while len(answer) < _STATUS_BYTES and (chunk := connection.recv(4096)):
                answer += chunk
        return answer


def most_named(named: Iterable[int | None]) -> int | None:
    """Returns the most frequent value, ignoring None; None if there is no value, or if two are equally frequent."""
    counted = Counter(each for each in named if each is not None).most_common(2)
    if not counted or (len(counted) == 2 and counted[0][1] == counted[1][1]):
        return None
    return counted[0][0]
