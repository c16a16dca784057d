"""Reserves TCP ports of 127.0.0.1 for servers, so that other runs do not take them."""

from __future__ import annotations

import os
import socket

from harness.model.errors_and_exit_codes import Missing

_LOWEST, _HIGHEST = 20_000, 32_000  # below the system's ephemeral port range


class Ports:
    """Reserves each port with a socket that is bound to it but does not listen.

    Another run that tries to reserve the port fails. A server can still bind to the port, repeatedly, because every JVM
    binds with SO_REUSEADDR. All ports are released when this process ends, for whatever reason.
    """

    def __init__(self) -> None:
        self._next = _LOWEST + os.getpid() * 61 % 10_000  # different runs usually start at different ports
        self._holders: list[socket.socket] = []

    def take(self) -> int:
        """Reserves a port that is not in use, and returns it. Raises Missing."""
        for _ in range(_HIGHEST - _LOWEST):
            port = self._next
            self._next = port + 1 if port + 1 < _HIGHEST else _LOWEST
            holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                holder.bind(("127.0.0.1", port))
            except OSError:
                holder.close()
                continue
            # Set only after bind: with the option, bind would succeed although another run has reserved the port.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._holders.append(holder)
            return port
        raise Missing(f"all ports of 127.0.0.1 from {_LOWEST} to {_HIGHEST} are in use: stop programs that use them")

    def give_back(self) -> None:
        """Releases all ports."""
        for holder in self._holders:
            holder.close()
        self._holders = []
