"""Gives each node's data its own disk, i.e. an ext4 file system in a file, and simulates power cuts of the disk.

A power cut works as in xfstests: after an ioctl, the file system writes nothing more, not even its journal. The next
mount recovers only what had been synced. The disks are mounted in the supervisor's mount namespace, so the mounts and
their loop devices disappear with that namespace. Mounting a disk requires real root: root of a user namespace may not.

Run in that namespace as `python -m harness.cluster.local.disks`, with one of these verbs. IMAGE is the file that
contains a disk, and AT is the folder where the disk is mounted:

    make IMAGE AT BYTES ...   create disks and mount them; existing contents of AT are copied to the disk and synced
    cut AT ...                stop all writes to these disks
    again IMAGE AT ...        unmount disks whose power was cut, and mount them again
    sizes AT ...              print {AT: bytes in *.log files} as JSON
    fill AT ...               take all free space; print {AT: bytes} as JSON
    free AT ...               release the space that `fill` took
    write AT COUNT EVERY_S    print latencies of small synced writes, [ms, ...], as JSON
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

# FS_IOC_SHUTDOWN, and FSOP_GOING_FLAGS_NOLOGFLUSH: do not even write the journal (linux/fs.h).
_SHUTDOWN: Final = 0x8004587D
_NO_LOG_FLUSH: Final = 2
_TOOLS: Final = ("mkfs.ext4", "mount", "umount")
_TOOL_TIMEOUT_S: Final = 60.0
_FILLER: Final = "filler.tmp"
_PROBE: Final = "probe.tmp"


def why_not() -> str:
    """Returns why this machine cannot give nodes their own disks, and what to do; empty if it can."""
    if os.geteuid() != 0:
        return "mounting a disk requires root: run as root"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not found: install the packages e2fsprogs and mount"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices (/dev/loop-control): load the module `loop`"
    return ""


def make(image: Path, at: Path, size: int) -> None:
    """Creates a disk in a sparse file of up to `size` bytes, and mounts it at the folder `at`.

    The contents of the folder are copied to the disk and synced.
    """
    with image.open("wb") as file:
        file.truncate(size)
    _tool("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(image))
    with tempfile.TemporaryDirectory() as aside:
        kept = Path(aside) / "kept"
        shutil.copytree(at, kept)
        _mount(image, at)
        shutil.copytree(kept, at, dirs_exist_ok=True)
    shutil.rmtree(at / "lost+found", ignore_errors=True)  # Kafka would treat it as the directory of a partition
    os.sync()


def cut(at: Path) -> None:
    """Stops all writes to the disk mounted at `at`. Raises OSError if `at` is not a mount point."""
    if not os.path.ismount(at):
        raise OSError(f"{at} is not a disk of its own: cutting its power would affect other files, too")
    disk = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(disk, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(disk)


def again(image: Path, at: Path) -> None:
    """Unmounts a disk and mounts it again. Only what was synced before the power cut is left on the disk.

    No process may have files open on the disk.
    """
    _tool("umount", str(at))
    _mount(image, at)


def sizes(at: Path) -> int:
    """Returns the total size in bytes of all log segments on the disk."""
    return sum(file.stat().st_size for file in at.glob("*/*.log"))


def fill(at: Path) -> int:
    """Creates a file that takes all free space of the disk; returns the file's size in bytes.

    The image that contains the disk stays sparse: it does not become larger.
    """
    room = os.statvfs(at)
    size = room.f_bavail * room.f_frsize
    with (at / _FILLER).open("wb") as filler:
        for step in (1 << 20, 4096):  # the file system's own overhead is not known in advance
            while size >= step:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), size)
                    break
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size -= step
        return filler.seek(0, os.SEEK_END)


def free(at: Path) -> None:
    """Removes the file that `fill` created."""
    (at / _FILLER).unlink(missing_ok=True)


def write(at: Path, count: int, every_s: float) -> list[float]:
    """Writes and syncs a block `count` times, with pauses of `every_s` seconds; returns the latencies in ms."""
    latencies_ms = []
    for _ in range(count):
        began = time.monotonic()
        with (at / _PROBE).open("wb") as probe:
            probe.write(bytes(4096))
            probe.flush()
            os.fsync(probe.fileno())
        latencies_ms.append(round((time.monotonic() - began) * 1000, 1))
        time.sleep(every_s)
    (at / _PROBE).unlink()
    return latencies_ms


def _mount(image: Path, at: Path) -> None:
    _tool("mount", "-t", "ext4", "-o", "loop", str(image), str(at))


def _tool(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S)


def main(argv: Sequence[str]) -> int:
    """Executes a verb on disks (see above). Exit code 1: an error, printed to standard error on one line."""
    verb, *rest = argv
    try:
        match verb:
            case "make":
                for image, at, size in zip(*[iter(rest)] * 3, strict=True):
                    make(Path(image), Path(at), int(size))
            case "cut":
                for at in rest:
                    cut(Path(at))
            case "again":
                for image, at in zip(*[iter(rest)] * 2, strict=True):
                    again(Path(image), Path(at))
            case "fill":
                print(orjson.dumps({at: fill(Path(at)) for at in rest}).decode())
            case "free":
                for at in rest:
                    free(Path(at))
            case "write":
                print(orjson.dumps(write(Path(rest[0]), int(rest[1]), float(rest[2]))).decode())
            case "sizes":
                print(orjson.dumps({at: sizes(Path(at)) for at in rest}).decode())
            case _:
                raise ValueError(f"unknown verb {verb!r}")
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd[0]}: {error.stderr.strip() or error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
