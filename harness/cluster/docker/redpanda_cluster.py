"""Redpanda's brokers in containers. They differ from Kafka's in how they start, and in how coordinators are found."""

from __future__ import annotations

import urllib.request
from contextlib import suppress
from typing import Final

from harness.cluster.docker import redpanda
from harness.cluster.docker.cluster import DockerCluster, new_socket
from harness.protocol.one_exchange import exchange

_TIMEOUT_S: Final = 1.0
_ANSWER_BYTES: Final = 1 << 20


class RedpandaCluster(DockerCluster):
    """A DockerCluster that asks the brokers which broker is the coordinator of a group or transactional id.

    In Kafka the hash of the name determines the coordinator; in Redpanda it does not.
    """

    def controller(self) -> int | None:
        """Returns the id of the controller leader, from the admin ports; None if no node reports one."""
        for node in self.nodes:
            port = self.containers.port(node, redpanda.ADMIN_PORT)
            url = f"http://127.0.0.1:{port}{redpanda.CONTROLLER_PATH}"
            with suppress(OSError), urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
                controller = redpanda.controller(answer.read(_ANSWER_BYTES))
                if controller is not None:
                    return controller
        return None

    def coordinator(self, role: str, name: str) -> int | None:
        """Returns the id of the coordinator of a group or transactional id; None if no node reports one."""
        request = redpanda.coordinator_request(role, name)
        for node in self.nodes:
            port = self.containers.port(node, redpanda.KAFKA_PORT)
            with suppress(OSError, ValueError):
                answer = exchange(new_socket(), "127.0.0.1", port, request, _TIMEOUT_S)
                coordinator = redpanda.coordinator(answer)
                if coordinator is not None:
                    return coordinator
        return None
