"""Restores chunks of a server's files from an older state: the data is stale, but it is no garbage.

    remember        copy the files of the run's topics, and the checkpoints that all topics share, next to the data
    stale-chunks    put back a random half of the pages that have changed since the copy

A disk that has acknowledged a write and lost it returns the older content of the page: zeroes where the file did not
reach so far, checkpoints and index entries of earlier times, and, where a log was truncated and written again, batches
of an earlier leader epoch whose checksums are right. Jepsen's nemesis for files restores chunks in the same way.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, Final

from harness.cluster.local.file_damage_kinds import PAGE, Damage, logs

PAGES_MAX: Final = 64
BYTES_MAX: Final = 256 << 20
_OLDER: Final = "older-"  # prefix of the name of the copy's folder


def _files(data: Path, prefix: str) -> list[Path]:
    """Returns the files of the run's logs, the newest segments first, and the checkpoints that all topics share."""
    of_logs = [file for log in logs(data, prefix) for file in sorted(log.iterdir(), reverse=True) if file.is_file()]
    return [*sorted(data.glob("*-checkpoint")), *of_logs]


def remember(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Copies the files, up to `BYTES_MAX`. A file may be written meanwhile: the copy is one of pages, not of files."""
    older = data.with_name(_OLDER + data.name)
    shutil.rmtree(older, ignore_errors=True)
    count, left = 0, BYTES_MAX
    for file in _files(data, prefix):
        try:
            content = file.read_bytes()
        except FileNotFoundError:  # a segment that was deleted, or a checkpoint that was replaced
            continue
        if len(content) > left:
            continue
        left -= len(content)
        copy = older / file.relative_to(data)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        count += 1
    return {"files": count} if count else {}


def changed(then: bytes, now: bytes) -> list[int]:
    """Returns where the pages begin that have changed. Content that did not exist then counts as zeroes."""
    padded = then[: len(now)] + bytes(max(0, len(now) - len(then)))
    return [at for at in range(0, len(now), PAGE) if padded[at : at + PAGE] != now[at : at + PAGE]]


def stale_chunks(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Puts back a random half of the changed pages, at most `PAGES_MAX`. Files that were not copied stay as they are.

    Returns {"restored": {file: [byte offsets of the pages]}}, or {} if no page has changed. Removes the copy.
    """
    older = data.with_name(_OLDER + data.name)
    found = []
    for copy in sorted(path for path in older.rglob("*") if path.is_file()):
        file = data / copy.relative_to(older)
        if file.is_file():
            found += [(file, copy, at) for at in changed(copy.read_bytes(), file.read_bytes())]
    picked = sorted(rng.sample(found, min(PAGES_MAX, -(-len(found) // 2))))
    restored: dict[str, list[int]] = {}
    for file, copy, at in picked:
        size = min(PAGE, file.stat().st_size - at)
        with file.open("r+b") as out:
            out.seek(at)
            out.write(copy.read_bytes()[at : at + size].ljust(size, b"\0"))
        restored.setdefault(str(file.relative_to(data)), []).append(at)
    shutil.rmtree(older, ignore_errors=True)
    return {"restored": restored} if restored else {}


KINDS: Final[dict[str, Damage]] = {"remember": remember, "stale-chunks": stale_chunks}
