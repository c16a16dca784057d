"""Starts and controls the wire proxy of a local cluster.

Each broker has a listener for clients. As the address of this listener, the broker advertises a socket of the proxy at
the broker's own IP address, so clients that follow the metadata connect to the proxy without any configuration. The
proxy's listening sockets belong to the brokers' network namespaces. Therefore a packet filter between two hosts blocks
traffic through the proxy, too. The proxy connects to a broker from outside that broker's namespace. The harness's own
requests go to the brokers directly.

    w0 ── n1's network: proxy's socket :9096 ── proxy (in the supervisor's network) ── n1's network: broker :9095
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

# Returns three ports for a broker: (port of the broker's listener for clients, port of the proxy's socket for clients,
# port of the proxy's socket for other brokers). 0 stands for any free port of the proxy.
TakePorts = Callable[[], tuple[int, int, int]]
CLIENT_PORT: Final = 9095
PROXY_PORT: Final = 9096
PEER_PORT: Final = 9097
_BACKLOG: Final = 128
_ANSWER_TIMEOUT_S: Final = 10.0
_ANSWER_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Listener:
    """A listening socket of the proxy.

    node    the broker
    sender  who connects to the socket: clients or brokers
    target  (address, port) to which the proxy forwards connections
    """

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
    """Starts a proxy. Returns (copies of the brokers with the proxy's ports set, the proxy).

    listen   function (host, address, port) that returns a socket that listens there
    take     function that returns (client_port, proxy_port, peer_port) for a broker: see `Node`
    proxied  whether only clients, or also other brokers, connect through the proxy
    log      file for the proxy's output

    Raises ClusterTrouble.
    """
    placed, listeners = [], []
    for node in brokers:
        client_port, proxy_port, peer_port = take()
        listener = listen(node.name, node.address, proxy_port)
        listeners.append(_Listener(listener, node.name, CLIENTS, (node.address, client_port)))
        made = replace(node, client_port=client_port, proxy_port=listener.getsockname()[1])
        if proxied == EVERYBODY:
            listener = listen(node.name, node.address, peer_port)
            listeners.append(_Listener(listener, node.name, BROKERS, (node.address, node.port)))
            made = replace(made, peer_port=listener.getsockname()[1])
        placed.append(made)
    return tuple(placed), WireProxy(control, listeners, log)


def listening(fresh: socket.socket, address: str, port: int) -> socket.socket:
    """Makes the socket `fresh` listen at an address and port; returns the socket."""
    fresh.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    fresh.bind((address, port))
    fresh.listen(_BACKLOG)
    return fresh


class WireProxy:
    """A running proxy process. Thread-safe. The supervisor ends it together with the cluster."""

    def __init__(self, control: Control, listeners: Sequence[_Listener], log: str) -> None:
        """Starts the proxy. Its output is appended to the file `log`. Raises ClusterTrouble."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(_ANSWER_TIMEOUT_S)
        self._socket, self._lock, self._last_request, self._log = ours, threading.Lock(), 0, log
        argv = [sys.executable, "-m", "harness.cluster.wire_proxy.proxy"]
        argv += [f"{each.node}={each.sender}={each.target[0]}:{each.target[1]}" for each in listeners]
        env = {"PYTHONPATH": namespaces.python_path()}
        fds = [theirs.fileno(), *(each.listener.fileno() for each in listeners)]
        self.child = remote_process.spawn(control, "", argv, env, fds, log)
        theirs.close()
        for each in listeners:
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
        """Closes the connection to the proxy, which makes the proxy end. May be called more than once."""
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
        """Sends the request `line`, and returns the answer with this number; skips late answers to earlier requests."""
        try:
            self._socket.sendall(line + b"\n")
            received = bytearray()
            while len(received) < _ANSWER_BYTES_MAX:
                chunk = self._socket.recv(1 << 16)
                if not chunk:
                    raise ClusterTrouble(f"the wire proxy has ended; see {self._log} for the reason")
                received += chunk
                *lines, rest = bytes(received).split(b"\n")
                for each in lines:
                    answer: Mapping[str, Any] = orjson.loads(each)
                    if answer["id"] == number:
                        return answer
                received = bytearray(rest)
        except TimeoutError:
            raise ClusterTrouble(
                f"the wire proxy did not answer within {_ANSWER_TIMEOUT_S:.0f} s; is it paused? See {self._log}"
            ) from None
        except OSError as error:
            raise ClusterTrouble(f"the wire proxy has ended ({error}); see {self._log} for the reason") from error
        raise ClusterTrouble(f"the wire proxy's answer is longer than {_ANSWER_BYTES_MAX >> 20} MiB; see {self._log}")
