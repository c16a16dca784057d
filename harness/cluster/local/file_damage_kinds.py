"""Kinds of damage to one part of every log of the run's topics, and to the files that control recovery.

    flip-last, flip-first      flip one bit that a checksum covers, in the last or in the first non-empty segment
    tail-last                  truncate the last non-empty segment in the middle of its last batch
    zero-last, zero-first      overwrite one page of the last or of the first non-empty segment with zeroes: the page
                               that contains the start of the segment's middle batch
    index-bad                  overwrite the first entries of every offset index with garbage
    timeindex-bad              overwrite the first entries of every time index with garbage
    index-short                truncate every index in the middle of an entry
    index-gone                 delete every offset index and every time index
    snapshot-bad               overwrite every producer snapshot with garbage, except its first bytes
    epochs-bad                 put a malformed line into leader-epoch-checkpoint
    no-point                   delete recovery-point-offset-checkpoint
    no-marker                  delete the clean shutdown file
    no-point-no-marker         delete recovery-point-offset-checkpoint and the clean shutdown file
    point-bad                  put a malformed line into recovery-point-offset-checkpoint
    point-high                 set the recovery points beyond the ends of the logs
    folder-fails               make the last log directory (such as data2) unusable
    folder-back                make this log directory usable again

Sources: KAFKA-615 (the recovery point); Kafka's LogLoader and LogManager, 3.9 to 4.3.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.protocol.record_batch import COVERED_AT
from harness.protocol.segment_file import covered

POINT: Final = "recovery-point-offset-checkpoint"
MARKER: Final = ".kafka_cleanshutdown"
EPOCHS: Final = "leader-epoch-checkpoint"
ASIDE: Final = "aside-"  # prefix of the name of a log directory that fails
PAGE: Final = 4096
SHORTER: Final = 3  # bytes: entries have 8 or 12
BEYOND: Final = 1_000_000  # an offset that no log of a run reaches
Damage = Callable[[Path, str, random.Random], dict[str, Any]]


def folders(data: Path) -> list[Path]:
    """Returns a server's log directories: DATA, DATA2, ..."""
    return [data, *sorted(path for path in data.parent.glob(f"{data.name}[2-9]") if path.is_dir())]


def logs(data: Path, prefix: str) -> list[Path]:
    """Returns the folders of the partitions of a run's topics. Names of these topics begin with `prefix`."""
    return sorted(path for path in data.glob(f"{prefix}*") if path.is_dir())


def segment(log: Path, which: int) -> Path | None:
    """Returns the first (`which` 0) or last (`which` -1) non-empty segment of a log; None if there is no such segment.

    A single non-empty segment counts as the last one, not as the first.
    """
    files = [file for file in sorted(log.glob("*.log")) if file.stat().st_size]
    if which == 0 and len(files) < 2:
        return None  # the only segment is the last one, which recovery scans
    return files[which] if files else None


def _segments(
    which: int, change: Callable[[bytearray, random.Random], str], data: Path, prefix: str, rng: random.Random
) -> dict[str, Any]:
    """Applies `change` to one segment of every log; returns {"files": {file: what was done}}, or {}.

    which   0: the first segment of each log; -1: the last
    change  changes the segment's content in place; returns a description, or "" if nothing was changed
    """
    done = {}
    for log in logs(data, prefix):
        file = segment(log, which)
        if file is None:
            continue
        content = bytearray(file.read_bytes())
        change_made = change(content, rng)
        if change_made:
            file.write_bytes(content)
            done[str(file.relative_to(data))] = change_made
    return {"files": done} if done else {}


def _flip(content: bytearray, rng: random.Random) -> str:
    """Flips one bit of the segment's middle batch."""
    batches = covered(content)
    if not batches:
        return ""
    place = rng.choice(batches[len(batches) // 2])
    content[place] ^= 1 << rng.randrange(8)
    return f"bit flipped in byte {place}"


def _tail(content: bytearray, rng: random.Random) -> str:
    """Truncates the segment somewhere within its last batch, as if a write had not been completed."""
    batches = covered(content)
    if not batches:
        return ""
    begin, end = batches[-1].start, batches[-1].stop
    size = rng.randrange(begin - 1, end)
    del content[size:]
    return f"{end - size} bytes cut off"


def _zero(content: bytearray, rng: random.Random) -> str:
    """Overwrites the page that contains the start of the middle batch with zeroes, as if its write had been lost."""
    batches = covered(content)
    if not batches:
        return ""
    at = (batches[len(batches) // 2].start - COVERED_AT) // PAGE * PAGE
    end = min(at + PAGE, len(content))
    content[at:end] = bytes(end - at)
    return f"zeroes from byte {at} to {end}"


def _files(
    pattern: str, change: Callable[[Path, random.Random], bool], data: Path, prefix: str, rng: random.Random
) -> dict[str, Any]:
    """Applies `change` to every file that matches `pattern` in the run's logs; returns how many were changed."""
    found = [file for log in logs(data, prefix) for file in sorted(log.glob(pattern))]
    count = sum(change(file, rng) for file in found)
    return {"changed": count} if count else {}


def _garbage(head: int, size: int) -> Callable[[Path, random.Random], bool]:
    """Returns a `change` for `_files` that overwrites part of a file with random bytes.

    The change keeps the first `head` bytes and the length of the file, and overwrites at most `size` bytes.
    """

    def change(file: Path, rng: random.Random) -> bool:
        length = min(size, file.stat().st_size - head)
        if length <= 0:
            return False
        with file.open("r+b") as out:
            out.seek(head)
            out.write(rng.randbytes(length))
        return True

    return change


def _short(file: Path, rng: random.Random) -> bool:
    size = file.stat().st_size
    if size < SHORTER:
        return False
    with file.open("r+b") as out:
        out.truncate(size - SHORTER)
    return True


def _gone(file: Path, rng: random.Random) -> bool:
    file.unlink()
    return True


def _bad_line(file: Path, rng: random.Random) -> bool:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], "this is no entry", *lines[3:]]) + "\n")
    return True


def _removed(names: tuple[str, ...], data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    present = [name for name in names if (data / name).exists()]
    for name in present:
        (data / name).unlink()
    return {"deleted": present} if len(present) == len(names) else {}


def _point_bad(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    file = data / POINT
    return {"changed": int(_bad_line(file, rng))} if file.exists() else {}


def _point_high(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Sets the recovery point of each of the run's logs far beyond the end of the log."""
    file = data / POINT
    if not file.exists():
        return {}
    rows = [line.split() for line in file.read_text().splitlines()]
    changed = [row for row in rows[2:] if len(row) == 3 and row[0].startswith(prefix)]
    for row in changed:
        row[2] = str(BEYOND)
    file.write_text("".join(" ".join(row) + "\n" for row in rows))
    return {"changed": len(changed)} if changed else {}


def _folder_fails(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Replaces the last log directory, which is not the first, with a file.

    Files that are already open keep working, but no file can be opened or created there.
    """
    several = folders(data)
    last = several[-1]
    if len(several) < 2 or any(data.parent.glob(f"{ASIDE}*")):
        return {}
    last.rename(last.with_name(f"{ASIDE}{last.name}"))
    last.touch()
    return {"failed": last.name}


def _folder_back(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    aside = next(data.parent.glob(f"{ASIDE}*"), None)
    if aside is None:
        return {}
    last = aside.with_name(aside.name.removeprefix(ASIDE))
    last.unlink(missing_ok=True)
    aside.rename(last)
    return {"back": last.name}


KINDS: Final[dict[str, Damage]] = {
    "flip-last": partial(_segments, -1, _flip),
    "flip-first": partial(_segments, 0, _flip),
    "tail-last": partial(_segments, -1, _tail),
    "zero-last": partial(_segments, -1, _zero),
    "zero-first": partial(_segments, 0, _zero),
    "index-bad": partial(_files, "*.index", _garbage(0, 64)),
    "timeindex-bad": partial(_files, "*.timeindex", _garbage(0, 96)),
    "index-short": partial(_files, "*index", _short),
    "index-gone": partial(_files, "*index", _gone),
    "snapshot-bad": partial(_files, "*.snapshot", _garbage(2, 64)),
    "epochs-bad": partial(_files, EPOCHS, _bad_line),
    "no-point": partial(_removed, (POINT,)),
    "no-marker": partial(_removed, (MARKER,)),
    "no-point-no-marker": partial(_removed, (POINT, MARKER)),
    "point-bad": _point_bad,
    "point-high": _point_high,
    "folder-fails": _folder_fails,
    "folder-back": _folder_back,
}
