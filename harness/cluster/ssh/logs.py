"""Copies a broker's logs and configuration from a host of an ssh cluster to this machine."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.cluster.ssh import preflight
from harness.cluster.ssh.commands_on_hosts import Link, Sink
from harness.model.errors_and_exit_codes import ClusterTrouble

READ_BYTES: Final = 1 << 20


def fetch(link: Link, source: str, target: Path, timeout_s: float) -> None:
    """Copies a broker's logs and configuration from the host's folder `source` to `target`. Raises ClusterTrouble."""
    with tempfile.TemporaryFile() as packed:

        def take(data: bytes) -> None:
            packed.write(data)

        def discard() -> None:
            packed.seek(0)
            packed.truncate()

        _stream(link, timeout_s, take, discard, "logs", source)
        unpack(packed, target)


def read(link: Link, source: str, offset: int, timeout_s: float) -> bytes:
    """Returns at most 1 MiB of the server's log, from byte `offset` on. Raises ClusterTrouble."""
    found = bytearray()
    _stream(link, timeout_s, found.extend, found.clear, "from", source, str(offset + 1), str(READ_BYTES))
    return bytes(found)


def _stream(
    link: Link, timeout_s: float, take: Sink, discard: Callable[[], None], name: str, folder: str, *more: str
) -> None:
    """Passes the output of the command `name` of host_commands.sh to `take`. Raises ClusterTrouble.

    `discard` is called before the command is run a second time, if the connection broke.
    """

    def give(sink: Sink) -> None:
        sink(preflight.script())

    host = link.host
    code, output = link.stream(preflight.command(host, name, folder, *more), timeout_s, give, take, discard)
    if code not in (0, 1):  # tar exits with 1 if a file grew while it was read
        raise ClusterTrouble(f"{host.name} ({host.at}): {name}: {output or f'exit code {code}'}")


def unpack(packed: Any, folder: Path) -> None:
    """Extracts the files of a tar stream to a folder.

    Extracts only files with plain names, without folders, because the host is not trusted.
    """
    packed.seek(0)
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(tarfile.TarError), tarfile.open(fileobj=packed, mode="r:") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None and Path(member.name).name == member.name:
                with (folder / member.name).open("wb") as file:
                    while piece := content.read(1 << 20):
                        file.write(piece)
