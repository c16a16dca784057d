"""Makes a disk stall repeatedly, by freezing and thawing its file system.

The ioctl FIFREEZE flushes everything and then blocks all writers; reads continue. (Snapshot tools also use this ioctl.)
The ioctl works on every disk file system, without control groups or a device mapper, and requires root.

A process that waits for a frozen disk cannot be killed, and a file system stays frozen even after it is unmounted.
Therefore, when the cluster ends, the guard process of the namespaces thaws all file systems that were mounted in them
(`thaw_all`).

Run as `python -m harness.cluster.local.freeze_disk AT STALL_S GAP_S` with a socket as descriptor 3. The process sends
{} once the first stall has begun, or {"why": text} if it failed. When the other side of the socket closes, the process
thaws the disk and ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import orjson

CONTROL: Final = 3
_FREEZE: Final = 0xC0045877
_THAW: Final = 0xC0045878
# mountinfo escapes these characters, because they would end a field.
_ESCAPES: Final = ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\"))


def freeze(at: str) -> None:
    """Blocks all writes to the file system mounted at `at`. Raises OSError."""
    _control(at, _FREEZE, errno.EBUSY)  # frozen already


def thaw(at: str) -> None:
    """Unblocks writes to the file system mounted at `at`; does nothing if they are not blocked. Raises OSError."""
    _control(at, _THAW, errno.EINVAL)  # not frozen


def mounted(mountinfo: int) -> frozenset[str]:
    """Returns the mount points of ext4 file systems. `mountinfo` is a descriptor of a file /proc/.../mountinfo."""
    os.lseek(mountinfo, 0, os.SEEK_SET)
    with os.fdopen(os.dup(mountinfo), encoding="utf-8", errors="surrogateescape") as lines:
        found = set()
        for line in lines:
            before, _, after = line.partition(" - ")
            if after.startswith("ext4 "):
                at = before.split()[4]
                for escape, text in _ESCAPES:
                    at = at.replace(escape, text)
                found.add(at)
    return frozenset(found)


def thaw_all(places: Iterable[str]) -> None:
    """Unblocks writes to the file systems mounted at these places; ignores errors."""
    for at in places:
        with suppress(OSError):
            thaw(at)


def _control(at: str, request: int, harmless: int) -> None:
    """Issues one ioctl for a mount point; ignores the error number `harmless`.

    Closes the mount point at once, because an open file would prevent unmounting the disk.
    """
    disk = os.open(at, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(disk, request, 0)
    except OSError as error:
        if error.errno != harmless:
            raise
    finally:
        os.close(disk)


def main(argv: Sequence[str]) -> int:
    """Freezes and thaws a disk until the socket closes (see above). Exit code 1: the disk could not be frozen."""
    at, stall_s, gap_s = argv[0], float(argv[1]), float(argv[2])
    control = socket.socket(fileno=CONTROL)
    announced = False
    try:
        while True:
            freeze(at)
            if not announced:
                control.send(b"{}")
                announced = True
            ended = select.select([control], [], [], stall_s)[0]
            thaw(at)
            if ended or select.select([control], [], [], gap_s)[0]:
                return 0
    except OSError as error:
        with suppress(OSError):
            control.send(orjson.dumps({"why": str(error)}))
        return 1
    finally:
        with suppress(OSError):
            thaw(at)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
