"""The brokers' log directories: describes them, moves logs between them, and makes the last one fail.

A directory fails because another file takes its place: the broker can open no file there, but its open files keep
working. Within five seconds the broker writes its checkpoints to all directories, and notices.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from harness.cluster.distribution.broker_config import Node
from harness.cluster.local.node_files import NodeFiles
from harness.model.capabilities import LogDir
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.protocol import log_dirs
from harness.protocol.error_codes import TopicPartition
from harness.protocol.one_exchange import exchange

_TIMEOUT_S: Final = 5.0
_FAILS, _BACK = "folder-fails", "folder-back"  # kinds of `file_damage_kinds`
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogDirectories:
    """The log directories of one cluster's brokers.

    connect  creates a TCP socket in the cluster's network
    count    number of log directories of each broker
    """

    connect: Callable[[], socket.socket]
    files: NodeFiles
    count: int

    def describe(self, broker: Node) -> dict[str, LogDir]:
        return self._ask(broker, log_dirs.DESCRIBE, log_dirs.described)

    def move(self, broker: Node, moves: Mapping[str, Sequence[TopicPartition]]) -> dict[TopicPartition, str]:
        return self._ask(broker, log_dirs.alter_request(moves), log_dirs.altered)

    def fail(self, node: str) -> str:
        """Makes the last directory fail; returns its path. Does nothing if it has failed already."""
        if self.count < 2:
            raise ClusterTrouble("the brokers have only one log directory: use --log-dirs 2")
        last = f"{self.files.data(node)}{self.count}"
        self.files.damage(node, _FAILS, "", 0)
        return last

    def mend(self, node: str) -> None:
        self.files.damage(node, _BACK, "", 0)

    def failed(self, node: str) -> bool:
        return (self.files.folders[node] / f"aside-data{self.count}").exists()

    def _ask(self, broker: Node, request: bytes, read: Callable[[bytes], T]) -> T:
        try:
            return read(exchange(self.connect(), broker.address, broker.port, request, _TIMEOUT_S))
        except (OSError, ValueError) as error:
            raise ClusterTrouble(f"{broker.name} did not answer a request about its log directories: {error}") from None
