"""A Spark cluster that shares nothing: two workers, each with a network and a file system of its own.

    python -m tests.e2e.isolated_workers FOLDER        starts the cluster; stops it when its standard input ends

The process moves to new network and mount namespaces, in which the driver, the master and the store run, at
10.64.0.1 (`nsenter` runs commands there). The root of a worker's file system is an empty tmpfs, in which only Java,
Spark's jars and Python modules, a Python without packages, and the system's libraries are mounted, read-only.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from harness.cluster.distribution import java
from harness.cluster.local import namespaces, netlink
from tests.conftest import absent

DRIVER = netlink.GATEWAY
MASTER = f"spark://{DRIVER}:7077"
ADDRESSES = ("10.64.0.11", "10.64.0.12")
READY = "the cluster is ready"
START_S = 90.0
SPARK = "/opt/spark"
CLASS = "org.apache.spark.deploy"
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")


@dataclass(frozen=True)
class Workers:
    """The running cluster: the process in its namespaces, and the pid of each worker."""

    pid: int
    workers: tuple[int, ...]
    folder: Path

    def inside(self, *command: str) -> list[str]:
        """The command line that runs a command beside the master, where the store and the workers can be reached."""
        return [*enter(self.pid, "--net"), *command]

    def listing(self, worker: int) -> list[str]:
        """The files that a worker sees, except those of the system."""
        skipped = ("/proc", "/sys", "/dev", "/usr/share", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
        prune = [part for path in skipped for part in ("-path", path, "-prune", "-o")]
        command = [*enter(self.workers[worker], "--all", "--root"), "find", "/", *prune, "-type", "f", "-print"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.splitlines()

    def python(self, worker: int, code: str) -> subprocess.CompletedProcess[str]:
        """Runs Python code as an executor of a worker would."""
        python = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}")
        command = [*enter(self.workers[worker], "--all", "--root"), python, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def kill(self, worker: int) -> None:
        """Kills a worker and all its executors, as if its host failed: they are in one pid namespace."""
        os.kill(self.workers[worker], signal.SIGKILL)


def enter(pid: int, *which: str) -> list[str]:
    user = ["--user", "--preserve-credentials"] if os.geteuid() != 0 and "--all" not in which else []
    return ["nsenter", "--target", str(pid), *user, *which]


@contextmanager
def running(folder: Path) -> Iterator[Workers]:
    """A master and two workers with one core each."""
    allowed, why = namespaces.available()
    if not allowed or shutil.which("nsenter") is None:
        absent(f"no network and mount namespaces ({why or 'nsenter is not installed'})")
    folder.mkdir(exist_ok=True)
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", "--net", "--mount", *user, sys.executable, "-m", "tests.e2e.isolated_workers", str(folder)]
    log = folder / "cluster.log"
    with log.open("wb") as stream:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stream, stderr=stream)
    try:
        deadline = time.monotonic() + START_S
        while READY not in (text := log.read_text()):
            assert child.poll() is None and time.monotonic() < deadline, text
            time.sleep(0.1)
        pids = [int((folder / f"worker{number}.pid").read_text()) for number in range(len(ADDRESSES))]
        yield Workers(int((folder / "inside.pid").read_text()), tuple(pids), folder)
    finally:
        assert child.stdin is not None
        child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(20)
        if child.poll() is None:
            child.kill()
            child.wait()


# --- in the namespaces ----------------------------------------------------------------------------------


def main(folder: Path) -> None:
    """Starts the cluster, and waits until the standard input ends."""
    (folder / "inside.pid").write_text(str(os.getpid()))
    netlink.make_bridge()
    found = java.find()
    master = [found.path, *JVM, "-cp", f"{jars()}/*", f"{CLASS}.master.Master"]
    web = ["--host", DRIVER, "--port", "7077", "--webui-port", "8080"]
    with (folder / "master.log").open("wb") as log:
        environ = {**os.environ, "SPARK_LOCAL_IP": DRIVER}
        start([*master, *web], stdout=log, stderr=log, env=environ)
    wait_for(folder / "master.log", "elected leader")
    for number, address in enumerate(ADDRESSES):
        host = netlink.make_host(f"worker{number}", address, number)
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                namespaces.die_with_parent()
                worker(folder, number, host, found)
            os._exit(1)
    for number in range(len(ADDRESSES)):
        wait_for(folder / f"worker{number}.log", "Successfully registered with master")
    print(READY, flush=True)
    sys.stdin.read()


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a process that ends with this one."""
    return subprocess.Popen(command, preexec_fn=namespaces.die_with_parent, **options)


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + START_S
    while not log.is_file() or text not in log.read_text(errors="replace"):
        if time.monotonic() > deadline:
            sys.exit(f"{log} does not say {text!r}: {log.read_text(errors='replace')[-2000:] if log.is_file() else ''}")
        time.sleep(0.1)


def worker(folder: Path, number: int, host: netlink.Host, found: java.Java) -> None:
    """Becomes a worker of Spark, in its own namespaces and file system."""
    namespaces.join(host.network)
    pid_file, log = folder / f"worker{number}.pid", (folder / f"worker{number}.log").open("wb")
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    script = [f"echo {host.name} > /proc/sys/kernel/hostname"]  # Spark resolves it
    script += [f"cd {folder}", *commands(folder / f"root{number}", host, found)]
    command = f"{found.path} {' '.join(JVM)} -cp '{SPARK}/jars/*' {CLASS}.worker.Worker"
    options = f"--host {host.address} --cores 1 --memory 1500m --webui-port 8081 --work-dir /work {MASTER}"
    script.append(f"exec chroot . /usr/bin/env -i {environment(host, found.home)} {command} {options}")
    argv = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "bash", "-ec", "\n".join(script)]
    child = start(argv)
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    deadline = time.monotonic() + 10
    while not children.read_text().strip() and time.monotonic() < deadline:
        time.sleep(0.05)
    pid_file.write_text(children.read_text().strip())
    child.wait()


def environment(host: netlink.Host, home: str) -> str:
    path = f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"
    named = {"JAVA_HOME": home, "SPARK_HOME": SPARK, "SPARK_LOCAL_IP": host.address, "PATH": path, "HOME": "/work"}
    named["SPARK_SCALA_VERSION"] = "2.13"  # otherwise set by the scripts in sbin, and required
    return " ".join(f"{name}={value}" for name, value in named.items())


def commands(root: Path, host: netlink.Host, found: java.Java) -> Sequence[str]:
    """The shell commands that make the worker's file system and change to it."""
    spark = Path(pyspark.__file__).parent
    shown = {"/usr": "/usr", str(spark / "jars"): f"{SPARK}/jars", str(spark / "python"): f"{SPARK}/python"}
    for path in (found.home, str(Path(found.path).resolve().parents[1]), sys.base_prefix):
        if not path.startswith("/usr/"):
            shown[path] = path
    lines = [f"mkdir -p {root}", f"mount -t tmpfs none {root}", f"cd {root}"]
    for source, target in shown.items():
        lines += [f"mkdir -p .{target}", f"mount --bind {source} .{target}", f"mount -o remount,bind,ro .{target}"]
    for name in ("bin", "sbin", "lib", "lib64"):
        lines.append(f"if [ -L /{name} ]; then cp -P /{name} .; elif [ -d /{name} ]; then mkdir -p {name}; "
                     f"mount --bind /{name} {name}; fi")  # fmt: skip
    # Packages of the driver's Python, and of the system's: hidden.
    hidden = {sysconfig.get_paths(vars={"base": sys.base_prefix, "platbase": sys.base_prefix})["purelib"]}
    hidden |= {str(path) for path in Path("/usr").glob("l*/lib/python3*/*-packages")}
    hidden |= {str(path) for path in Path("/usr/lib").glob("python3*/*-packages")}
    lines += [f"if [ -d .{path} ]; then mount -t tmpfs none .{path}; fi" for path in sorted(hidden)]
    lines += ["mkdir -p proc tmp work etc dev", "mount -t proc proc proc", "cp -rL /etc/java* etc/ 2>/dev/null || :"]
    lines += ["cp /etc/ld.so.cache /etc/passwd /etc/group /etc/nsswitch.conf etc/ 2>/dev/null || :"]
    lines += ["cp -r /etc/alternatives etc/ 2>/dev/null || :", "mount --bind /dev dev"]
    lines += [f"echo '127.0.0.1 localhost' > etc/hosts; echo '{host.address} {host.name}' >> etc/hosts"]
    return lines


def jars() -> Path:
    return Path(pyspark.__file__).parent / "jars"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
