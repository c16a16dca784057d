"""Packs the files that a host of an ssh cluster needs, as a tar stream.

FOLDER/host.sh   the watchdog (host_commands.sh)
FOLDER/broker.sh starts the broker
FOLDER/since     when these files were packed, UTC
FOLDER/lease     number that the harness increments as long as it is running
FOLDER/jars/  FOLDER/java/  FOLDER/data/  FOLDER/server.properties  FOLDER/log4j2.properties
"""

from __future__ import annotations

import io
import os
import shlex
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.cluster.distribution import broker_config, java
from harness.cluster.distribution.broker_config import Node
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.cluster.local import storage_format
from harness.cluster.local.layout import Layout
from harness.cluster.ssh import preflight
from harness.cluster.ssh.commands_on_hosts import Sink
from harness.model.errors_and_exit_codes import Missing

_PIECE: Final = 1 << 18
# Parts of a Java home that only developers need.
_LEFT_OUT: Final = frozenset({"jmods", "legal", "man", "docs", "demo", "include", "src.zip", "ct.sym"})


@dataclass(frozen=True, slots=True)
class Pack:
    """The files of one broker.

    folder     the target folder on the host
    host_java  path of the host's own Java; empty: this machine's Java is packed, too
    """

    node: Node
    layout: Layout
    version: str
    overrides: Mapping[str, str]
    folder: str
    jars: Jars
    java: Java
    host_java: str
    template: storage_format.Template
    cluster_id: str

    def write(self, sink: Sink) -> None:
        """Writes the tar stream to `sink`."""
        out: Any = _Out(sink)
        with tarfile.open(fileobj=out, mode="w|", bufsize=_PIECE, format=tarfile.GNU_FORMAT) as tar:
            for name, text in self.texts().items():
                _add_text(tar, name, text)
            for name in self.jars.files:
                _add_file(tar, self.jars.folder / name, f"jars/{name}")
            if not self.host_java:
                home = java_home(self.java)
                for path in java_files(home):
                    _add_file(tar, path, f"java/{path.relative_to(home)}")
            with tempfile.TemporaryDirectory() as folder:
                data = Path(folder) / "data"
                storage_format.write(self.template, data, self.cluster_id, self.node.id)
                for path in sorted(path for path in data.rglob("*") if path.is_file()):
                    _add_file(tar, path, f"data/{path.relative_to(data)}")

    def texts(self) -> dict[str, str]:
        """Returns file name -> text of the generated files."""
        log_name, log_text = broker_config.log_config(self.version, f"{self.folder}/server.log")
        java_on_host = replace(self.java, path=self.host_java or f"{self.folder}/java/bin/java")
        jars = replace(self.jars, folder=Path(self.folder) / "jars")
        config = f"{self.folder}/server.properties"
        argv = broker_config.java_argv(java_on_host, jars, f"{self.folder}/{log_name}", "kafka.Kafka", [config])
        return {
            "host.sh": preflight.script().decode(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime()),
            "lease": "0\n",
            "broker.sh": f"cd {shlex.quote(self.folder)} && exec {shlex.join(argv)}\n",
            "server.properties": broker_config.properties(
                self.node, self.layout.brokers, self.version, f"{self.folder}/data", self.overrides
            ),
            log_name: log_text,
        }


def java_home(found: Java) -> Path:
    """Returns the home folder of a Java, even if the Java's executable is a wrapper script. Raises Missing."""
    inspected = java.inspect(found.path)
    if isinstance(inspected, str):
        raise Missing(f"{found.path}: {inspected}")
    return Path(inspected.home)


def java_files(home: Path) -> Iterator[Path]:
    """Yields the files that Java needs at run time. Follows links; skips broken ones."""
    for folder, below, names in os.walk(home, followlinks=True):
        below[:] = sorted(name for name in below if name not in _LEFT_OUT)
        for name in sorted(set(names) - _LEFT_OUT):
            path = Path(folder) / name
            if path.is_file():
                yield path


class _Out:
    """A file object for tarfile that writes to a sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, data: bytes) -> int:
        self._sink(data)
        return len(data)


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    content = text.encode()
    info.size, info.mode, info.mtime = len(content), 0o600, int(time.time())
    tar.addfile(info, io.BytesIO(content))


def _add_file(tar: tarfile.TarFile, path: Path, name: str) -> None:
    info = tarfile.TarInfo(name)
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        info.size, info.mode, info.mtime = status.st_size, status.st_mode & 0o700 | 0o400, int(status.st_mtime)
        tar.addfile(info, file)
