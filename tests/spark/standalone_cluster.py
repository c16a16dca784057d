"""A standalone Spark cluster on this machine: a master and workers, started with PySpark's own launcher."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

HOST = "127.0.0.1"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0


def free_ports(count: int) -> list[int]:
    """Distinct ports that are currently unused."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def environment() -> dict[str, str]:
    """Environment variables that keep workers and driver on loopback, with this Python."""
    return {
        **os.environ,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _launch(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(spark_class), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(),
            cwd=folder,
        )


def _wait_for(folder: Path, name: str, text: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    log = folder / f"{name}.log"
    while text not in log.read_text(errors="replace"):
        log_end = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, f"{name} ended with {process.returncode}: {log_end}"
        assert time.monotonic() < deadline, f"{name} did not say {text!r} in {START_TIMEOUT_S} s: {log_end}"
        time.sleep(0.1)


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """The master's URL; `workers` workers with one core each. All processes are stopped on leaving."""
    port, *web = free_ports(workers + 2)
    url = f"spark://{HOST}:{port}"
    started: list[subprocess.Popen[bytes]] = []
    try:
        master = _launch(
            folder,
            "master",
            "master.Master",
            "--host",
            HOST,
            "--port",
            str(port),
            "--webui-port",
            str(web[0]),
        )
        started.append(master)
        _wait_for(folder, "master", "I have been elected leader", master)
        for number in range(workers):
            options = ["--host", HOST, "--webui-port", str(web[number + 1])]
            options += ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{number}"), url]
            name = f"worker{number}"
            started.append(_launch(folder, name, "worker.Worker", *options))
        for number, process in enumerate(started[1:]):
            _wait_for(folder, f"worker{number}", "Successfully registered with master", process)
        yield url
    finally:
        for process in started[::-1]:
            process.terminate()
        for process in started[::-1]:
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
            if process.poll() is None:
                process.kill()
                process.wait(STOP_TIMEOUT_S)
