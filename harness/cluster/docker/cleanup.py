"""Finds and removes what killed runs have left in a Docker engine.

Each object that a run creates in the engine has two labels: the run, and the process that created the object. While
that process is running, the object is in use, and is not a leftover. Each run has a guard process, which removes the
run's objects as soon as the harness has ended. The command `harness cluster clean --cluster docker` removes the objects
that a guard has not removed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.cluster.docker import engine_and_images
from harness.cluster.local import namespaces
from harness.model.errors_and_exit_codes import HarnessError

RUN: Final = "harness.run"
OWNER: Final = "harness.owner"
NODE: Final = "harness.node"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_GUARD_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object of a run whose harness has ended.

    kind   "container", "network" or "volume"
    name   the object's name in the engine
    run    the run's id
    since  the object's creation time according to the engine
    """

    kind: str
    name: str
    run: str
    since: str


def labels(run: str) -> dict[str, str]:
    """Returns the labels of an object that this process creates for a run."""
    return {RUN: run, OWNER: owner(os.getpid())}


def owner(pid: int) -> str:
    """Returns a text that identifies a process: BOOT_ID/PID/START_TIME. Returns "" if the process has ended.

    A later process with the same pid has a different text.
    """
    try:
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{_BOOT.read_text().strip()}/{pid}/{started}"
    except OSError:
        return ""


def in_use(owned_by: str) -> bool:
    """Returns whether a process is still running. `owned_by` identifies the process: see `owner`."""
    number = owned_by.split("/")[1:2]
    return bool(number) and number[0].isdigit() and owner(int(number[0])) == owned_by


def leftovers(client: Any = None) -> list[Leftover]:
    """Returns everything that runs left behind in Docker after their harness ended. Containers come first, because
    networks and volumes can be removed only without them.

    Raises Missing if no engine answers.
    """
    client = client or engine_and_images.connect()
    return [one for one, owned_by in everything(client) if not in_use(owned_by)]


def remove(leftover: Leftover, client: Any = None) -> None:
    """Removes one object, unless it is already gone or being removed. Raises ClusterTrouble."""
    import docker

    api = (client or engine_and_images.connect()).api
    act: Mapping[str, Callable[[str], None]] = {
        "container": lambda name: api.remove_container(name, v=True, force=True),
        "network": api.remove_network,
        "volume": api.remove_volume,
    }
    with engine_and_images.trouble(f"removing the {leftover.kind} {leftover.name}"):
        try:
            act[leftover.kind](leftover.name)
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError as error:
            if "already in progress" not in str(error.explanation):
                raise


def remove_run(run: str, client: Any) -> int:
    """Removes all objects of a run, whether or not they are in use; returns their number. Raises ClusterTrouble."""
    found = [one for one, _ in everything(client) if one.run == run]
    for one in found:
        remove(one, client)
    return len(found)


def everything(client: Any) -> list[tuple[Leftover, str]]:
    """Returns (object, owner) for each object that any run created in the engine.

    The objects are in an order in which they can be removed: containers first.
    """
    found: list[tuple[Leftover, str]] = []
    having = {"label": RUN}

    def note(kind: str, name: str, marks: Mapping[str, str] | None, since: str) -> None:
        labels_found = marks or {}
        found.append((Leftover(kind, name, labels_found.get(RUN, ""), since), labels_found.get(OWNER, "")))

    with engine_and_images.trouble("listing the objects of runs in the Docker engine"):
        for row in client.api.containers(all=True, filters=having):
            name = row["Names"][0].lstrip("/") if row.get("Names") else row["Id"]
            note("container", name, row.get("Labels"), _time(row.get("Created", 0)))
        for row in client.api.networks(filters=having):
            note("network", row["Name"], row.get("Labels"), str(row.get("Created", ""))[:19])
        for row in client.api.volumes(filters=having).get("Volumes") or ():
            note("volume", row["Name"], row.get("Labels"), str(row.get("CreatedAt", ""))[:19])
    return found


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


# --- the guard ----------------------------------------------------------------------------------------


@contextmanager
def guarded(run: str, log: Path) -> Iterator[None]:
    """Starts a guard process. It removes the run's objects when the block ends, or this process (even by kill -9).

    log  file for the guard's output
    """
    argv = [sys.executable, "-m", "harness.cluster.docker.cleanup", run]
    with log.open("ab") as output:
        guard = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": namespaces.python_path()},
        )
    try:
        yield
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        try:
            guard.wait(30)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()


def main(argv: list[str]) -> int:
    """`python -m harness.cluster.docker.cleanup RUN`: removes the run's objects at end-of-file on standard input."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    code = 0
    for _ in range(_GUARD_TRIES):
        try:
            if not remove_run(argv[0], engine_and_images.connect()):
                return 0
            code = 0
        except HarnessError as error:
            print(error, file=sys.stderr)
            code = error.exit_code
        time.sleep(1)  # objects that were being created when the harness ended may appear only now
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
