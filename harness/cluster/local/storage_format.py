"""Formats nodes' storage without starting a JVM for each node: Kafka's tool formats once per version, into the cache.

`kafka.tools.StorageTool format` writes two small files. The first is bootstrap.checkpoint or, from 4.4 on, the first
snapshot of the metadata log (KIP-1170). This file contains the version's initial feature levels, and is the same for
every node and cluster. The second, meta.properties, contains the ids of the cluster, the node and, from 3.7 on, the
directory. A node's storage is a copy of the first file, and a meta.properties with the node's ids.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.distribution import broker_config, combined_output, download_cache
from harness.cluster.distribution.download_cache import Progress
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.model.errors_and_exit_codes import ClusterTrouble

_FORMAT_TIMEOUT_S = 60.0
_META = "meta.properties"
_BOOTSTRAP = ("bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
_FOLDER = "format-2"  # in the cache; earlier harnesses kept no snapshot in `format`


@dataclass(frozen=True, slots=True)
class Template:
    """The files that Kafka's tool wrote for a version.

    meta       meta.properties; its ids are replaced for each node
    bootstrap  the file with the feature levels, which is copied to each node; None: the tool wrote no such file
    path       the path of that file in the node's storage
    """

    meta: dict[str, str]
    bootstrap: bytes | None
    path: str = _BOOTSTRAP[0]


def random_id() -> str:
    """Returns a Kafka Uuid: 22 characters of base64.

    The id does not start with "-", because Kafka's tool would take it for an option.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def template(java: Java, jars: Jars, progress: Progress) -> Template:
    """Returns the version's template from the cache. If it is not there, runs Kafka's tool. Raises ClusterTrouble."""
    folder = download_cache.root() / _FOLDER / jars.version
    if not (folder / _META).exists():
        with download_cache.locked(folder.with_name(f"{jars.version}.lock"), progress, "formatting storage"):
            if not (folder / _META).exists():
                with download_cache.building(folder) as building:
                    _format(java, jars, building)
    lines = (line.strip() for line in (folder / _META).read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    meta = {key: value for key, _, value in pairs}
    path = next((path for path in _BOOTSTRAP if (folder / path).exists()), None)
    return Template(meta, None) if path is None else Template(meta, (folder / path).read_bytes(), path)


def write(made: Template, data: Path, cluster_id: str, node_id: int, has_metadata: bool = True) -> None:
    """Writes a node's empty storage to `data`, and syncs it, so that it survives a power cut.

    has_metadata  whether `data` is the node's metadata directory: from 4.4 on, a server with metadata in another of its
                  log directories does not start
    """
    data.mkdir(parents=True)
    renamed = {**made.meta, "cluster.id": cluster_id, "node.id": str(node_id)}
    if "directory.id" in renamed:
        renamed["directory.id"] = random_id()
    _write_synced(data / _META, "".join(f"{key}={value}\n" for key, value in renamed.items()).encode())
    if made.bootstrap is not None and has_metadata:
        (data / made.path).parent.mkdir(exist_ok=True)
        _write_synced(data / made.path, made.bootstrap)


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _format(java: Java, jars: Jars, target: Path) -> None:
    """Runs Kafka's storage tool for a dummy node, and copies to `target` the files that the tool wrote."""
    node = broker_config.Node("n1", 1, "127.0.0.1", 9092, 9093)
    with tempfile.TemporaryDirectory(prefix="format-", dir=target.parent) as name:
        temporary = Path(name)
        config = temporary / "server.properties"
        config.write_text(broker_config.properties(node, [node], jars.version, str(temporary / "data"), {}))
        log_name, log_text = broker_config.log_config(jars.version, str(temporary / "format.log"))
        (temporary / log_name).write_text(log_text)
        arguments = ["format", "-t", random_id(), "-c", str(config)]
        argv = broker_config.java_argv(java, jars, str(temporary / log_name), "kafka.tools.StorageTool", arguments)
        try:
            done = combined_output.run(argv, _FORMAT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ClusterTrouble(f"Kafka's storage tool did not end within {_FORMAT_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            raise ClusterTrouble(
                f"Kafka {jars.version} could not format its storage with {java.path}: {done.stdout.strip()[-2000:]}"
            )
        for file in (_META, *_BOOTSTRAP):
            if (temporary / "data" / file).exists():
                (target / file).parent.mkdir(exist_ok=True)
                shutil.copyfile(temporary / "data" / file, target / file)
