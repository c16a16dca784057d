"""Spark's Kafka source: the package spark-sql-kafka-0-10 and its dependencies, from Maven Central.

PySpark includes neither the package nor its dependencies. The Ivy inside PySpark fetches them once into the cache. The
package has PySpark's own version, and is built for PySpark's Scala version. Some mirrors lack this version of the
package. `FALLBACKS` lists older versions that were tested with this PySpark; a note tells the user when one of them is
used. Files listed in `spark-kafka.sha256` must have the SHA-256 given there.
https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from harness.cluster.distribution import download_cache, jars
from harness.cluster.distribution.download_cache import Progress
from harness.cluster.distribution.java import Java
from harness.model.errors_and_exit_codes import Missing

SOURCE: Final = "spark-sql-kafka-0-10"
TOKENS: Final = "spark-token-provider-kafka-0-10"
_PINS: Final = "spark-kafka.sha256"
_ARTIFACT: Final = re.compile(r"^(.+?)-\d")
_SCALA: Final = re.compile(r"^spark-sql_(\d+\.\d+)-(.+)\.jar$")
_TROUBLE: Final = re.compile(r"Host \S+ not found|[Rr]efused|SSL|timed out|Server access")


@dataclass(frozen=True, slots=True)
class Release:
    """The version of Spark's Kafka source, and the version of its token provider. Usually they are equal."""

    source: str
    tokens: str


FALLBACKS: Final = (Release("4.2.0", "4.1.0-preview1"),)


@dataclass(frozen=True, slots=True)
class Connector:
    """Spark's Kafka source, in the cache.

    version  version of the Kafka source
    spark    version of PySpark
    files    the jars of the source that PySpark does not include
    """

    version: str
    spark: str
    files: tuple[Path, ...]

    @property
    def note(self) -> str:
        """A note for the user if the Kafka source has another version than PySpark; otherwise empty."""
        if self.version == self.spark:
            return ""
        return (
            f"Spark {self.spark} reads Kafka with the Kafka source of Spark {self.version}, "
            f"because the source of {self.spark} was not found"
        )


def ensure(java: Java, progress: Progress) -> Connector:
    """Returns the Kafka source for this environment's PySpark. Fetches it if it is not in the cache. Raises Missing."""
    spark = metadata.version("pyspark")
    folder = download_cache.root() / "spark-kafka" / spark
    if found := _present(spark, folder):
        return found
    with download_cache.locked(folder.with_name(f"{spark}.lock"), progress, "fetching Spark's Kafka source"):
        if found := _present(spark, folder):
            return found
        progress(f"fetching Spark's Kafka source from Maven Central into {folder} (once; about 20 MB)")
        with download_cache.building(folder) as building:
            release = _fetch(spark, java, building / "jars", progress)
            _seal(release, building)
    if found := _present(spark, folder):
        return found
    raise Missing(f"the jars in {folder} changed while they were being stored: remove that folder and try again")


def _present(spark: str, folder: Path) -> Connector | None:
    """Returns the Kafka source if each of its files is in the folder with the recorded size, else None."""
    try:
        noted = json.loads((folder / "jars.json").read_text())
        sizes: dict[str, int] = noted["files"]
        if any((folder / "jars" / name).stat().st_size != size for name, size in sizes.items()):
            return None
        return Connector(noted["version"], spark, tuple(folder / "jars" / name for name in sorted(sizes)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _fetch(spark: str, java: Java, target: Path, progress: Progress) -> Release:
    first_lines: list[str] = []
    for release in (Release(spark, spark), *FALLBACKS):
        code, lines = jars.retrieve(ivy_module(release, _scala()), java, target, progress)
        if code == 0:
            return release
        first_lines = first_lines or lines
    reason = next(
        (line.strip() for line in first_lines if _TROUBLE.search(line)),
        next((line.strip() for line in first_lines if ": not found" in line), "Ivy printed nothing"),
    )
    raise Missing(
        f"Spark's Kafka source (org.apache.spark:{SOURCE}_{_scala()}:{spark}) could not be fetched from "
        f"Maven Central ({reason}). It is fetched only once: connect to the network and try again; behind a proxy, "
        "set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'; for a mirror, set "
        "HARNESS_IVY_SETTINGS to an Ivy settings file"
    )


def ivy_module(release: Release, scala: str) -> str:
    """Returns the text of the Ivy file that requests the Kafka source and the token provider of a release."""
    tokens = f"{TOKENS}_{scala}"
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="harness" module="spark-kafka"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        "  <dependencies>\n"
        f'    <dependency org="org.apache.spark" name="{SOURCE}_{scala}" rev="{release.source}"'
        ' conf="default->default">\n'
        f'      <exclude org="org.apache.spark" module="{tokens}"/>\n'
        '      <exclude org="org.apache.hadoop"/>\n'
        "    </dependency>\n"
        f'    <dependency org="org.apache.spark" name="{tokens}" rev="{release.tokens}" transitive="false"'
        ' conf="default->default"/>\n'
        "  </dependencies>\n"
        "</ivy-module>\n"
    )


def _seal(release: Release, folder: Path) -> None:
    """Records which files PySpark does not include. Raises Missing if the checksum of a pinned file is wrong."""
    names = missing_of((path.name for path in (folder / "jars").glob("*.jar")), _bundled())
    pins = _pinned()
    sizes = {}
    for name in names:
        data = (folder / "jars" / name).read_bytes()
        if name in pins and hashlib.sha256(data).hexdigest() != pins[name]:
            raise Missing(
                f"Spark's Kafka source: the SHA-256 of {name} differs from the pinned one. Nothing was stored. Check "
                "whether a proxy or mirror alters files, then try again"
            )
        sizes[name] = len(data)
    (folder / "jars.json").write_text(json.dumps({"version": release.source, "files": sizes}, indent=1))


def missing_of(names: Iterable[str], bundled: Collection[str]) -> list[str]:
    """Returns the jars in `names` that PySpark lacks, i.e. whose artifact is not in `bundled` in any version.

    names, bundled  file names of jars; `bundled` are the jars that PySpark includes
    """
    bundled_artifacts = {_artifact(name) for name in bundled}
    return sorted(name for name in names if _artifact(name) not in bundled_artifacts)


def _artifact(name: str) -> str:
    found = _ARTIFACT.match(name)
    return found[1] if found else name


def _pinned() -> dict[str, str]:
    lines = (line.split() for line in Path(__file__).with_name(_PINS).read_text().splitlines() if line)
    return {name: digest for digest, name in lines}


def _bundled() -> list[str]:
    spec = importlib.util.find_spec("pyspark")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return [path.name for folder in folders for path in (Path(folder) / "jars").glob("*.jar")]


def _scala() -> str:
    """Returns the Scala version that PySpark was built with. Raises Missing."""
    for name in _bundled():
        if found := _SCALA.match(name):
            return found[1]
    raise Missing("PySpark's own jars were not found: install pyspark in this environment")
