"""Forwards TCP connections from ports of this machine's 127.0.0.1 to addresses inside the cluster's network.

    python -m harness.cluster.local.port_forward 10.64.1.1:9094 10.64.1.2:9094 ...

Descriptor 3 is a listening socket for the first address, 4 for the second, and so on. A socket belongs to the network
namespace in which it was opened. The listening sockets were opened on this machine, outside the cluster's namespace.
This process runs in the cluster's namespace, so the sockets that it opens belong to the cluster's network.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

_CHUNK_BYTES = 1 << 16
_CONNECT_TIMEOUT_S = 10.0
_FIRST_FD = 3


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies bytes until the end of the stream, and forwards the end of the stream."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _carry(outer: tuple[asyncio.StreamReader, asyncio.StreamWriter], address: str, port: int) -> None:
    """Forwards one connection in both directions. If the broker is unreachable, closes the connection."""
    with suppress(OSError, TimeoutError):
        opening = asyncio.open_connection(address, port)
        inner = await asyncio.wait_for(opening, _CONNECT_TIMEOUT_S)
        try:
            await asyncio.gather(_pump(outer[0], inner[1]), _pump(inner[0], outer[1]))
        finally:
            inner[1].close()
    outer[1].close()


async def _serve(targets: Sequence[str]) -> None:
    servers = []
    for number, target in enumerate(targets):
        address, _, port = target.rpartition(":")

        async def connected(
            reader: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
            to: tuple[str, int] = (address, int(port)),
        ) -> None:
            await _carry((reader, writer), *to)

        listener = socket.socket(fileno=_FIRST_FD + number)
        listener.setblocking(False)
        servers.append(await asyncio.start_server(connected, sock=listener))
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1:]))
