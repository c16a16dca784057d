"""Logs and configuration of a broker, from a host of an ssh cluster to this machine."""

from __future__ import annotations

import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.cluster import ssh_look
from harness.cluster.ssh_link import Link, Sink
from harness.model.errors import ClusterTrouble


def fetch(link: Link, source: str, target: Path, timeout_s: float) -> None:
    """Copy them from a run's folder there into `target`. Raises ClusterTrouble."""
    host = link.host
    with tempfile.TemporaryFile() as packed:

        def give(sink: Sink) -> None:
            sink(ssh_look.script())

        def take(data: bytes) -> None:
            packed.write(data)

        def anew() -> None:
            packed.seek(0)
            packed.truncate()

        code, said = link.stream(ssh_look.command(host, "logs", source), timeout_s, give, take, anew)
        if code not in (0, 1):  # tar says 1 when a file grew meanwhile
            raise ClusterTrouble(f"{host.name} ({host.at}): tar: {said or f'exit code {code}'}")
        unpack(packed, target)


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
