"""The layout of a node's data folder: partitions, segments, and files of the node itself.

    meta.properties                          the node's id and its cluster's id
    *-checkpoint                             offsets by partition (`checker.disk.checkpoints`)
    .kafka_cleanshutdown                     written by a clean shutdown, removed when the server starts
    TOPIC-PARTITION/OFFSET.log .index ...    a segment and its indexes, named by its base offset
    TOPIC-PARTITION.ID-delete    a partition that is being deleted
    TOPIC-PARTITION.ID-future    a partition that is being moved to this folder
    TOPIC-PARTITION.ID-stray     a partition that is no longer assigned to the node

A file name that ends in .deleted means that the broker deleted or replaced the file and will remove it later. Such a
file may still have records that were truncated from the log. A file is *set aside* if it has such a name, or is in a
-delete, -future or -stray folder. The segments that are not set aside are the *active log*.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checker.disk import checkpoints
from harness.protocol.flaws import Flaw

_FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d{1,10})(?P<aside>\..*)?")
_FILE: Final = re.compile(r"(?P<base>\d{20})(?P<kind>\.[a-z.]+)")
ASIDE: Final = re.compile(r"\.[0-9a-f]{32}-(delete|future|stray)")
DELETED: Final = ".deleted"
SMALL_MAX: Final = 64 << 20
OFFSETS: Final = 1 << 63  # exclusive upper bound of offsets


@dataclass(frozen=True, slots=True)
class Segment:
    """The files of a segment. `aside`: whether the segment no longer belongs to the active log."""

    base: int
    log: Path
    aside: bool = False

    def sibling(self, kind: str) -> Path:
        """Returns the path of another file of the segment. `kind` is the file's suffix, such as ".index"."""
        return self.log.with_name(f"{self.base:020d}{kind}")


@dataclass(frozen=True, slots=True)
class Replica:
    """The folder of one partition.

    segments  the segments of the active log, ascending
    aside     the segments on disk that no longer belong to the active log, ascending
    """

    folder: Path
    topic: str
    partition: int
    segments: tuple[Segment, ...]
    aside: tuple[Segment, ...]

    def named(self, path: Path) -> str:
        """Returns a file's path relative to the node's data folder."""
        return str(path.relative_to(self.folder.parent))

    def others(self, kind: str) -> list[tuple[int, Path]]:
        """Returns (offset in the name, path) of the folder's files with a suffix such as ".snapshot", ascending."""
        found = []
        for path in sorted(self.folder.iterdir()):
            match = _FILE.fullmatch(path.name)
            if match and match["kind"] == kind and int(match["base"]) < OFFSETS:
                found.append((int(match["base"]), path))
        return found


def partitions(data: Path) -> list[tuple[str, int]]:
    """Returns each (topic, partition) in a data folder, even if only a -delete, -future or -stray folder exists."""
    found = set()
    for path in data.iterdir() if data.is_dir() else ():
        match = _FOLDER.fullmatch(path.name)
        if match and path.is_dir() and (not match["aside"] or ASIDE.fullmatch(match["aside"])):
            found.add((match["topic"], int(match["partition"])))
    return sorted(found)


def replica(data: Path, topic: str, partition: int) -> Replica | None:
    """Returns the replica of a partition in a data folder, including segments that no longer belong to the active log.

    Returns None if the data folder has neither a folder of the partition nor such a segment.
    """
    folder = data / f"{topic}-{partition}"
    active, aside = list[Segment](), list[Segment]()
    for path in sorted(data.glob(f"{topic}-{partition}*")) if data.is_dir() else ():
        match = _FOLDER.fullmatch(path.name)
        if not match or (match["topic"], int(match["partition"])) != (topic, partition) or not path.is_dir():
            continue
        own = path == folder
        if not own and not (match["aside"] and ASIDE.fullmatch(match["aside"])):
            continue
        for base, log, deleted in _logs(path):
            (active if own and not deleted else aside).append(Segment(base, log, not own or deleted))
    if not folder.is_dir() and not aside:
        return None
    return Replica(folder, topic, partition, _ascending(active), _ascending(aside))


def _ascending(segments: list[Segment]) -> tuple[Segment, ...]:
    return tuple(sorted(segments, key=lambda segment: (segment.base, segment.log)))


def _logs(folder: Path) -> Iterator[tuple[int, Path, bool]]:
    for path in folder.iterdir():
        match = _FILE.fullmatch(path.name)
        kinds = (".log", f".log{DELETED}")
        if match and match["kind"] in kinds and int(match["base"]) < OFFSETS and path.is_file():
            yield int(match["base"]), path, match["kind"] != ".log"


def nodes(root: Path) -> dict[str, Path]:
    """Finds the data folders in `root`, and returns node -> data folder; empty if there are none.

    If `root` itself is a data folder, it is the only one. Otherwise each subfolder is a node, and its data folder is
    the subfolder itself or its `data`. A folder is recognized as a data folder if it has a `meta.properties`, a
    checkpoint, or a partition with a segment.
    """
    if _is_data(root):
        return {root.name: root}
    found = {}
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        for at in (path, path / "data"):
            if path.is_dir() and _is_data(at):
                found[path.name] = at
                break
    return found


def _is_data(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    marks = (checkpoints.META, *checkpoints.OF_OFFSETS)
    return any((folder / name).is_file() for name in marks) or any(folder.glob("*-*/*.log"))


def small(path: Path) -> bytes | None:
    """Returns the content of a small file; None if the file is missing or implausibly large."""
    try:
        if path.stat().st_size > SMALL_MAX:
            return None
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return None


def checkpoint(data: Path, name: str) -> tuple[checkpoints.Offsets, tuple[Flaw, ...]]:
    """Parses a checkpoint of a data folder. Returns ({(topic, partition): offset}, the flaws).

    Both are empty if the file does not exist.
    """
    content = small(data / name)
    return ({}, ()) if content is None else checkpoints.offsets(content, name)


def properties(data: Path) -> Mapping[str, str]:
    """Returns the settings in meta.properties; an empty mapping if the file does not exist."""
    content = small(data / checkpoints.META)
    return {} if content is None else checkpoints.properties(content, checkpoints.META)[0]
