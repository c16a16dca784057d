"""Starts servers and observes the recovery of their logs: the log folders before and after, and the log lines."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.model.capabilities import LogFolders, Processes, ServerLogs
from harness.model.fault_and_generator_protocols import Env
from nemesis.recovery.log_lines import STARTED, read
from nemesis.shared.effects import hit, wait_healthy
from nemesis.shared.server_log import Log

START_S: Final = 80.0
WHOLE_S: Final = 100.0  # for start and health together: a nemesis op times out after 120 s
POLL_S: Final = 0.02
Value = Mapping[str, Any]
Done = dict[str, Any]


def look(env: Env, node: str) -> Done:
    """Returns a description of the files of the run's topics on a node's disk: see `LogFolders.log_folders`."""
    assert isinstance(env.cluster, LogFolders)
    return dict(env.cluster.log_folders(node, env.roles.topic_prefix()))


def start(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Starts the servers that are down, and waits until each has logged its start or has exited.

    Then waits for a healthy cluster, unless a server of the cluster is not running, or the op's value has the field
    `unwell` (the scenario expects an unhealthy cluster).
    """
    cluster = env.cluster
    assert isinstance(cluster, Processes) and isinstance(cluster, ServerLogs)
    down = [node for node in nodes if not cluster.running(node)]
    before = {node: look(env, node) for node in down}
    logs = {node: Log(cluster, node) for node in down}
    lines: dict[str, list[str]] = {node: [] for node in down}
    began = time.monotonic()
    for node in down:
        cluster.start(node)
    took, ended = dict[str, float](), list[str]()
    while len(took) + len(ended) < len(down) and time.monotonic() - began < START_S:
        for node in down:
            if node in took or node in ended:
                continue
            exited = not cluster.running(node)  # checked before reading: its last lines may arrive in between
            lines[node] += logs[node].fresh()
            if any(STARTED in line for line in lines[node]):
                took[node] = round(time.monotonic() - began, 3)
            elif exited:
                ended.append(node)
        time.sleep(POLL_S)
    whole = all(cluster.running(node) for node in cluster.nodes) and not value.get("unwell")
    left_s = max(0.0, WHOLE_S - (time.monotonic() - began))
    still = wait_healthy(replace(env, healthy_s=min(env.healthy_s, left_s))) if whole else ""
    for node in down:
        lines[node] += logs[node].fresh()
    log_findings = {node: read(lines[node], env.roles.topic_prefix()) for node in down}
    after = {node: look(env, node) for node in down}
    fields = {"before": before, "after": after, "log": log_findings, "started_s": took, "ended": ended}
    return hit(
        down,
        bool(down) and len(took) + len(ended) == len(down),
        **fields,
        **({"unhealthy_still": still} if still else {}),
    )


def start_kill(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Starts a server, and kills it as soon as a line of its log matches the regular expression `value["kind"]`."""
    cluster, node = env.cluster, nodes[0]
    assert isinstance(cluster, Processes) and isinstance(cluster, ServerLogs)
    wanted = re.compile(str(value["kind"]))
    before, log = look(env, node), Log(cluster, node)
    lines: list[str] = []
    cluster.start(node)
    deadline, seen = time.monotonic() + START_S, ""
    while not seen and time.monotonic() < deadline and cluster.running(node):
        for line in log.fresh():
            lines.append(line)
            seen = seen or (line if wanted.search(line) else "")
        if not seen:
            time.sleep(POLL_S / 4)
    cluster.kill(node)
    lines += log.fresh()
    log_findings = {node: read(lines, env.roles.topic_prefix())}
    fields = {"before": {node: before}, "after": {node: look(env, node)}, "log": log_findings}
    return hit([node], bool(seen), at=seen[:400], **fields)
