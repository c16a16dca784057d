"""Tiered storage for local brokers (KIP-405), with the implementation that Kafka provides for tests.

`LocalTieredStorage` stores segments as files in a folder that all brokers share. Its class is in the test jar of
kafka-storage, which is on Maven Central from 3.6 on (from 4.4 on, with the classifier test-fixtures); brokers load that
jar in addition to their class path. A copied
segment is TIER/kafka-tiered-storage/TOPIC-PARTITION-ID/BASE-ID.log, with its indexes. Shortly after these files appear,
the copy is recorded in the remote log metadata topic; only then do brokers use the copy.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from harness.cluster.distribution import download_cache, jars, java
from harness.cluster.distribution.download_cache import Progress
from harness.cluster.distribution.versions import parse_version
from harness.model.errors_and_exit_codes import Missing

SINCE: Final = (3, 6, 0)
ROOT: Final = "kafka-tiered-storage"
_CLASS: Final = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_SHA256: Final = {
    "4.1.1": "f03fcd4dcc3b6a825fd7d18a3f51c84c63c3c39763853203b9ea251d5b595d9e",
    "4.4.0": "ab62d0acf3ca64ba5cce7941c21c338d0399954b2c66c25efbf24a57241ff991",
}
_TEST_FIXTURES: Final = (4, 4, 0)
_LISTENER: Final = "INSIDE"


def settings(jar: Path, folder: Path, nodes: int) -> dict[str, str]:
    """Returns broker settings for a remote tier in `folder`. Brokers check every 300 ms what to copy or delete."""
    metadata = "rlmm.config.remote.log.metadata"
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": _CLASS,
        "remote.log.storage.manager.class.path": str(jar),
        "remote.log.metadata.manager.listener.name": _LISTENER,
        "remote.log.manager.task.interval.ms": "300",
        # A remote fetch that times out returns no records and no error (KIP-1018).
        "remote.fetch.max.wait.ms": "15000",
        f"{metadata}.topic.replication.factor": str(min(3, nodes)),
        f"{metadata}.topic.num.partitions": "2",
        f"{metadata}.common.client.fetch.max.wait.ms": "100",
        "rsm.config.dir": str(folder),
    }


def folder(work: Path) -> Path:
    """Returns the folder of the remote tier of a cluster. `work` is the folder with all files of the cluster.

    The remote tier is next to the nodes' folders, and is removed together with them.
    """
    return work.absolute() / "nodes" / "tier"


def segments(folder: Path, topic: str, partition: int) -> list[Path]:
    """Returns the copied segments of a partition, in offset order. `folder` is the folder of the remote tier."""
    found = (folder / ROOT).glob(f"{topic}-{partition}-*/*.log")
    return sorted(found, key=lambda path: path.name)


def jar(version: str, progress: Progress) -> Path:
    """Returns the test jar of a version (`SINCE` or later). Fetches it if it is not in the cache.

    Raises Missing (no network, wrong checksum).
    """
    name = f"kafka-storage-{version}-{_classifier(version)}.jar"
    folder = download_cache.root() / "tiered" / version
    kept = folder / name
    if kept.exists():
        return kept
    with download_cache.locked(folder.with_name(f"{version}.lock"), progress, f"fetching {name}"):
        if not kept.exists():
            progress(f"fetching {name} from Maven Central into {folder} (once; about 1 MB)")
            with download_cache.building(folder) as building:
                _fetch(version, building / "jars", progress)
                (building / "jars" / name).rename(building / name)
    return kept


def _fetch(version: str, target: Path, progress: Progress) -> None:
    code, lines = jars.retrieve(_ivy_module(version), java.find(), target, progress)
    path = target / f"kafka-storage-{version}-{_classifier(version)}.jar"
    if code != 0 or not path.exists():
        last = next((line.strip() for line in reversed(lines) if line.strip()), "Ivy printed nothing")
        raise Missing(
            f"the tiered storage of Kafka {version} could not be fetched from Maven Central ({last}). It is "
            "fetched only once: connect to the network and try again, or omit --tiered; for a mirror, set "
            "HARNESS_IVY_SETTINGS to an Ivy settings file"
        )
    wanted = _SHA256.get(version)
    if wanted is not None and hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
        raise Missing(
            f"the SHA-256 of {path.name} differs from the pinned one. Nothing was stored. Check whether a proxy or "
            "mirror alters files, then try again"
        )


def _classifier(version: str) -> str:
    return "test-fixtures" if parse_version(version) >= _TEST_FIXTURES else "test"


def _ivy_module(version: str) -> str:
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        '  <info organisation="harness" module="tiered"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        "  <dependencies>\n"
        f'    <dependency org="org.apache.kafka" name="kafka-storage" rev="{version}" transitive="false">\n'
        f'      <artifact name="kafka-storage" type="test-jar" ext="jar" m:classifier="{_classifier(version)}"/>\n'
        "    </dependency>\n"
        "  </dependencies>\n"
        "</ivy-module>\n"
    )
