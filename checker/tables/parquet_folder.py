"""Reads and writes a history as a folder of Parquet tables, which `harness export --format parquet` makes.

    <the tables that checker.tables.schema describes>  _checksums.json  plan.yaml  events/  metadata/

_checksums.json has the CRC-32 of every file of the tables, because these files may be copied over networks, and
Parquet's own checksums cover pages but not the footer. The tables/ folder of a run has the same layout, but no
_checksums.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from checker.tables import make_tables
from checker.tables.buckets_of_a_history import Source, on_disk
from checker.tables.read_history import checksum
from harness.model.errors_and_exit_codes import BadHistory

CHECKSUMS: Final = "_checksums.json"
SHOWN: Final = 120  # characters of a name in a message
# The files of a run, besides its history, that a verdict depends on.
BESIDE: Final = ("plan.yaml", "events", "metadata")
AGAIN: Final = "export the history again: harness export RUN --format parquet"


def is_tables(path: Path) -> bool:
    """Returns whether the path is a Parquet folder, even if files are missing. A run folder is not one."""
    if not path.is_dir() or (path / "history").is_dir():
        return False
    return (path / make_tables.META).exists() or (path / "ops").is_dir() or any(path.glob("*.parquet"))


def source(folder: Path, spark: Any = None) -> Source:
    """Returns a `Source` with the tables in a Parquet folder.

    Raises BadHistory if a file is missing or has changed; the error names the file.
    """
    if not (folder / make_tables.META).is_file():
        raise BadHistory(
            f"{folder}: no {make_tables.META}, which is written last: the tables are incomplete, or were not made by "
            f"this checker; {AGAIN}"
        )
    _verify(folder)
    meta = make_tables.read_meta(folder)
    if meta is None:
        raise BadHistory(f"{folder / make_tables.META}: {_wrong(folder)}; {AGAIN}")
    _sound(folder, meta)
    found = on_disk(None, folder, meta, spark)
    noted = folder if (folder / "events").is_dir() else folder.parent
    return Source(None, found.parts, found.meta, spark, noted)


def _wrong(folder: Path) -> str:
    """Returns why `read_meta` rejects the metadata of the folder, in words."""
    try:
        meta = orjson.loads((folder / make_tables.META).read_bytes())
        for name, size in meta["files"].items():
            if not (folder / name).is_file():
                return f"{name[:SHOWN]!r} is missing"
            if (folder / name).stat().st_size != size:
                return f"{name[:SHOWN]!r} has changed in size since it was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return "not the metadata of this checker's tables"


def _sound(folder: Path, meta: Mapping[str, Any]) -> None:
    """Raises BadHistory if the metadata has values of a wrong type or an impossible number of buckets."""
    integers = ("lines", "ops", "last_ok_op", "last_ok_ns", "max_ns", "buckets")
    texts = (str, type(None))
    sound = (
        all(type(meta[name]) is int for name in integers)
        and 1 <= meta["buckets"] <= 1 << 16
        and isinstance(meta["counts"], dict)
        and all(
            isinstance(kinds, dict) and all(type(count) is int for count in kinds.values())
            for kinds in meta["counts"].values()
        )
        and isinstance(meta["final_processes"], dict)
        and all(name.lstrip("-").isdecimal() for name in meta["final_processes"])
        and all(isinstance(kind, str) for kind in meta["final_processes"].values())
        and isinstance(meta["doubts"], list)
        and all(isinstance(doubt, str) for doubt in meta["doubts"])
        and isinstance(meta["truncated"], texts)
        and isinstance(meta["run"], texts)
    )
    if not sound:
        raise BadHistory(f"{folder / make_tables.META}: damaged; {AGAIN}")


def _verify(folder: Path) -> None:
    """Raises BadHistory if a file listed in _checksums.json is missing or has changed since the folder was made.

    Does nothing if there is no _checksums.json.
    """
    listed = folder / CHECKSUMS
    if not listed.is_file():
        return
    try:
        sums = orjson.loads(listed.read_bytes())
        names = list(sums.items())
    except (OSError, orjson.JSONDecodeError, AttributeError):
        raise BadHistory(f"{listed}: damaged; {AGAIN}") from None
    for name, crc in names:
        try:
            _, found = checksum(folder / name)
        except (OSError, ValueError):
            raise BadHistory(f"{folder}: {name[:SHOWN]!r} is missing; {AGAIN}") from None
        if found != crc:
            raise BadHistory(f"{folder / name[:SHOWN]}: changed since it was written; {AGAIN}")


def write(path: Path, folder: Path, progress: Callable[[str], None] = lambda text: None) -> int:
    """Exports a history to a Parquet folder. Returns the number of lines of the history. Raises BadHistory, Missing."""
    meta = make_tables.make(path, folder, None, progress)
    with make_tables.writing(folder):
        if path.is_dir():
            for name in BESIDE:
                _copy(path / name, folder / name)
        names = [*meta["files"], make_tables.META]
        (folder / CHECKSUMS).write_bytes(orjson.dumps({name: checksum(folder / name)[1] for name in names}))
    return int(meta["lines"])


def _copy(source_path: Path, target: Path) -> None:
    if source_path.is_dir():
        shutil.copytree(source_path, target)
    elif source_path.is_file():
        shutil.copy(source_path, target)
