"""Fetches the broker jars of any Kafka version from Maven Central into the cache.

The Ivy inside PySpark fetches the jars, so only Java and this environment are needed. Java's own settings for proxies
and trust (JAVA_TOOL_OPTIONS, the system's cacerts) apply. A mirror can be configured with an Ivy settings file, named
in HARNESS_IVY_SETTINGS.

A version's folder is either complete or absent. When a jar is downloaded, its size and its SHA-256 are recorded. If
there is a file `kafka-<version>.sha256` next to this module, the SHA-256 is compared with it. At every later use, the
jar's size is compared with the recorded one. Once the folder exists, the network is not used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from harness.cluster.distribution import download_cache, truststore, versions
from harness.cluster.distribution.download_cache import Progress
from harness.cluster.distribution.java import Java, find
from harness.cluster.distribution.versions import parse_version
from harness.model.errors_and_exit_codes import BadInput, HarnessError, Missing

DEFAULT_VERSION = versions.DEFAULT
CLIENT_JARS = ("kafka-clients-", "slf4j-api-", "lz4-java-", "snappy-java-", "zstd-jni-")
_TIMEOUT_S = 900.0
_NOT_FOUND = re.compile(r":: (\S+)#(\S+);(\S+): not found")


@dataclass(frozen=True, slots=True)
class Jars:
    """The class path of one broker version: all jars of `folder`, sorted."""

    version: str
    folder: Path
    files: tuple[str, ...]

    @property
    def classpath(self) -> str:
        return ":".join(str(self.folder / name) for name in self.files)

    @property
    def client_classpath(self) -> str:
        """The class path of Kafka's own client: a subset of the broker's jars."""
        return ":".join(str(self.folder / name) for name in self.files if name.startswith(CLIENT_JARS))


def ensure(version: str, java: Java, progress: Progress) -> Jars:
    """Returns the jars of a version. Fetches them if they are not in the cache.

    Raises BadInput (no such version), Missing (no network, cache not writable, wrong checksum).
    """
    parse_version(version)
    folder = download_cache.root() / "kafka" / version
    present = _present(version, folder)
    if present:
        return present
    with download_cache.locked(folder.with_name(f"{version}.lock"), progress, f"fetching Kafka {version}"):
        present = _present(version, folder)
        if present:
            return present
        progress(f"fetching Kafka {version} from Maven Central into {folder} (once; about 45 MB)")
        with download_cache.building(folder) as building:
            _fetch(version, java, building / "jars", progress)
            _seal(version, building)
    fetched = _present(version, folder)
    if not fetched:
        raise Missing(f"the jars in {folder} changed while they were being stored: remove that folder and try again")
    return fetched


def cached(version: str) -> Jars | None:
    """Returns the jars of a version if they are in the cache, else None; fetches nothing.

    Raises Missing if the cache is not writable.
    """
    return _present(version, download_cache.root() / "kafka" / version)


def pinned(version: str) -> dict[str, str] | None:
    """Returns file name -> SHA-256 if the jars of the version are pinned, else None.

    The pins are in the file `kafka-<version>.sha256`, in the format of `sha256sum`.
    """
    path = Path(__file__).with_name(f"kafka-{version}.sha256")
    if not path.exists():
        return None
    lines = (line.split() for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return {name: digest for digest, name in lines}


def _present(version: str, folder: Path) -> Jars | None:
    """Returns the jars if each of them exists with the recorded size, else None.

    If the version's jars are pinned, the recorded digests must also equal the pinned ones.
    """
    try:
        noted: dict[str, dict[str, object]] = json.loads((folder / "jars.json").read_text())
    except (OSError, ValueError):
        return None
    pins = pinned(version)
    if pins is not None and {name: entry.get("sha256") for name, entry in noted.items()} != pins:
        return None
    for name, entry in noted.items():
        try:
            if (folder / "jars" / name).stat().st_size != entry.get("size"):
                return None
        except OSError:
            return None
    return Jars(version, folder / "jars", tuple(sorted(noted)))


def _seal(version: str, folder: Path) -> None:
    """Records the size and digest of every jar. Raises Missing if the digests differ from the pinned ones."""
    noted = {
        path.name: {"size": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in sorted((folder / "jars").glob("*.jar"))
    }
    pins = pinned(version)
    if pins is not None:
        wrong = sorted(
            name for name in pins.keys() | noted.keys() if noted.get(name, {}).get("sha256") != pins.get(name)
        )
        if wrong:
            raise Missing(
                f"Kafka {version}: the SHA-256 of {len(wrong)} downloaded file(s) differs from the pinned one, first "
                f"{wrong[0]}. Nothing was stored. Check whether a proxy or mirror alters files, then try again"
            )
    (folder / "jars.json").write_text(json.dumps(noted, indent=1))


def ivy_module(version: str) -> str:
    """Returns the text of the Ivy file that requests a broker, its dependencies and a logging binding.

    Kafka depends on SLF4J without a binding: 4.0 and later log through Log4j 2, older versions through reload4j.
    """
    if parse_version(version) >= (4, 0, 0):
        # The first two are bindings: SLF4J 1.7 uses only the first one, and SLF4J 2 only the second one. The last two
        # are Log4j 2, which Kafka 4.0 does not include. If Kafka requires newer versions of them, Ivy takes those.
        names = ("log4j-slf4j-impl", "log4j-slf4j2-impl", "log4j-api", "log4j-core")
        bindings = [("org.apache.logging.log4j", name, "2.24.3", 'transitive="false"') for name in names]
    else:
        bindings = [("org.slf4j", "slf4j-reload4j", "1.7.36", "")]
    wanted = [("org.apache.kafka", "kafka_2.13", version, ""), *bindings]
    lines = "\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->default" {extra}/>'
        for org, name, rev, extra in wanted
    )
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="harness" module="broker"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{lines}\n  </dependencies>\n"
        "</ivy-module>\n"
    )


def _fetch(version: str, java: Java, target: Path, progress: Progress) -> None:
    code, lines = retrieve(ivy_module(version), java, target, progress)
    if code != 0:
        _explain(version, lines)


def retrieve(module_text: str, java: Java, target: Path, progress: Progress) -> tuple[int, list[str]]:
    """Runs Ivy with the given Ivy file; returns Ivy's exit code and output lines.

    The fetched files are copied to `target`. Ivy's own cache is temporary, and is deleted afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=target.parent) as temporary:
        module = Path(temporary) / "ivy.xml"
        module.write_text(module_text)
        settings = os.environ.get("HARNESS_IVY_SETTINGS")
        argv = [java.path, *truststore.options(java, Path(temporary))]
        argv += [f"-Divy.default.ivy.user.dir={temporary}/user", "-cp", str(_ivy_jar())]
        argv += [
            "org.apache.ivy.Main",
            "-ivy",
            str(module),
            "-confs",
            "default",
            "-cache",
            f"{temporary}/cache",
        ]
        argv += ["-settings", settings] if settings else []
        argv += ["-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"]
        return _run(argv, progress)


def _run(argv: list[str], progress: Progress) -> tuple[int, list[str]]:
    """Runs Ivy; returns its exit code and output lines.

    Reports progress every few files. Kills Ivy after `_TIMEOUT_S`.
    """
    lines: list[str] = []
    resolved = fetched = 0
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        timer = Timer(_TIMEOUT_S, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip())
                if line.startswith("\tfound "):
                    resolved += 1
                    if resolved % 10 == 0:
                        progress(f"resolving: {resolved} dependencies")
                elif "[SUCCESSFUL ]" in line:
                    fetched += 1
                    if fetched % 10 == 0:
                        progress(f"fetching: {fetched} jars")
        finally:
            timer.cancel()
            process.kill()
    return process.returncode, lines


def _explain(version: str, lines: list[str]) -> None:
    """Raises an error that explains why Ivy failed: an unknown version, or an unreachable repository."""
    missing = {name for _, name, _ in (match for line in lines for match in _NOT_FOUND.findall(line))}
    # If the logging binding was not found either, the repository could not be reached.
    if missing == {"kafka_2.13"} and not any("Host " in line and " not found" in line for line in lines):
        raise BadInput(
            f"Kafka version {version} is not on Maven Central: see https://kafka.apache.org/downloads for all versions"
        )
    reason = next(
        (
            line.strip()
            for line in lines
            if re.search(r"Host \S+ not found|[Rr]efused|SSL|timed out|Server access", line)
        ),
        next((line.strip() for line in reversed(lines) if line.strip()), "Ivy printed nothing"),
    )
    raise Missing(
        f"the jars of Kafka {version} could not be fetched from Maven Central ({reason}). They are fetched only "
        "once: connect to the network and try again; behind a proxy, set JAVA_TOOL_OPTIONS="
        "'-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'; for a mirror, set HARNESS_IVY_SETTINGS to an Ivy "
        "settings file"
    )


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted((Path(folder) / "jars").glob("ivy-*.jar")):
            return path
    raise Missing("PySpark's Ivy (pyspark/jars/ivy-*.jar) was not found: install pyspark in this environment")


def main(argv: list[str]) -> int:
    """`python -m harness.cluster.distribution.jars [VERSION ...]`: fills the cache; exit code 254 if that fails."""
    try:
        found = find()
        for version in map(versions.resolve, argv or [DEFAULT_VERSION]):
            print(f"Kafka {version}: {ensure(version, found, print).folder}")
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
