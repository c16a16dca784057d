"""Restarts a server with another version of Kafka, and tells which version each server runs.

A server runs a version if its log says so after the start: Kafka's AppInfoParser logs `Kafka version: 4.1.1`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.model.capabilities import Processes, Releases, ServerLogs, UpgradePath
from harness.model.fault_and_generator_protocols import Env
from nemesis.schedule.upgrade_course import COMPLETE, HALF
from nemesis.shared.effects import HEALTHY_TIMEOUT_S, hit, stopped, wait_for, wait_healthy
from nemesis.shared.server_log import Log

NEEDS: Final = (Processes, Releases, ServerLogs)
ERROR_MAX: Final = 400
TRIAL_STARTS: Final = "starts"
VERSION: Final = re.compile(r"Kafka version: (\d\S*)")


def cluster_of(env: Env) -> Releases:
    assert isinstance(env.cluster, Releases)
    return env.cluster


def path_of(env: Env) -> UpgradePath:
    return cluster_of(env).upgrade_path()


def state(env: Env) -> dict[str, Any]:
    """Returns the fields that tell how far an upgrade has come: each server's version, and `half`."""
    path = path_of(env)
    now = {node: cluster_of(env).release(node) for node in path.servers}
    new = [node for node, (version, _) in now.items() if version == path.new]
    pinned = [node for node, (_, pin) in now.items() if pin]
    return {
        "versions": {node: version for node, (version, _) in now.items()},
        **({"pinned": pinned} if pinned else {}),
        HALF: 2 * len(new) >= len(now),
    }


def on(env: Env, version: str) -> list[str]:
    """Returns the names of the servers that run, or will be started with, this version."""
    return [node for node in path_of(env).servers if cluster_of(env).release(node)[0] == version]


def step(env: Env, node: str, version: str, pinned: bool) -> dict[str, Any]:
    """Restarts a server with a version, unless the cluster is not healthy. Returns the value of the op.

    An operator would not go on with an unhealthy cluster, either. The op took effect if the server's log names the
    version after the start.
    """
    still = wait_healthy(env)
    if still:
        return hit([], False, why=f"{node} was not restarted: {still}", **state(env))
    before = cluster_of(env).release(node)[0]
    done = restart(env, node, lambda: cluster_of(env).set_release(node, version, pinned), version)
    fields = {"version": version, "from": before, **done, **state(env)}
    return hit([node], done["logged"] == version and "ended" not in done, **fields)


def restart(env: Env, node: str, change: Callable[[], None], version: str) -> dict[str, Any]:
    """Stops a server, calls `change`, and starts the server. Waits until the cluster is healthy, or it has ended.

    version  the version that is started on empty folders if the server ends; empty: none
    """
    cluster = env.cluster
    assert isinstance(cluster, Processes) and isinstance(cluster, ServerLogs)
    began = time.monotonic()
    in_order = stopped(env, node)
    change()
    log = Log(cluster, node)
    stopped_s = round(time.monotonic() - began, 3)
    cluster.start(node)
    still = _settled(env, node)
    lines = list(log.fresh())
    logged = next((match[1] for line in lines if (match := VERSION.search(line))), None)
    return {
        "stopped_s": stopped_s,
        "started_s": round(time.monotonic() - began - stopped_s, 3),
        "logged": logged,
        **({} if in_order else {"killed": [node]}),
        **({"unhealthy": still} if still else {}),
        **({} if cluster.running(node) else _failed(env, node, version, lines)),
    }


def _settled(env: Env, node: str) -> str:
    """Waits until the cluster is healthy, or the server has ended. Returns what is still wrong, or ""."""
    cluster = env.cluster
    assert isinstance(cluster, Processes)
    still = ["no broker answered"]

    def settled() -> bool:
        if not cluster.running(node):
            return True
        still[0] = env.roles.unhealthy()
        return not still[0]

    wait_for(settled, HEALTHY_TIMEOUT_S)
    return still[0]


def _failed(env: Env, node: str, version: str, lines: Sequence[str]) -> dict[str, Any]:
    """Returns the fields of a server that ended at its start: why, and whether its version starts on empty folders.

    The server is started once more before, because its end may have had to do with other faults.
    """
    cluster = env.cluster
    assert isinstance(cluster, Processes)
    cluster.start(node)
    _settled(env, node)
    if cluster.running(node):
        return {"second_start": True}
    errors = [line for line in lines if "ERROR" in line or "FATAL" in line]
    why = cluster_of(env).starts_empty(node, version) if version else "not tried"
    return {"ended": errors[-1][:ERROR_MAX] if errors else "it logged no error", "trial": why or TRIAL_STARTS}


def completed(value: dict[str, Any], done: bool) -> dict[str, Any]:
    """Returns the value of an op, with the field that says whether its verb has nothing left to do."""
    return {**value, COMPLETE: done}


def nothing(env: Env, why: str, done: bool = False, **more: Any) -> dict[str, Any]:
    """Returns the value of an op that did nothing."""
    return completed(hit([], False, why=why, **more, **state(env)), done)


def reported(env: Env) -> Mapping[str, tuple[int, Mapping[str, int]] | None]:
    """Returns what each server knows of the finalized features: name -> (epoch, feature -> level), or None."""
    return {node: cluster_of(env).reported_features(node) for node in path_of(env).servers}
