"""Finds the versions of the software that a run uses, and the git commit of the harness, to be stored in the plan."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from harness.clients import table
from harness.clients.exec import command
from harness.clients.exec.adapter import greet, refuse_incapable
from harness.cluster.distribution import java
from harness.plan.resolve import ResolvedPlan
from harness.run import client_versions
from harness.run.start_workers import client_needs

PACKAGES = ("kafka-log-harness", "confluent-kafka", "pyspark", "pyarrow", "numpy")
JAVA_CLIENT = "kafka-clients"


def versions(resolved: ResolvedPlan) -> dict[str, str]:
    """Returns name of software -> version: the system under test, the client libraries, Python and Java.

    Starts client programs, which report their versions. Raises BadInput if one does not start, or lacks a capability
    that the run needs.
    """
    plan = resolved.plan
    kafka = plan.image or (plan.kafka_version if plan.system == "kafka" else plan.system)
    found = {"kafka": kafka if plan.cluster in ("local", "docker", "ssh") else plan.cluster}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    used = client_versions.used(plan).items()
    found |= {JAVA_CLIENT if name == "java" else table.row(name).package: at for name, at in used if at}
    for name in plan.client:
        if name.startswith(command.PREFIX):
            facts = greet(name, plan.client_env, plan.client_user)
            refuse_incapable(name, facts, client_needs(resolved))
            found[facts["library"]] = facts["version"]
    return {**found, "python": platform.python_version(), "java": java.find().full}


def git_commit() -> str | None:
    """Returns the commit of the git checkout that contains this code. Returns None if there is no checkout."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return None
