"""Finds and removes what killed runs and clusters have left: `harness cluster clean`.

On this machine little can be left, since a supervisor ends with its harness and the kernel cleans up the rest. What may
remain are the brokers' files, and loop devices and mounts if the kernel was slow to release them. An object is still in
use while the process that owns it is running: see `harness.cluster.local.process_owner`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from harness.cluster.distribution import download_cache
from harness.cluster.local import process_owner
from harness.cluster.persistent import client
from harness.history_writer import OWNER
from harness.model.errors_and_exit_codes import BadInput, HarnessError, Missing
from harness.persistent import lifecycle

_CLEAR_LOOP: Final = 0x4C01  # LOOP_CLR_FD, linux/loop.h
_UMOUNT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that a killed run or cluster has left.

    kind    what the leftover is: cluster, data, mount, loop, container, ...
    about   a text for the user, such as the size of the leftover, or the run that left it
    remove  a function that removes the leftover
    """

    kind: str
    name: str
    about: str
    remove: Callable[[], None]

    def as_dict(self) -> dict[str, str]:
        """Returns the leftover as plain data."""
        return {"kind": self.kind, "name": self.name, "about": self.about}


def find(kind: str, runs: Path, hosts: str = "") -> list[Leftover]:
    """Returns leftovers of clusters of a kind, in an order in which they can be removed.

    kind   local, docker or ssh
    runs   the folder that contains the run folders
    hosts  path of the file that describes the hosts, for ssh

    Raises BadInput; Missing if the container engine or a host does not answer.
    """
    match kind:
        case "local":
            return [*_mounts(runs), *_loops(runs), *_clusters(), *_data(runs)]
        case "docker":
            return _docker()
        case "ssh":
            return _ssh(hosts)
    raise BadInput(f"--cluster {kind}: must be local, docker or ssh")


def remove(found: Sequence[Leftover], complain: Callable[[str], None]) -> int:
    """Removes all these leftovers; returns how many could not be removed. Passes error messages to `complain`."""
    failed = 0
    for one in found:
        try:
            one.remove()
        except (HarnessError, OSError, subprocess.SubprocessError) as error:
            failed += 1
            complain(f"{one.kind} {one.name}: {error}")
    return failed


# --- this machine -------------------------------------------------------------------------------------


def _clusters() -> Iterator[Leftover]:
    """Yields the leftovers of persistent clusters: the folders of clusters without a running keeper."""
    for name in client.names():
        state = client.read(name)
        if (state is None and not _being_started(name)) or (state is not None and not state.alive):
            about = f"started {state.since}; its keeper has ended" if state else "it never came up"
            yield Leftover("cluster", name, about, partial(lifecycle.remove, name))


def _being_started(name: str) -> bool:
    """Returns whether a process is starting the cluster, that is, whether a process holds the cluster's lock."""
    lock = client.folder(name).with_name(f".{name}.lock")
    if not lock.exists():
        return False
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _data(runs: Path) -> Iterator[Leftover]:
    """Yields the leftovers of runs whose harness has ended: the brokers' files in the run folders."""
    for path in sorted(runs.glob("*/cluster")) if runs.is_dir() else ():
        if not path.parent.is_symlink() and not _lives(path.parent):
            size = sum(file.lstat().st_blocks * 512 for file in path.rglob("*") if file.is_file())
            yield Leftover("data", str(path), f"{size >> 20} MB", partial(_drop, path))


def _drop(path: Path) -> None:
    shutil.rmtree(path)
    with suppress(OSError):
        (path.parent / OWNER).unlink()


def _lives(run: Path) -> bool:
    """Returns whether a run is still active: whether its owner is running.

    If the run's folder names no owner, the run is active if any process uses the folder.
    """
    with suppress(OSError):
        return process_owner.in_use((run / OWNER).read_text())
    inside = f"{run.absolute()}/cluster".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if inside in (process / "cmdline").read_bytes():
                    return True
    return False


def _ours(path: str, runs: Path) -> bool:
    """Returns whether a path (of a disk image or mount point) belongs to a run or persistent cluster that has ended."""
    clusters = download_cache.root() / "clusters"
    for root in (runs.absolute(), runs.resolve(), clusters):
        inside = path.removeprefix(f"{root}/")
        if inside == path or "/cluster/nodes/" not in inside:
            continue
        first = inside.partition("/")[0]
        if root == clusters:
            state = client.read(first)
            return not (state.alive if state is not None else _being_started(first))
        return not _lives(root / first)
    return False


def _mounts(runs: Path) -> Iterator[Leftover]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, at = line.split(" ")[:2]
        at = at.encode().decode("unicode_escape")
        if _ours(at, runs):
            yield Leftover("mount", at, device, partial(_unmount, at))


def _unmount(at: str) -> None:
    done = subprocess.run(["umount", at], capture_output=True, text=True, timeout=_UMOUNT_S, check=False)
    if done.returncode:
        raise Missing(done.stderr.strip() or f"umount: exit code {done.returncode}")


def _loops(runs: Path) -> Iterator[Leftover]:
    for entry in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        with suppress(OSError):
            file = entry.read_text().strip().removesuffix(" (deleted)")
            device = f"/dev/{entry.parent.parent.name}"
            if file.endswith("/disk.img") and _ours(file, runs):
                yield Leftover("loop", device, file, partial(_detach, device))


def _detach(device: str) -> None:
    opened = os.open(device, os.O_RDONLY)
    try:
        fcntl.ioctl(opened, _CLEAR_LOOP, 0)
    except OSError as error:
        if error.errno != errno.ENXIO:  # nothing is attached to the device any more
            raise
    finally:
        os.close(opened)


# --- elsewhere ----------------------------------------------------------------------------------------


def _docker() -> list[Leftover]:
    from harness.cluster.docker import cleanup
    from harness.cluster.docker.engine_and_images import connect

    engine = connect()
    return [
        Leftover(one.kind, one.name, f"run {one.run}, {one.since}", partial(cleanup.remove, one, engine))
        for one in cleanup.leftovers(engine)
    ]


def _ssh(hosts: str) -> list[Leftover]:
    from harness.cluster.ssh import cleanup
    from harness.cluster.ssh.hosts import load

    if not hosts:
        raise BadInput("harness cluster clean --cluster ssh requires --hosts, the file that describes the hosts")
    return [
        Leftover(
            one.kind,
            f"{one.host.name}:{one.name}",
            f"run {one.run}, {one.since}" if one.run else "",
            partial(cleanup.remove, one),
        )
        for one in cleanup.leftovers(load(Path(hosts)))
    ]
