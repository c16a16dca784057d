"""Kafka's command-line tools as small scripts: kafka-topics, kafka-console-consumer and so on.

From 3.8 on, most tools are in a jar that brokers do not need (`kafka-tools`). That jar is fetched on first use.
"""

from __future__ import annotations

import shlex
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.cluster.distribution import download_cache, jars
from harness.cluster.distribution.download_cache import Progress
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.cluster.distribution.versions import parse_version
from harness.model.errors_and_exit_codes import HarnessError, Missing

_NEW: Final = "org.apache.kafka.tools"
# Script -> its main class in different versions; the first one that exists is used.
MAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka-configs": ("kafka.admin.ConfigCommand", f"{_NEW}.ConfigCommand"),
    "kafka-console-consumer": (f"{_NEW}.consumer.ConsoleConsumer", "kafka.tools.ConsoleConsumer"),
    "kafka-console-producer": (f"{_NEW}.ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "kafka-consumer-groups": (
        f"{_NEW}.consumer.group.ConsumerGroupCommand",
        "kafka.admin.ConsumerGroupCommand",
    ),
    "kafka-dump-log": ("kafka.tools.DumpLogSegments", f"{_NEW}.DumpLogSegments"),
    "kafka-get-offsets": (f"{_NEW}.GetOffsetShell", "kafka.tools.GetOffsetShell"),
    "kafka-leader-election": (f"{_NEW}.LeaderElectionCommand", "kafka.admin.LeaderElectionCommand"),
    "kafka-metadata-quorum": (f"{_NEW}.MetadataQuorumCommand", "kafka.admin.MetadataQuorumCommand"),
    "kafka-topics": (f"{_NEW}.TopicCommand", "kafka.admin.TopicCommand"),
    "kafka-transactions": (f"{_NEW}.TransactionsCommand", "kafka.tools.TransactionsCommand"),
}
_SINCE: Final = (3, 5, 0)  # the first version of the jar


def _module(version: str) -> str:
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="harness" module="tools"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        "  <dependencies>\n"
        f'    <dependency org="org.apache.kafka" name="kafka-tools" rev="{version}" '
        'conf="default->default"/>\n'
        "  </dependencies>\n"
        "</ivy-module>\n"
    )


def _more(fetched: Jars, java: Java, progress: Progress) -> list[Path]:
    """Returns the jars that the tools need in addition to the broker's; empty for versions without such jars."""
    if parse_version(fetched.version) < _SINCE:
        return []
    folder = download_cache.root() / "kafka" / f"{fetched.version}-tools"
    lock = folder.with_name(f"{folder.name}.lock")
    with download_cache.locked(lock, progress, f"fetching Kafka's tools {fetched.version}"):
        if not folder.is_dir():
            progress(f"fetching the tools of Kafka {fetched.version} from Maven Central (once)")
            with download_cache.building(folder) as building:
                code, _ = jars.retrieve(_module(fetched.version), java, building, lambda text: None)
                for path in building.iterdir():
                    if path.name in fetched.files:
                        path.unlink()
            if code:
                shutil.rmtree(folder)
                raise Missing(
                    "the jar of Kafka's tools could not be downloaded from Maven Central: check the network connection"
                )
    return sorted(folder.glob("*.jar"))


def scripts(target: Path, fetched: Jars, java: Java, progress: Progress) -> list[str]:
    """Writes a script into the folder `target` for each tool that the version has; returns the names of the scripts."""
    try:
        more = _more(fetched, java, progress)
    except HarnessError as error:
        progress(f"some of Kafka's tools are missing: {error}")
        more = []
    classpath = ":".join([fetched.classpath, *map(str, more)])
    present = set[str]()
    for path in [*(fetched.folder / name for name in fetched.files if "kafka" in name), *more]:
        if "kafka" in path.name:
            with zipfile.ZipFile(path) as archive:
                present.update(archive.namelist())
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for name, mains in MAINS.items():
        main = next((main for main in mains if f"{main.replace('.', '/')}.class" in present), None)
        if main is None:
            continue
        java_line = [
            java.path,
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-Dlog4j2.level=ERROR",
            "-cp",
            classpath,
        ]
        text = f'#!/bin/sh\nexec {shlex.join([*java_line, main])} "$@"\n'
        script = target / f"{name}.sh"  # as in Kafka's own bin
        script.write_text(text)
        script.chmod(0o755)
        made.append(script.name)
    return made
