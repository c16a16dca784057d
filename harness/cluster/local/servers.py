"""Creates a folder for each server of a local cluster: configuration, logging and storage. Builds the command lines.

nodes/n1/server.properties  log4j*.properties  server.log  stdout.log  data/     a broker or controller
nodes/z1/zoo.cfg            log4j.properties   server.log  stdout.log  data/     a ZooKeeper
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.cluster.distribution import broker_config, migration_config, versions, zookeeper
from harness.cluster.distribution.broker_config import Node
from harness.cluster.distribution.download_cache import Progress
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.cluster.local import storage_format
from harness.cluster.local.layout import Layout, Place
from harness.cluster.local.storage_format import Template

STDOUT: Final = "stdout.log"
LOG: Final = "server.log"


@dataclass(frozen=True, slots=True)
class Servers:
    """Settings that all servers of the cluster share.

    folder      contains one folder for each server
    overrides   the user's broker settings
    template    formatted storage, which is copied for each node; None with ZooKeeper, where brokers create their own
    cluster_id  id of the cluster, written into the copies of the template
    log_dirs    number of log directories of each broker; the first also contains the metadata log
    racks       number of racks of the brokers; 0: none
    jvm_flags   JVM flags of brokers
    mode        mode of the servers in a migration from ZooKeeper (`migration_config`); empty: none
    """

    layout: Layout
    version: str
    overrides: Mapping[str, str]
    folder: Path
    java: Java
    jars: Jars
    template: Template | None
    cluster_id: str
    log_dirs: int = 1
    racks: int = 0
    jvm_flags: tuple[str, ...] = ()
    mode: str = ""

    def home(self, name: str) -> Path:
        return self.folder / name

    def data(self, name: str) -> Path:
        return self.home(name) / "data"

    def folders(self, place: Place) -> list[Path]:
        """Returns a server's log directories: data, data2, ..."""
        more = range(2, self.log_dirs + 1) if isinstance(place, Node) else ()
        return [self.data(place.name), *(self.home(place.name) / f"data{n}" for n in more)]

    def lay_out(self, place: Place) -> None:
        """Creates a server's folder, with everything that the server needs to start."""
        self.home(place.name).mkdir(exist_ok=True)  # there may be logs of a server that was removed
        self.configure(place)
        self.store(place)

    def configure(self, place: Place) -> None:
        """Writes a server's configuration and logging configuration. They apply from its next start on."""
        home = self.home(place.name)
        config, text = self._config(place)
        (home / config).write_text(text)
        log_name, log_text = broker_config.log_config(self.version, str(home / LOG))
        (home / log_name).write_text(log_text)

    def store(self, place: Place) -> None:
        """Creates a server's empty storage. The server must not have any storage yet."""
        for data in self.folders(place):
            if isinstance(place, Node) and self.template is not None and self._formatted(place):
                first = data == self.data(place.name)
                storage_format.write(self.template, data, self.cluster_id, place.id, has_metadata=first)
                continue
            data.mkdir()
            if not isinstance(place, Node):
                (data / "myid").write_text(f"{place.id}\n")

    def _formatted(self, place: Node) -> bool:
        """Returns whether the server's storage must be formatted: brokers of ZooKeeper create their own."""
        return not self.layout.zookeepers or place in self.layout.controllers

    def argv(self, place: Place) -> list[str]:
        """Returns the command line that starts a server."""
        home = self.home(place.name)
        log_name, _ = broker_config.log_config(self.version, "")
        if isinstance(place, Node):
            main, flags = "kafka.Kafka", self.jvm_flags
        else:
            main, flags = zookeeper.MAIN, zookeeper.FLAGS
        config, _ = self._config(place)
        return broker_config.java_argv(self.java, self.jars, str(home / log_name), main, [str(home / config)], flags)

    def last_error(self, name: str) -> str:
        """Returns a text for the user: the last error in a server's logs, and the folder of the logs."""
        lines: list[str] = []
        for file in (LOG, STDOUT):
            with suppress(OSError):
                lines += (self.home(name) / file).read_text(errors="replace").splitlines()
        bad = [line for line in lines if "ERROR" in line or "FATAL" in line or "Exception" in line]
        last = (bad or lines or ["the logs are empty"])[-1]
        return f"{last.strip()[:500]} (its logs are in {self.home(name)})"

    def _config(self, place: Place) -> tuple[str, str]:
        """Returns (file name, text) of a server's configuration file."""
        data, layout = ",".join(map(str, self.folders(place))), self.layout
        if not isinstance(place, Node):
            return "zoo.cfg", zookeeper.config(place, layout.zookeepers, data)
        connect = zookeeper.connect(layout.zookeepers)
        racked = broker_config.of_rack(place, self.racks) if self.racks else {}
        overrides = {**racked, **self.overrides}
        if self.mode:
            return "server.properties", migration_config.properties(
                place, layout.brokers, layout.controllers, self.version, data, overrides, connect, self.mode
            )
        return "server.properties", broker_config.properties(
            place, layout.brokers, self.version, data, overrides, layout.voters, connect
        )


def kraft_template(layout: Layout, java: Java, jars: Jars, progress: Progress) -> Template | None:
    """Returns formatted storage, to be copied for each node; None with ZooKeeper, where brokers create their own."""
    formats = layout.metadata == versions.KRAFT or layout.controllers
    return storage_format.template(java, jars, progress) if formats else None
