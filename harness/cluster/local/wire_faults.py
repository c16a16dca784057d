"""The wire proxy of a local cluster: where it stands, and its orders.

Each broker gets a listener for clients that advertises a socket of the proxy's at the broker's own address,
so a client that follows the metadata comes to the proxy without knowing. The sockets belong to the brokers'
networks and what goes on to a broker comes from outside them: a packet filter between two hosts cuts what
passes through the proxy as it cuts what does not. The harness's own questions go to the brokers directly.

    w0 ── n1's network: proxy's socket :9096 ── proxy (beside the supervisor) ── n1's network: broker :9095
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import orjson

from harness.cluster.distribution.broker_config import Node
from harness.cluster.local import namespaces, remote_process
from harness.cluster.local.supervisor_client import Control
from harness.cluster.spec import EVERYBODY, Proxied
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.wire_rules import BROKERS, CLIENTS, Rule, RuleCounts, Traffic

# A port for a broker's listener for clients, and the proxy's at the broker's address, for clients and for
# other brokers; 0: any.
TakePorts = Callable[[], tuple[int, int, int]]
CLIENT_PORT: Final = 9095
PROXY_PORT: Final = 9096
PEER_PORT: Final = 9097
_BACKLOG: Final = 128
_ANSWER_TIMEOUT_S: Final = 10.0
_ANSWER_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Stand:
    """A listening socket of the proxy's and where it leads."""

    listener: socket.socket
    node: str
    sender: str
    target: tuple[str, int]


def start(
    control: Control,
    brokers: Sequence[Node],
    listen: Callable[[str, str, int], socket.socket],
    take: TakePorts,
    proxied: Proxied,
    log: str,
) -> tuple[tuple[Node, ...], WireProxy]:
    """The brokers as they are reached through a proxy, and the proxy, started. Raises ClusterTrouble.

    listen  (host, address, port) -> a listening socket there
    take    ports for a broker
    """
    placed, stands = [], []
    for node in brokers:
        client_port, proxy_port, peer_port = take()
        listener = listen(node.name, node.address, proxy_port)
        stands.append(_Stand(listener, node.name, CLIENTS, (node.address, client_port)))
        made = replace(node, client_port=client_port, proxy_port=listener.getsockname()[1])
        if proxied == EVERYBODY:
            listener = listen(node.name, node.address, peer_port)
            stands.append(_Stand(listener, node.name, BROKERS, (node.address, node.port)))
            made = replace(made, peer_port=listener.getsockname()[1])
        placed.append(made)
    return tuple(placed), WireProxy(control, stands, log)


def listening(fresh: socket.socket, address: str, port: int) -> socket.socket:
    """Make a fresh socket listen."""
    fresh.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    fresh.bind((address, port))
    fresh.listen(_BACKLOG)
    return fresh


class WireProxy:
    """A proxy that runs. Thread-safe. Its end, and that of the cluster, is the supervisor's business."""

    def __init__(self, control: Control, stands: Sequence[_Stand], log: str) -> None:
        """Start it; `log` takes what it prints, appended. Raises ClusterTrouble."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(_ANSWER_TIMEOUT_S)
        self._socket, self._lock, self._last_request, self._log = ours, threading.Lock(), 0, log
        argv = [sys.executable, "-m", "harness.cluster.wire_proxy.proxy"]
        argv += [f"{each.node}={each.sender}={each.target[0]}:{each.target[1]}" for each in stands]
        env = {"PYTHONPATH": namespaces.python_path()}
        fds = [theirs.fileno(), *(each.listener.fileno() for each in stands)]
        self.child = remote_process.spawn(control, "", argv, env, fds, log)
        theirs.close()
        for each in stands:
            each.listener.close()

    def apply(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        self._ask("apply", name=name, rules=[asdict(rule) for rule in rules], seed=seed)

    def counts(self, name: str) -> tuple[RuleCounts, ...]:
        return tuple(RuleCounts(**each) for each in self._ask("counts", name=name))

    def clear(self, name: str) -> tuple[RuleCounts, ...]:
        return tuple(RuleCounts(**each) for each in self._ask("clear", name=name))

    def traffic(self) -> Traffic:
        return Traffic(**self._ask("traffic"))

    def close(self) -> None:
        """Let it end. Safe to repeat."""
        self._socket.close()

    def _ask(self, verb: str, **arguments: object) -> Any:
        with self._lock:
            self._last_request += 1
            line = orjson.dumps({"id": self._last_request, "do": verb, **arguments})
            answer = self._exchange(line, self._last_request)
        if "error" in answer:
            raise ClusterTrouble(f"the wire proxy refused {verb}: {answer['error']}")
        return answer["ok"]

    def _exchange(self, line: bytes, number: int) -> Mapping[str, Any]:
        """Send a line and wait for its answer; an earlier one that came too late is passed over."""
        try:
            self._socket.sendall(line + b"\n")
            received = bytearray()
            while len(received) < _ANSWER_BYTES_MAX:
                chunk = self._socket.recv(1 << 16)
                if not chunk:
                    raise ClusterTrouble(f"the wire proxy has ended; {self._log} may say why")
                received += chunk
                *lines, rest = bytes(received).split(b"\n")
                for each in lines:
                    answer: Mapping[str, Any] = orjson.loads(each)
                    if answer["id"] == number:
                        return answer
                received = bytearray(rest)
        except TimeoutError:
            raise ClusterTrouble(
                f"the wire proxy did not answer in {_ANSWER_TIMEOUT_S:.0f} s; is it paused? See {self._log}"
            ) from None
        except OSError as error:
            raise ClusterTrouble(f"the wire proxy has ended ({error}); {self._log} may say why") from error
        raise ClusterTrouble("the wire proxy answers without end")
