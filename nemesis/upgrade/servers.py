"""Restarts a server with another version of Kafka, and tells which version each server runs.

A server runs a version if its log says so after the start: Kafka's AppInfoParser logs `Kafka version: 4.1.1`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from harness.model.capabilities import Processes, Releases, ServerLogs
from harness.model.fault_and_generator_protocols import Env
from nemesis.recovery.start_server import Log
from nemesis.shared.effects import HEALTHY_TIMEOUT_S, hit, stopped, wait_for, wait_healthy
from nemesis.upgrade.course import COMPLETE, HALF

NEEDS: Final = (Processes, Releases, ServerLogs)
START_S: Final = 45.0  # until the log of a started server names its version
VERSION: Final = re.compile(r"Kafka version: (\d\S*)")


def cluster_of(env: Env) -> Releases:
    assert isinstance(env.cluster, Releases)
    return env.cluster


def state(env: Env) -> dict[str, Any]:
    """Returns the fields that tell how far an upgrade has come: each server's version, and `half`."""
    cluster = cluster_of(env)
    now = {node: cluster.release(node) for node in cluster.rolled}
    new = [node for node, (version, _) in now.items() if version == cluster.releases[-1]]
    pinned = [node for node, (_, pin) in now.items() if pin]
    return {
        "versions": {node: version for node, (version, _) in now.items()},
        **({"pinned": pinned} if pinned else {}),
        HALF: 2 * len(new) >= len(now),
    }


def on(env: Env, version: str) -> list[str]:
    """Returns the names of the servers that run, or will be started with, this version."""
    cluster = cluster_of(env)
    return [node for node in cluster.rolled if cluster.release(node)[0] == version]


def step(env: Env, node: str, version: str, pinned: bool) -> dict[str, Any]:
    """Restarts a server with a version, unless the cluster is not healthy. Returns the value of the op.

    An operator would not go on with an unhealthy cluster, either. The op took effect if the server's log names the
    version after the start.
    """
    still = wait_healthy(env)
    if still:
        return hit([], False, why=f"{node} was not restarted: {still}", **state(env))
    before = cluster_of(env).release(node)[0]
    done = _restart(env, node, version, pinned)
    still = "" if "ended" in done else wait_healthy(_patient(env))
    fields = {"version": version, "from": before, **done, **({"unhealthy": still} if still else {})}
    return hit([node], done.get("logged") == version, **fields, **state(env))


def _patient(env: Env) -> Env:
    """Returns an environment that waits for health for the full time, also if the load ends during the step."""
    return replace(env, healthy_s=HEALTHY_TIMEOUT_S) if env.healthy_s > 0 else env


def _restart(env: Env, node: str, version: str, pinned: bool) -> dict[str, Any]:
    """Stops a server, and starts it with a version. Waits until its log names a version, or the server has ended."""
    cluster = env.cluster
    assert isinstance(cluster, Processes) and isinstance(cluster, ServerLogs)
    began = time.monotonic()
    in_order = stopped(env, node)
    cluster_of(env).set_release(node, version, pinned)
    log, logged = Log(cluster, node), list[str]()
    stopped_s = round(time.monotonic() - began, 3)
    cluster.start(node)

    def answered() -> bool:
        running = cluster.running(node)  # asked before reading: its last lines may arrive in between
        logged.extend(match[1] for line in log.fresh() if (match := VERSION.search(line)))
        return bool(logged) or not running

    wait_for(answered, START_S)
    ended = not cluster.running(node)
    return {
        "stopped_s": stopped_s,
        "logged": logged[0] if logged else None,
        **({} if in_order else {"killed": [node]}),
        **({"ended": True} if ended else {}),
    }


def completed(value: dict[str, Any], done: bool) -> dict[str, Any]:
    """Returns the value of an op, with the field that says whether its verb has nothing left to do."""
    return {**value, COMPLETE: done}


def nothing(env: Env, why: str, done: bool = False, **more: Any) -> dict[str, Any]:
    """Returns the value of an op that did nothing."""
    return completed(hit([], False, why=why, **more, **state(env)), done)


def reported(env: Env) -> Mapping[str, tuple[int, Mapping[str, int]] | None]:
    """Returns what each server knows of the finalized features: name -> (epoch, feature -> level), or None."""
    cluster = cluster_of(env)
    return {node: cluster.reported_features(node) for node in cluster.rolled}
