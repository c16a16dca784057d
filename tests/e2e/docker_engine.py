"""A Docker engine started by a test, with its own data, socket and processes in one folder.

It does not touch the system's packet filters, nor the system's engine, if there is one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker

from harness.cluster.docker import cleanup
from harness.model.errors_and_exit_codes import HarnessError
from tests.conftest import absent

_START_S = 60
_END_S = 60
# Containers communicate over bridges, and with this machine through the engine's own port forwarder: neither
# needs packet filters or routing. The subnets are from a range that is rarely used.
_OPTIONS = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
            "--default-address-pool=base=10.213.0.0/16,size=24")  # fmt: skip


@contextmanager
def engine() -> Iterator[str]:
    """DOCKER_HOST of an engine that runs inside the block. `absent` checks what it requires."""
    program = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        absent("dockerd: `make system-deps` installs it on Debian")
    if os.geteuid() != 0:
        absent("a Docker engine takes root")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    where = f"unix://{folder}/socket"
    (folder / "daemon.json").write_text("{}")
    # No process of the engine outlives the tests, however they end.
    argv = [
        "setpriv",
        "--pdeathsig",
        "TERM",
        str(program),
        *_OPTIONS,
        f"--host={where}",
        f"--config-file={folder}/daemon.json",
    ]
    argv += [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        _await_answer(where, process, folder / "log")
        yield where
    finally:
        with suppress(HarnessError, docker.errors.DockerException):  # an engine that stops keeps its bridges
            client = docker.DockerClient(base_url=where, timeout=30)
            for one, _ in cleanup.everything(client):
                cleanup.remove(one, client)
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _await_answer(where: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(docker.errors.DockerException):
            docker.DockerClient(base_url=where, timeout=5).ping()
            return
        time.sleep(0.1)
    absent(f"a Docker engine that starts: {log.read_text(errors='replace')[-2000:]}")


def _unmount(folder: Path) -> None:
    """Unmounts what a killed engine leaves mounted."""
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in sorted((path for path in mounted if path.startswith(str(folder))), reverse=True):
        subprocess.run(["umount", "--lazy", path], check=False)


def everything(where: str) -> list[str]:
    """Names of all containers, networks and volumes of runs that the engine currently has."""
    found = cleanup.everything(docker.DockerClient(base_url=where, timeout=30))
    return [one.name for one, _ in found]
