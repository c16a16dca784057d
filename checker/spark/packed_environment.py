"""Packs the checker and the packages that it needs into an archive, which Spark copies to its executors.

Executors then need only Java, Spark, and a Python of the driver's minor version. The archive contains the installed
files of the packages, as they are in this environment. So it needs neither network nor pip, and executors compute with
exactly the versions of the driver. It is a zip file, because Spark unpacks those itself; for tar files it runs `tar`,
which a small image may lack. `--py-files` would not do: Python cannot load compiled modules from a zip file. pyspark is
not included: executors use that of their Spark.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Final
from uuid import uuid4

from harness.model.errors_and_exit_codes import Missing

# What `checker`, `harness.model` and `harness.protocol` import.
DISTRIBUTIONS: Final = ("google-crc32c", "numpy", "orjson", "pyarrow", "scipy")
PROJECT: Final = ("checker", "harness/model", "harness/protocol")
# A third of the packages' size: tests, headers, and clients of services that the checker does not use.
_UNUSED_FOLDERS: Final = frozenset({"tests", "include", "__pycache__", "src", "bin"})
_UNUSED_SUFFIXES: Final = (".pyi", ".pyx", ".pxd", ".pxi", ".h", ".hpp", ".a", ".pyc", ".cc")
_UNUSED_PARTS: Final = ("libarrow_flight", "libarrow_python_flight", "_flight.")
_FAST: Final = 1  # level of compression: with the highest one, packing takes minutes


def pack(cache: Path) -> Path:
    """Returns the archive in the folder `cache`, and makes it if it is not there. It is named by a hash of its content.

    Raises Missing if a package is not installed, or the archive cannot be written.
    """
    files = dict(sorted((*_packages(), *_project())))
    archive = cache / f"executors-{_digest(files)}.zip"
    if archive.is_file():
        return archive
    part = cache / f".{archive.name}.{uuid4().hex[:12]}"
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=_FAST) as opened:
            for name, file in files.items():
                opened.write(file, name)
            opened.writestr("harness/__init__.py", "")
        part.replace(archive)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Missing(
            f"{archive}: cannot be written ({error.strerror}); free disk space, or set HARNESS_CACHE"
        ) from None
    for old in cache.glob("executors-*.zip"):
        if old != archive:
            old.unlink(missing_ok=True)
    return archive


def _packages() -> Iterator[tuple[str, Path]]:
    """Yields (name in the archive, path) of the files of all packages."""
    for name in DISTRIBUTIONS:
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise Missing(f"the package {name} is not installed; install the harness again") from None
        for file in found.files or ():
            if _used(file):
                yield file.as_posix(), Path(str(found.locate_file(file)))


def _used(file: metadata.PackagePath) -> bool:
    path = PurePosixPath(file)
    return not (
        ".." in path.parts
        or _UNUSED_FOLDERS & {*path.parts}
        or path.name.endswith(_UNUSED_SUFFIXES)
        or path.name.startswith(_UNUSED_PARTS)
    )


def _project() -> Iterator[tuple[str, Path]]:
    """Yields (name in the archive, path) of the modules of the project that executors import."""
    root = Path(__file__).resolve().parents[2]
    for folder in PROJECT:
        for file in (root / folder).rglob("*"):
            if file.is_file() and file.suffix != ".pyc":
                yield file.relative_to(root).as_posix(), file


def _digest(files: dict[str, Path]) -> str:
    """Returns a hash of the platform, of the packages' names and versions, and of the project's files."""
    known = hashlib.sha256(repr((sys.version_info[:2], sys.platform, platform.machine())).encode())
    for name in DISTRIBUTIONS:
        known.update(f"{name}=={metadata.version(name)}\n".encode())
    folders = tuple(f"{folder}/" for folder in PROJECT)
    for name, file in files.items():
        known.update(f"{name}\n".encode())
        known.update(file.read_bytes() if name.startswith(folders) else os.fsencode(str(file.stat().st_size)))
    return known.hexdigest()[:16]
