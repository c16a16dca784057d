"""TCP ports of 127.0.0.1 for servers, kept from other runs until they are given back."""

from __future__ import annotations

import os
import socket

from harness.model.errors_and_exit_codes import Missing

_LOWEST, _HIGHEST = 20_000, 32_000  # below the range that the system hands out itself


class Ports:
    """Each port that was taken is held by a socket that is bound and does not listen.

    Another run's attempt to take it fails; a server, which as every JVM binds with SO_REUSEADDR, may have it,
    again and again. The end of this process, however it comes, gives all of them back.
    """

    def __init__(self) -> None:
        self._next = _LOWEST + os.getpid() * 61 % 10_000  # runs seldom begin at the same place
        self._holders: list[socket.socket] = []

    def take(self) -> int:
        """A port that nothing uses. Raises Missing."""
        for _ in range(_HIGHEST - _LOWEST):
            port = self._next
            self._next = port + 1 if port + 1 < _HIGHEST else _LOWEST
            holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                holder.bind(("127.0.0.1", port))
            except OSError:
                holder.close()
                continue
            # Only now: with it, the attempt would succeed beside another run's.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._holders.append(holder)
            return port
        raise Missing(f"all ports of 127.0.0.1 from {_LOWEST} to {_HIGHEST} are in use: end what uses them")

    def give_back(self) -> None:
        """Let go of all of them."""
        for holder in self._holders:
            holder.close()
        self._holders = []
