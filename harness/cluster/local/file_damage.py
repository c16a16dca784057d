"""Damages the files of a stopped server.

Run in the supervisor's mount namespace, as `python -m harness.cluster.local.file_damage`:

    KIND DATA PREFIX SEED    damage files of topics whose names begin with PREFIX; prints what was done, as JSON

KIND is one of the kinds in `harness.cluster.local.file_damage_kinds` or `harness.cluster.local.stale_chunks`, or one of
these:

    flip-bits          flip one bit in each of a few places of the largest segment, in bytes that a checksum covers
    truncate-tail      cut off the last part of the largest segment, most likely in the middle of a batch
    damage-index       overwrite the first bytes of every offset and time index with garbage
    erase              delete everything except meta.properties and bootstrap.checkpoint, which formatting writes
    format             like erase; then write bootstrap.checkpoint again and sync it
    format-unsynced    like format, but without the sync: a power cut can undo it (Kafka's own tool omits the sync, too)
    delete-checkpoint  delete recovery-point-offset-checkpoint, replication-offset-checkpoint and the clean shutdown
                       file

Failing disks, failing memory and mistakes of operators cause such damage. Sources: Kafka documentation, 6.5 (log
recovery); KIP-101.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from harness.cluster.local import file_damage_kinds, stale_chunks
from harness.protocol.segment_file import covered

FLIPS: Final = 8
CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    ".kafka_cleanshutdown",
)

# What formatting writes, and what every new ext4 file system contains.
BOOTSTRAP: Final = "bootstrap.checkpoint"
FORMATTED: Final = ("meta.properties", BOOTSTRAP, "lost+found")


def _largest(data: Path, prefix: str) -> Path | None:
    """Returns the largest non-empty segment of topics whose names begin with `prefix`.

    If several are equally large, returns the first of them by name.
    """
    files = sorted(data.glob(f"{prefix}*/*.log"))
    return max((file for file in files if file.stat().st_size), key=lambda file: file.stat().st_size, default=None)


def flip_bits(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Flips one bit in each of `FLIPS` bytes of the largest segment of the run's topics."""
    file = _largest(data, prefix)
    if file is None:
        return {}
    content = bytearray(file.read_bytes())
    batches = covered(content)
    if not batches:
        return {}
    sizes = [len(batch) for batch in batches]
    places = sorted({rng.choice(batch) for batch in rng.choices(batches, sizes, k=FLIPS)})
    for place in places:
        content[place] ^= 1 << rng.randrange(8)
    file.write_bytes(content)
    return {"file": str(file.relative_to(data)), "flipped": places}


def truncate_tail(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Cuts off the end of the largest segment of the run's topics: between a tenth and a half of its bytes."""
    file = _largest(data, prefix)
    if file is None:
        return {}
    size = file.stat().st_size
    cut = max(1, int(size * rng.uniform(0.1, 0.5)))
    with file.open("r+b") as segment:
        segment.truncate(size - cut)
    return {"file": str(file.relative_to(data)), "cut_bytes": cut, "of_bytes": size}


def damage_index(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Overwrites the first entries of every index of the run's topics with garbage.

    An empty index gets new entries with garbage.
    """
    files = [file for kind in ("index", "timeindex") for file in sorted(data.glob(f"{prefix}*/*.{kind}"))]
    for file in files:
        with file.open("r+b") as index:
            index.write(rng.randbytes(24))
    return {"files": len(files)} if files else {}


def delete_checkpoint(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Deletes the files that let a server skip log recovery when it starts."""
    present = [name for name in CHECKPOINTS if (data / name).exists()]
    for name in present:
        (data / name).unlink()
    return {"deleted": present} if present else {}


def erase(data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Deletes everything except meta.properties and bootstrap.checkpoint, which formatting writes.

    Returns {"erased": number of files and folders}, or {} if there was nothing to delete.
    """
    doomed = [path for path in sorted(data.iterdir()) if path.name not in FORMATTED]
    for path in doomed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return {"erased": len(doomed)} if doomed else {}


def _formatted(synced: bool, data: Path, prefix: str, rng: random.Random) -> dict[str, Any]:
    """Erases the data, and writes bootstrap.checkpoint again with its original content; syncs it if `synced`.

    The first call saves a copy of bootstrap.checkpoint next to the data folder, because a power cut may destroy the
    file in the data folder.
    """
    bootstrap, kept = data / BOOTSTRAP, data.with_name(f"kept-{BOOTSTRAP}")
    if not kept.exists() and bootstrap.exists():
        kept.write_bytes(bootstrap.read_bytes())
    if not kept.exists():
        return {}
    done = erase(data, prefix, rng)
    bootstrap.unlink(missing_ok=True)
    with bootstrap.open("wb") as file:
        file.write(kept.read_bytes())
        if synced:
            file.flush()
            os.fsync(file.fileno())
    return {**done, "written": BOOTSTRAP, "synced": synced}


KINDS: Final[dict[str, Callable[[Path, str, random.Random], dict[str, Any]]]] = {
    "flip-bits": flip_bits,
    "truncate-tail": truncate_tail,
    "damage-index": damage_index,
    "delete-checkpoint": delete_checkpoint,
    "erase": erase,
    "format": partial(_formatted, True),
    "format-unsynced": partial(_formatted, False),
    **file_damage_kinds.KINDS,
    **stale_chunks.KINDS,
}


def main(argv: Sequence[str]) -> int:
    """Damages files as the arguments say (see above). Exit code 1: an error, printed to standard error."""
    kind, data, prefix, seed = argv
    try:
        done = KINDS[kind](Path(data), prefix, random.Random(int(seed)))
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    print(orjson.dumps(done).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
