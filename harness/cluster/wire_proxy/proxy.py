"""A proxy between Kafka's clients and brokers that holds, drops, duplicates or cuts off frames according to rules.

    python -m harness.cluster.wire_proxy.proxy n1=clients=10.64.1.1:9095 n2=clients=10.64.1.2:9095 ...

Each argument is BROKER=SENDER=ADDRESS:PORT. SENDER says who connects: clients or brokers. Descriptor 3 is the control
socket, 4 the listening socket for the first argument, 5 for the second, and so on. Brokers advertise the addresses of
these sockets, so clients connect to the proxy automatically, and frames need no changes. The process has a single
thread. It ends when the control socket is closed.

Control protocol: one JSON object per line, {"id": n, "do": verb, ...}. The answer is {"id": n, "ok": ...} or
{"id": n, "error": text}. Verbs, their arguments and their answers:

    apply   {name, rules: [Rule], seed}     put rules into effect; they replace earlier rules with the same name
    counts  {name}                          -> [RuleCounts]
    clear   {name}                          -> final [RuleCounts]; frames that the rules hold are forwarded
    traffic {}                              -> Traffic
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import orjson

from harness.cluster.wire_proxy import error_answers
from harness.cluster.wire_proxy.connection import Connection
from harness.cluster.wire_proxy.connection_parts import Counters, Numbered, Shared
from harness.cluster.wire_proxy.loop import READ, Endpoint, Loop
from harness.cluster.wire_proxy.rules import HeldFrame, Rules
from harness.model.wire_rules import ANSWER, CLIENTS, Traffic, rule_of

CONTROL_FD: Final = 3
LINE_BYTES_MAX: Final = 1 << 20
_ACCEPT_AT_ONCE: Final = 64
# Delay before accepting again after a failure, for example because there are no free descriptors.
_ACCEPT_AGAIN_S: Final = 0.1


class Proxy:
    """All state of the proxy: rules, connections, counters."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.rules = Rules()
        self.counters = Counters()
        self._open: dict[int, Connection] = {}
        self._shared = Shared(self.rules, self.counters, self.loop.at, self._free, self._closed)
        self._ended = False
        self._unparsed = 0

    def serve(self) -> None:
        """Serves until the control socket is closed."""
        self.loop.run(lambda: not self._ended)

    # --- connections ----------------------------------------------------------------------------------

    def listen(self, listener: socket.socket, node: str, sender: str, target: tuple[str, int]) -> None:
        """Accepts connections at the socket `listener`, and forwards them to a broker.

        node    name of the broker
        sender  who connects: clients or brokers
        target  (address, port) of the broker
        """
        listener.setblocking(False)
        accept = partial(self._accept, listener, node, sender, target)
        self.loop.add(listener.fileno(), READ, accept)

    def _accept(self, listener: socket.socket, node: str, sender: str, target: tuple[str, int], events: int) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                inner, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self.loop.change(listener.fileno(), 0)
                    self.loop.at(
                        time.monotonic() + _ACCEPT_AGAIN_S,
                        partial(self.loop.change, listener.fileno(), READ),
                    )
                return
            self._connect(inner, node, sender, target)

    def _connect(self, inner: socket.socket, node: str, sender: str, target: tuple[str, int]) -> None:
        outer = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        for end in (inner, outer):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if outer.connect_ex(target) not in (0, errno.EINPROGRESS):
            inner.close()
            outer.close()
            return
        self.counters.connections += 1
        made = Connection(self._shared, self.counters.connections, node, sender)
        self._open[made.number] = made
        made.start(
            Endpoint(self.loop, inner, made.from_client, made.client_drained),
            Endpoint(self.loop, outer, made.from_broker, made.broker_drained, connecting=True),
        )

    def _closed(self, connection: Numbered) -> None:
        self._open.pop(connection.number, None)
        if self.counters.unparsed > self._unparsed:
            self._unparsed = self.counters.unparsed
            print(
                f"{self._unparsed} connections did not use Kafka's protocol: forwarded unchanged",
                flush=True,
            )

    def _free(self, released: list[HeldFrame]) -> None:
        for number in {held.connection for held in released}:
            if number in self._open:
                self._open[number].pump()

    # --- control --------------------------------------------------------------------------------------

    def control(self, control: socket.socket) -> None:
        """Answers requests from a control socket. When the socket is closed, the proxy ends."""
        control.setblocking(True)
        rest = bytearray()

        def ready(events: int) -> None:
            try:
                data = control.recv(1 << 16)
            except OSError:
                data = b""
            if not data or len(rest) > LINE_BYTES_MAX:
                self._ended = True
                return
            rest.extend(data)
            *lines, last = bytes(rest).split(b"\n")
            rest[:] = last
            for line in lines:
                control.sendall(self.answer(line) + b"\n")

        self.loop.add(control.fileno(), READ, ready)

    def answer(self, line: bytes) -> bytes:
        """Executes a request; returns the answer. If the request fails, the answer contains `error`."""
        number = None
        try:
            message = orjson.loads(line)
            number = message["id"]
            done = self._verbs()[message["do"]](message)
        except Exception as error:
            return orjson.dumps({"id": number, "error": f"{type(error).__name__}: {error}"})
        return orjson.dumps({"id": number, "ok": done})

    def _verbs(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        return {"apply": self._apply, "counts": self._counts, "clear": self._clear, "traffic": self._traffic}

    def _apply(self, message: dict[str, Any]) -> Any:
        rules = [rule_of(data) for data in message["rules"]]
        if any(rule.action == ANSWER for rule in rules):
            error_answers.load()
        self._clear(message)
        self.rules.apply(message["name"], rules, message["seed"])
        return []

    def _counts(self, message: dict[str, Any]) -> Any:
        return [asdict(counts) for counts in self.rules.counts(message["name"])]

    def _clear(self, message: dict[str, Any]) -> Any:
        removed = self.rules.clear(message["name"])
        for connection in list(self._open.values()):
            connection.forget(removed)
        return [asdict(active.counts()) for active in removed]

    def _traffic(self, message: dict[str, Any]) -> Any:
        return asdict(Traffic(**asdict(self.counters), open=len(self._open)))


def main(argv: list[str]) -> int:
    """Forwards connections as the arguments say (see above), until the control socket is closed."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(-10)  # every request waits for this process; root only
    proxy = Proxy()
    proxy.control(socket.socket(fileno=CONTROL_FD))
    for at, target in enumerate(argv, CONTROL_FD + 1):
        node, sender, place = target.split("=")
        address, _, port = place.rpartition(":")
        proxy.listen(socket.socket(fileno=at), node, sender or CLIENTS, (address, int(port)))
    proxy.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
