"""Connections to the brokers of a topic: finds leaders and coordinators, and retries requests.

A request is retried if the error in its response shows that the request had no effect. A request is also retried if the
connection breaks, unless the caller forbids it (`once`): appending without sequence numbers twice could write the
records twice. Retries end at a deadline.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from typing import Final, TypeVar

from harness.protocol import error_codes, requests
from harness.protocol.error_codes import ClientError
from harness.protocol.one_exchange import receive
from harness.protocol.primitives import head

T = TypeVar("T")
PATIENCE_S: Final = 60.0  # longer than a killed broker stays down
REQUEST_S: Final = 20.0
_AGAIN_S: Final = 0.02


class Uncertain(Exception):
    """Raised when it is unknown whether a request had an effect."""


class Link:
    """A client that sends requests about topics to the right brokers.

    bootstrap   a list "host:port,host:port,..."
    patience_s  how long a request is retried
    """

    def __init__(self, bootstrap: str, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        pairs = (address.rpartition(":") for address in bootstrap.split(","))
        self._bootstrap = [(host.strip(), int(port)) for host, _, port in pairs]
        self._open: dict[tuple[str, int], socket.socket] = {}
        self._placed: dict[str, requests.Placed] = {}
        self._coordinators: dict[str, int] = {}
        self._number = 0

    def ask(self, address: tuple[str, int], api: tuple[int, int], body: bytes) -> bytes:
        """Sends one request, and returns its response. Raises OSError."""
        self._number += 1
        request = head(*api, self._number) + body
        try:
            if address not in self._open:
                self._open[address] = socket.create_connection(address, 5.0)
                self._open[address].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened = self._open[address]
            deadline = time.monotonic() + REQUEST_S
            opened.settimeout(REQUEST_S)
            opened.sendall(struct.pack(">i", len(request)) + request)
            answer = receive(opened, deadline)
        except OSError:
            if (broken := self._open.pop(address, None)) is not None:
                broken.close()
            raise
        return answer[4:]

    def placed(self, topic: str) -> requests.Placed:
        """Returns where the topic's partitions are, as the first broker that responds reports it.

        Raises ClientError if no broker responds.
        """
        reason = ""
        for address in (each for each in self._bootstrap for _ in range(2)):  # the first connection may be broken
            try:
                self._placed[topic] = requests.placed(
                    self.ask(address, requests.METADATA, requests.topic_metadata(topic))
                )
                return self._placed[topic]
            except OSError as error:
                reason = str(error)
        raise ClientError("_TRANSPORT", f"no broker answers: {reason}")

    def leader(self, topic: str, partition: int) -> tuple[str, int] | None:
        """Returns the address of the partition's leader, or None if there is no leader.

        Asks a broker unless the topic's metadata is known from an earlier response.
        """
        metadata = self._placed.get(topic) or self.placed(topic)
        place = metadata.partitions.get(partition)
        return None if place is None else metadata.brokers.get(place[0])

    def brokers(self, topic: str) -> list[tuple[str, int]]:
        return list((self._placed.get(topic) or self.placed(topic)).brokers.values())

    def at_leader(
        self,
        topic: str,
        partition: int,
        api: tuple[int, int],
        body: bytes,
        read: Callable[[bytes], T],
        code: Callable[[T], int],
        once: bool = False,
    ) -> T:
        """Sends a request to the partition's leader, again and again until the response contains no retriable error.

        api   (API key, version)
        read  function that decodes the response
        code  function that returns the error code of a decoded response
        once  do not repeat a request that may have had an effect; raise Uncertain instead

        Raises ClientError if there is no such response within `patience_s`.
        """

        def forget() -> None:
            self._placed.pop(topic, None)

        return self._persist(lambda: self.leader(topic, partition), forget, api, body, read, code, once)

    def at_coordinator(
        self,
        transactional_id: str,
        topic: str,
        api: tuple[int, int],
        body: bytes,
        read: Callable[[bytes], T],
        code: Callable[[T], int],
        of_group: bool = False,
    ) -> T:
        """Sends a request to the transactional id's coordinator, again and again until the response contains no
        retriable error. With `of_group`, `transactional_id` is the id of a group.

        For `api`, `read`, `code` and the error, see `at_leader`. Brokers are found through the metadata of `topic`.
        """

        def where() -> tuple[str, int] | None:
            if transactional_id not in self._coordinators:
                request = requests.find_coordinator(transactional_id, of_group)
                address = self.brokers(topic)[0]
                error, broker = requests.coordinator(self.ask(address, requests.FIND_COORDINATOR, request))
                if error:
                    return None
                self._coordinators[transactional_id] = broker
            return self.placed(topic).brokers.get(self._coordinators[transactional_id])

        def forget() -> None:
            self._coordinators.pop(transactional_id, None)
            self._placed.pop(topic, None)

        return self._persist(where, forget, api, body, read, code, False)

    def _persist(
        self,
        where: Callable[[], tuple[str, int] | None],
        forget: Callable[[], None],
        api: tuple[int, int],
        body: bytes,
        read: Callable[[bytes], T],
        code: Callable[[T], int],
        once: bool,
    ) -> T:
        deadline, reason = time.monotonic() + self._patience_s, "no leader or coordinator"
        while True:
            try:
                address = where()
            except (OSError, ClientError) as error:
                address, reason = None, str(error)
            if address is not None:
                try:
                    answer = read(self.ask(address, api, body))
                except OSError as error:
                    if once:
                        raise Uncertain(str(error)) from None
                    reason = f"{address[0]}:{address[1]}: {error}"
                else:
                    if code(answer) in error_codes.UNCERTAIN and once:
                        raise Uncertain(error_codes.name(code(answer)))
                    if code(answer) not in error_codes.RETRIABLE | error_codes.UNCERTAIN:
                        return answer
                    reason = error_codes.name(code(answer))
            if time.monotonic() > deadline:
                raise ClientError(
                    "_TIMED_OUT",
                    f"no success in {self._patience_s:.0f} s with a request of API key {api[0]} ({reason})",
                )
            forget()
            time.sleep(_AGAIN_S)

    def close(self) -> None:
        for opened in self._open.values():
            with contextlib.suppress(OSError):
                opened.close()
        self._open.clear()
