"""Checks whether this machine can run a local or a Docker cluster; says how to get what is missing."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.distribution import download_cache, jars, java
from harness.cluster.docker import engine_and_images
from harness.cluster.local import capacity, clock_library, disks, link_faults, namespaces
from harness.model.errors_and_exit_codes import HarnessError

_DISK_BYTES = 2 << 30
_MEMORY_BYTES = 3 << 30
_PYTHON = (3, 11)
_ENGINE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    name      what was checked
    ok        whether the check passed
    why       what was found, as a text for the user
    fix       what to do about it; empty if nothing needs to be done
    required  true: without it, no runs are possible; false: without it, some features are unavailable
    """

    name: str
    ok: bool
    why: str
    fix: str = ""
    required: bool = True


def probe(work_dir: Path = Path(), version: str = jars.DEFAULT_VERSION) -> list[Check]:
    """Runs all checks. They change nothing on this machine, except that the cache directory is created."""
    folder = cache_directory()
    return [
        python(sys.version_info[:3]),
        find_java(),
        folder,
        broker_jars(version)
        if folder.ok
        else Check("broker jars", False, "there is no usable cache directory", "fix the cache directory first"),
        networks(*namespaces.available()),
        fault("link faults", link_faults.why_not(), "packet queues work: slow, loss, flaky, rate"),
        fault(
            "clock faults",
            clock_library.why_not(),
            "processes can have their own clocks: clock-bump, clock-strobe",
        ),
        fault("disk faults", disks.why_not(), "loop mounts work: power-loss, disk-full, disk-slow"),
        docker_cluster(version),
        disk(work_dir, shutil.disk_usage(work_dir).free),
        memory(capacity.available_bytes()),
    ]


def python(version: tuple[int, int, int]) -> Check:
    """Checks that Python is new enough."""
    text = ".".join(map(str, version))
    wanted = ".".join(map(str, _PYTHON))
    if version < _PYTHON:
        return Check("Python", False, f"{text} is older than {wanted}", f"install Python {wanted} or newer")
    return Check("Python", True, f"{text} ({sys.executable})")


def find_java() -> Check:
    """Checks that a new enough Java is installed."""
    try:
        found = java.find()
    except HarnessError as error:
        why, _, fix = str(error).partition(" To fix it: ")
        return Check("Java", False, why, fix)
    return Check("Java", True, f"{found.full} ({found.path})")


def cache_directory() -> Check:
    """Checks that downloads can be stored in the cache."""
    try:
        return Check("cache directory", True, str(download_cache.root()))
    except HarnessError as error:
        why, _, fix = str(error).partition(": ")
        return Check("cache directory", False, why, fix)


def broker_jars(version: str) -> Check:
    """Checks whether a run would have to download the broker jars first."""
    present = jars.cached(version)
    if present:
        return Check("broker jars", True, f"Kafka {version} in {present.folder}")
    return Check("broker jars", True, f"Kafka {version} is not in the cache: the first run fetches it (45 MB)")


def networks(allowed: bool, reason: str) -> Check:
    """Returns the check for network faults.

    allowed  whether namespaces, a bridge, links and packet filters could be created
    reason   if not `allowed`: why; the text after `namespaces.HINT`, if any, says what to do
    """
    user = "root" if os.geteuid() == 0 else "an ordinary user"
    if allowed:
        return Check("network faults", True, f"namespaces and packet filters work, as {user}", required=False)
    why, _, hint = reason.partition(namespaces.HINT)
    return Check(
        "network faults",
        False,
        f"refused by the system, as {user}: {why}; brokers run on loopback ports, without network faults",
        hint or "allow unprivileged user namespaces and nftables, or run as root",
        required=False,
    )


def fault(name: str, refused: str, found: str) -> Check:
    """Returns the result for one kind of fault of the local cluster.

    refused  "WHY: FIX", if this machine does not allow the fault; else empty
    found    "WHAT WORKS: FAULTS"; names the faults of this kind
    """
    if not refused:
        return Check(name, True, found, required=False)
    why, _, fix = refused.rpartition(": ")
    return Check(name, False, f"{why}; unavailable faults: {found.partition(': ')[2]}", fix, required=False)


def docker_cluster(version: str) -> Check:
    """Checks that a container engine answers and has an image of the version, for --cluster docker."""
    try:
        client = engine_and_images.connect(_ENGINE_TIMEOUT_S)
        image = engine_and_images.image(client, "", version)
    except HarnessError as error:
        why, _, fix = str(error).partition(": ")
        return Check("docker cluster", False, why, fix, required=False)
    return Check("docker cluster", True, f"the engine answers and has {image}", required=False)


def disk(folder: Path, free_bytes: int) -> Check:
    """Checks that there is enough disk space for a run's data."""
    text = f"{free_bytes / (1 << 30):.1f} GiB free in {folder.absolute()}"
    if free_bytes < _DISK_BYTES:
        return Check("disk", False, text, f"free {_DISK_BYTES >> 30} GiB, or use a folder on another disk")
    return Check("disk", True, text)


def memory(available_bytes: int | None) -> Check:
    """Checks that there is enough memory for three brokers, Spark and the workers."""
    if available_bytes is None:
        return Check("memory", True, "unknown: /proc/meminfo does not report it")
    text = f"{available_bytes / (1 << 30):.1f} GiB available"
    if available_bytes < _MEMORY_BYTES:
        fix = f"free {_MEMORY_BYTES >> 30} GiB, or run fewer brokers (--nodes 1)"
        return Check("memory", False, text, fix, required=False)
    return Check("memory", True, text)
