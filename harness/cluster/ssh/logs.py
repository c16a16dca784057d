"""Logs and configuration of a broker, from a host of an ssh cluster to this machine."""

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
    """Copy them from a run's folder there into `target`. Raises ClusterTrouble."""
    with tempfile.TemporaryFile() as packed:

        def take(data: bytes) -> None:
            packed.write(data)

        def anew() -> None:
            packed.seek(0)
            packed.truncate()

        _stream(link, timeout_s, take, anew, "logs", source)
        unpack(packed, target)


def read(link: Link, source: str, offset: int, timeout_s: float) -> bytes:
    """At most 1 MiB of the server's log from a byte offset. Raises ClusterTrouble."""
    found = bytearray()
    _stream(link, timeout_s, found.extend, found.clear, "from", source, str(offset + 1), str(READ_BYTES))
    return bytes(found)


def _stream(
    link: Link, timeout_s: float, take: Sink, anew: Callable[[], None], name: str, folder: str, *more: str
) -> None:
    """What a command of host_commands.sh prints, byte for byte. Raises ClusterTrouble."""

    def give(sink: Sink) -> None:
        sink(preflight.script())

    host = link.host
    code, output = link.stream(preflight.command(host, name, folder, *more), timeout_s, give, take, anew)
    if code not in (0, 1):  # tar says 1 when a file grew meanwhile
        raise ClusterTrouble(f"{host.name} ({host.at}): {name}: {output or f'exit code {code}'}")


def unpack(packed: Any, folder: Path) -> None:
    """Write the files of a stream of tar into a folder: plain names only, whatever a host may send."""
    packed.seek(0)
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(tarfile.TarError), tarfile.open(fileobj=packed, mode="r:") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None and Path(member.name).name == member.name:
                with (folder / member.name).open("wb") as file:
                    while piece := content.read(1 << 20):
                        file.write(piece)
