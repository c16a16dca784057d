"""Runs the real command, and finds what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HARNESS = [sys.executable, "-m", "harness.cli.app"]
# A load for claims that hold under any load: it uses half the processor time of the default one.
LIGHT = ("--concurrency", "4", "--rate", "80")
PLAIN = ("--spark-master", "none")  # the process itself checks the history
# In the environment of every process that these tests start, and of their children; tests in another worker of
# pytest-xdist have another mark.
MARK = f"HARNESS_TEST={secrets.token_hex(8)}"
os.environ.update([MARK.split("=")])
# As in an activated environment: `python3` in the description of an application is this Python.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
_NAMESPACES = ("net", "mnt", "pid", "user")
# Links and mounts of tests in other workers, for their Docker engine and their ssh hosts.
_OF_OTHERS = re.compile(r"(br-|docker|hssh|veth[0-9a-f]{7}).*|.*/engine-.*")


@dataclass(frozen=True)
class Ran:
    """A finished `harness run`."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.folder / "results.json").read_text())
        return result

    @property
    def anomalies(self) -> set[str]:
        return {anomaly["name"] for anomaly in self.result["anomalies"] if anomaly["bad"]}

    @property
    def nemesis(self) -> list[dict[str, Any]]:
        return [op for op in ops(self.folder) if op["process"] == "nemesis"]


def harness(*arguments: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HARNESS, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)


def run(runs: Path, *arguments: str, timeout_s: float = 240, spark_master: str = "none") -> Ran:
    """`harness run`. It checks in its own process, unless the test is about Spark or the checks need it."""
    options = ("--runs", str(runs), "--quiet", "--spark-master", spark_master)
    done = harness("run", *options, *arguments, timeout_s=timeout_s)
    folder = (runs / "latest").resolve()
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr, folder)


def ops(folder: Path) -> list[dict[str, Any]]:
    """Every complete op line of a run's history."""
    found = []
    for path in sorted((folder / "history").glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            op = json.loads(line)
            if "index" in op:
                found.append(op)
    return found


def footprint() -> dict[str, set[str]]:
    """Everything that a run could leave behind: processes of brokers and workers, namespaces, links, mounts."""
    processes, namespaces = set(), set()
    own = {str((Path("/proc/self/ns") / kind).readlink()) for kind in _NAMESPACES}
    for proc in Path("/proc").iterdir():
        if not proc.name.isdigit() or not _ours(proc):
            continue
        try:
            line = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            for kind in _NAMESPACES:
                namespaces.add(str((proc / "ns" / kind).readlink()))
        except OSError:
            continue  # it has ended, or belongs to another user
        if "kafka.Kafka" in line or "harness.run.worker" in line or "harness.cluster" in line:
            processes.add(f"{proc.name} {line[:120]}")
    links = {path.name for path in Path("/sys/class/net").iterdir()}
    mounts = set(Path("/proc/self/mounts").read_text().splitlines())
    namespaces -= own  # this process's own, in which other tests run too
    links, mounts = ({name for name in names if not _OF_OTHERS.fullmatch(name)} for names in (links, mounts))
    return {"processes": processes, "namespaces": namespaces, "links": links, "mounts": mounts}


def _ours(proc: Path) -> bool:
    """Whether this process started the process or its parent. If unknown, assume that it did."""
    try:
        return MARK.encode() in (proc / "environ").read_bytes().split(b"\0")
    except PermissionError:
        return True
    except OSError:
        return False  # it has ended


def left_behind(before: dict[str, set[str]]) -> dict[str, set[str]]:
    """What exists now and did not exist before."""
    now = footprint()
    return {kind: now[kind] - before[kind] for kind in now if now[kind] - before[kind]}
