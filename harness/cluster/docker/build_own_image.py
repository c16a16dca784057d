"""Builds a container image of a broker from jars and this machine's Java, without registry, base image or builder.

The image contains a Java runtime, the shared libraries that the runtime needs, a shell, the jars, and an entry script
(`image_entry.sh`) that takes the same settings as the official image. The image has one layer, which is imported as a
tar file.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.cluster.distribution import jars, java, versions
from harness.cluster.docker import engine_and_images
from harness.cluster.docker.engine_and_images import VERSION_LABEL
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, Missing

ENTRY: Final = Path(__file__).with_name("image_entry.sh")
_ENTRY_AT: Final = "etc/kafka/docker/run"
_USER: Final = 1000
_SPARE: Final = frozenset({"jmods", "man", "legal", "docs", "demo", "sample", "include", "src.zip", "ct.sym"})
_LDD_TIMEOUT_S: Final = 60.0
_IMPORT_TIMEOUT_S: Final = 600.0
_DISK_BYTES: Final = 1 << 30
_BROKER_JAR: Final = re.compile(r"kafka_2\.\d+-(\d+\.\d+\.\d+\S*)\.jar")
_PATTERN: Final = "[%d] %p %m (%c)%n"
_LOG4J2: Final = (
    "status=warn\n"
    "appender.out.type=Console\n"
    "appender.out.name=out\n"
    "appender.out.layout.type=PatternLayout\n"
    f"appender.out.layout.pattern={_PATTERN}\n"
    "rootLogger.level=info\n"
    "rootLogger.appenderRef.out.ref=out\n"
)
_LOG4J: Final = (
    "log4j.rootLogger=INFO, out\n"
    "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
    "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
    f"log4j.appender.out.layout.ConversionPattern={_PATTERN}\n"
)


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was built: its tag, its id in the engine, its size."""

    tag: str
    id: str
    size_bytes: int


def build(version: str, folder: Path | None, tag: str | None, say: engine_and_images.Say) -> Built:
    """Builds the image of a version from its jars (fetched if necessary), or from the user's own jars in `folder`.

    tag  the image's tag; None: the tag that `harness run --cluster docker` looks for

    Raises BadInput (jars, version, tag), Missing (Java, a shell, disk space, the engine), ClusterTrouble.
    """
    version = versions.resolve(version)
    if versions.KRAFT not in versions.modes(version):
        raise BadInput(f"--kafka-version {version}: containers require KRaft, which is supported from 3.3.1 on")
    files, what = own_jars(folder) if folder is not None else ((), f"Kafka {version}")
    tag = tag or engine_and_images.local_tag(version if folder is None else "custom")
    repository, _, name = tag.rpartition(":")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._/-]*", repository) or not re.fullmatch(r"\w[\w.-]*", name):
        example = engine_and_images.local_tag(version)
        raise BadInput(f"--tag {tag}: must be NAME:TAG, with the name in lower case, such as {example}")
    found = java.find()
    client = engine_and_images.connect(_IMPORT_TIMEOUT_S)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < _DISK_BYTES:
        raise Missing(
            f"only {free >> 20} MiB are free in {tempfile.gettempdir()}, but building the image needs up to "
            f"{_DISK_BYTES >> 20} MiB there: free some space, or set TMPDIR"
        )
    files = files or _cached(version, found, say)
    say(f"building {tag}: {what}, {len(files)} jars, Java {found.full}")
    with tempfile.TemporaryDirectory(prefix="image-") as temporary:
        path = Path(temporary) / "image.tar"
        with tarfile.open(path, "w") as tar:
            _fill(tar, _home(found.path), files)
        return _import(client, path, repository, name, what)


def own_jars(folder: Path) -> tuple[tuple[Path, ...], str]:
    """Returns the jars in a folder and a description of them. Raises BadInput if they do not include a broker."""
    if not folder.is_dir():
        raise BadInput(f"--jars {folder}: no such folder")
    files = tuple(sorted(folder.glob("*.jar")))
    broker = next((found for path in files if (found := _BROKER_JAR.fullmatch(path.name))), None)
    if broker is None:
        raise BadInput(
            f"--jars {folder}: no kafka_2.13-VERSION.jar among its {len(files)} jars; use the folder with a "
            "broker and all its dependencies, such as libs/ of a release or of a build"
        )
    return files, f"Kafka {broker[1]} from {folder}"


def _cached(version: str, found: java.Java, say: engine_and_images.Say) -> tuple[Path, ...]:
    fetched = jars.ensure(version, found, say)
    return tuple(fetched.folder / name for name in fetched.files)


def _home(path: str) -> Path:
    """Returns the home folder of the Java runtime whose executable is `path`, with links resolved."""
    return Path(path).resolve().parents[1]


def _fill(tar: tarfile.TarFile, home: Path, files: Sequence[Path]) -> None:
    for folder in (
        "tmp",
        "opt/kafka/config",
        "opt/kafka/libs",
        "var/lib/kafka/data",
        "etc",
        "dev",
        "proc",
        "sys",
    ):
        _add_folder(tar, folder, 0o1777 if folder == "tmp" else 0o755)
    _add_text(tar, "etc/passwd", f"root:x:0:0:root:/:/bin/sh\nkafka:x:{_USER}:{_USER}:kafka:/tmp:/bin/sh\n")
    _add_text(tar, "etc/group", f"root:x:0:\nkafka:x:{_USER}:\n")
    _add_text(tar, "etc/nsswitch.conf", "hosts: files dns\n")
    _add_text(tar, "opt/kafka/config/log4j2.properties", _LOG4J2)
    _add_text(tar, "opt/kafka/config/log4j.properties", _LOG4J)
    _add_text(tar, _ENTRY_AT, ENTRY.read_text(), 0o755)
    shell = shutil.which("sh")
    if shell is None:
        raise Missing("no `sh` was found on the PATH, and the image needs one")
    _add_file(tar, Path(shell), "bin/sh")
    linked = {Path(shell).resolve()}
    for path, inside in _runtime(home):
        _add_file(tar, path, f"opt/java/{inside}")
        if path.suffix == ".so" or inside == "bin/java":
            linked.add(path)
    for library in sorted(shared_libraries(sorted(linked), home)):
        _add_file(tar, Path(library), library.lstrip("/"))
    cache = Path("/etc/ld.so.cache")  # tells the loader where libraries are, on systems with unusual folders
    if cache.exists():
        _add_file(tar, cache, "etc/ld.so.cache")
    for path in files:
        _add_file(tar, path, f"opt/kafka/libs/{path.name}")


def _runtime(home: Path) -> Iterator[tuple[Path, str]]:
    """Yields (file, path relative to `home`) for each file that Java needs. Follows links; skips broken ones."""
    for folder, folders, names in os.walk(home, followlinks=True):
        folders[:] = sorted(set(folders) - _SPARE)
        for name in sorted(set(names) - _SPARE):
            path = Path(folder) / name
            if path.is_file():
                yield path, str(path.relative_to(home))


def shared_libraries(paths: Sequence[Path], home: Path) -> set[str]:
    """Returns the paths of the shared libraries that the files `paths` are linked with.

    Leaves out libraries below `home`, and libraries that this machine does not have (for windows and sound), because
    Java works here without them. Raises Missing if there is no `ldd`.
    """
    try:
        done = subprocess.run(
            ["ldd", *map(str, paths)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LDD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"`ldd`, which lists the libraries that Java is linked with, did not run: {error}") from None
    found = set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE))
    return {path for path in found if not Path(path).resolve().is_relative_to(home)}


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    entry.uid = entry.gid = _USER if "kafka" in name else 0
    tar.addfile(entry)


def _add_text(tar: tarfile.TarFile, name: str, text: str, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), mode
    tar.addfile(entry, io.BytesIO(text.encode()))


def _add_file(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Adds the content of the file `path` under the name `name`, owned by root and readable by everyone."""
    real = path.resolve()
    entry = tarfile.TarInfo(name)
    status = real.stat()
    entry.size, entry.mtime, entry.mode = (
        status.st_size,
        int(status.st_mtime),
        (status.st_mode & 0o777) | 0o444,
    )
    with real.open("rb") as content:
        tar.addfile(entry, content)


def _import(client: Any, path: Path, repository: str, name: str, what: str) -> Built:
    changes = [
        f'CMD ["/{_ENTRY_AT}"]',
        f"USER {_USER}",
        "ENV PATH=/bin:/opt/java/bin",
        "EXPOSE 9092",
        f'LABEL {VERSION_LABEL}="{what}"',
    ]
    with engine_and_images.trouble(f"the engine did not import the image {repository}:{name}"):
        answer = client.api.import_image_from_file(str(path), repository, name, changes)
        lines = [json.loads(line) for line in answer.splitlines() if line.strip()]
        wrong = next((line["error"] for line in lines if "error" in line), None)
        if wrong:
            raise ClusterTrouble(f"the engine did not import the image {repository}:{name}: {wrong}")
        made = client.images.get(f"{repository}:{name}")
    return Built(f"{repository}:{name}", made.id, int(made.attrs["Size"]))
