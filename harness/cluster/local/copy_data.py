"""Copies servers' data folders.

Run in the supervisor's mount namespace, as `python -m harness.cluster.local.copy_data`:

    TARGET PREFIX MOST_BYTES NODE=DATA ...   copy into TARGET/<node>/; prints {"bytes", "left_out"} as JSON

If a server has several log directories (DATA, DATA2, ...), they are merged into one folder: the lines of their
checkpoints are concatenated, and a partition that is in two directories is copied from the first.

The command copies the node's own files (checkpoints, meta.properties, the clean shutdown file). It also copies the
partitions of topics whose names begin with PREFIX, including deleted ones. A partition is copied from every node or
from none. Partitions that would make the total larger than MOST_BYTES are left out, and "left_out" lists their names.
Files stay sparse, because the preallocated index of an active segment is mostly empty. The servers should be paused
during the copy.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from harness.cluster.local.file_damage_kinds import folders

_OF_NODE: Final = ("meta.properties", ".kafka_cleanshutdown", "*-checkpoint")
_PIECE: Final = 1 << 20


def keep(target: Path, prefix: str, most: int, nodes: Mapping[str, Path]) -> dict[str, Any]:
    """Copies the data of stopped or paused servers into `target`: their own files, and the topics of a run.

    prefix  common prefix of the names of the run's topics
    most    limit on the total size, in bytes; partitions that would exceed it are left out
    nodes   node name -> data folder

    Returns {"bytes": total size, "left_out": names of the partitions that were left out}.
    """
    taken = 0
    logs: dict[str, dict[str, Path]] = {}  # by the partition's name, then by node
    for node, first in nodes.items():
        (target / node).mkdir(parents=True, exist_ok=True)
        for data in folders(first):
            _keep_own(data, target / node)
            for folder in data.glob(f"{prefix}*-*"):
                if folder.is_dir():
                    logs.setdefault(folder.name, {}).setdefault(node, folder)
    left_out = []
    for name, by_node in sorted(logs.items()):
        files = [(node, file) for node, folder in by_node.items() for file in _files(folder)]
        size = sum(_used(file) for _, file in files)
        if taken + size > most:
            left_out.append(name)
            continue
        taken += size
        for node in by_node:  # copy empty folders too: they show that the node has a replica
            (target / node / name).mkdir(exist_ok=True)
        for node, file in files:
            _copy(file, target / node / name / file.name)
    return {"bytes": taken, "left_out": left_out}


def _keep_own(data: Path, target: Path) -> None:
    """Copies the node's own files to `target`. If `target` already has a checkpoint of this name, merges the two."""
    for file in sorted(path for pattern in _OF_NODE for path in data.glob(pattern)):
        kept = target / file.name
        if file.is_symlink() or not file.is_file():
            continue
        if not kept.exists():
            shutil.copyfile(file, kept)
        elif file.name.endswith("-checkpoint"):
            kept.write_text(joined(kept.read_text(errors="replace"), file.read_text(errors="replace")))


def joined(one: str, other: str) -> str:
    """Returns one checkpoint text with the entries of two. A text has a version, a count, and one line per partition.

    Returns the first text if either text is too short, or if their versions differ.
    """
    head, more = one.splitlines(), other.splitlines()
    if len(head) < 2 or len(more) < 2 or head[0] != more[0]:
        return one
    lines = [*head[2:], *more[2:]]
    return "\n".join([head[0], str(len(lines)), *lines]) + "\n"


def _files(folder: Path) -> list[Path]:
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [file for file in found if file.is_file() and not file.is_symlink()]


def _used(file: Path) -> int:
    return sum(end - begin for begin, end in _pieces(file))


def _pieces(file: Path) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of the parts of a file that are not holes.

    On a file system that does not support holes, the only part is the whole file.
    """
    descriptor = os.open(file, os.O_RDONLY)
    try:
        end, size = 0, os.fstat(descriptor).st_size
        while end < size:
            try:
                begin = os.lseek(descriptor, end, os.SEEK_DATA)
            except OSError:  # only a hole follows
                return
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            yield begin, end
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("wb") as written:
        written.truncate(source.stat().st_size)
        for begin, end in _pieces(source):
            read.seek(begin)
            written.seek(begin)
            while begin < end and (piece := read.read(min(_PIECE, end - begin))):
                written.write(piece)
                begin += len(piece)


def main(argv: Sequence[str]) -> int:
    """Copies the data that the arguments name (see above). Exit code 1: an error, printed to standard error."""
    target, prefix, most, *rest = argv
    nodes = {name: Path(data) for name, _, data in (one.partition("=") for one in rest)}
    try:
        done = keep(Path(target), prefix, int(most), nodes)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    print(orjson.dumps(done).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
