"""Commands for clusters that are up: status, logs, a shell."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from harness.cluster.distribution import command_line_tools, jars, java
from harness.cluster.local import namespaces, shell_on_a_node
from harness.cluster.persistent import client
from harness.cluster.persistent.client import KeeperChild, State
from harness.model.capabilities import CommandResult, ServerLogs
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.run import attached_cluster

STATUS_S: Final = 30.0
SHELL: Final = ("bash", "--norc", "-i")


# --- status -------------------------------------------------------------------------------------------


def status(name: str, kind: str) -> list[dict[str, Any]]:
    """Returns the status of the cluster with this name and kind. An empty `name` or `kind` stands for any.

    The keeper process of each cluster reports the cluster's status. If a keeper does not answer, the status contains
    "error". Raises BadInput if no cluster with this name is up.
    """
    states = [client.find(name, kind)] if name else [s for s in client.alive() if kind in ("", s.kind)]
    return [_status(state) for state in states]


def _status(state: State) -> dict[str, Any]:
    try:
        status: dict[str, Any] = client.call(state.name, "status", timeout_s=STATUS_S)
    except ClusterTrouble as error:
        return {"name": state.name, "kind": state.kind, "since": state.since, "error": str(error)}
    return status | {"pid": state.pid}


def text(clusters: Sequence[dict[str, Any]]) -> str:
    """Returns the status of clusters as a text for users."""
    if not clusters:
        return "no cluster is up; start one with harness cluster up"
    return "\n\n".join("\n".join(_lines(each)) for each in clusters)


def _lines(status: dict[str, Any]) -> Iterator[str]:
    yield f"{status['kind']}:{status['name']}   up since {status['since']}"
    if "error" in status:
        yield f"    {status['error']}; to end this cluster: harness cluster down {status['name']}"
        return
    yield f"    {status['trouble'] or 'healthy'}; {'in use by ' + status['held'] if status['held'] else 'not in use'}"
    if status["outside_bootstrap"]:
        yield f"    address for other programs on this machine: {status['outside_bootstrap']}"
    for node in status["nodes"]:
        runs = "running" if node["running"] else "not running"
        registered = "registered" if node["registered"] else "not registered"
        yield f"    {node['name']:4} {runs}, {registered}, leads {node['leads']} partitions"
    if status["beside"]:
        yield f"    other metadata servers: {', '.join(status['beside'])}"
    if status["left_topics_of"]:
        yield f"    topics of {', '.join(status['left_topics_of'])} still exist"


# --- logs ---------------------------------------------------------------------------------------------


class Logs:
    """The server logs of one node or of all nodes, as lines. With several nodes, each line starts with its node."""

    def __init__(self, name: str, kind: str, node: str) -> None:
        self._name = client.find(name, kind).name
        cluster = client.call(self._name, "describe")
        every = (*cluster["nodes"], *cluster["metadata_servers"])
        if node and node not in every:
            raise BadInput(f"there is no node {node!r}: the nodes are {', '.join(every)}")
        self._nodes = [node] if node else list(every)
        self._streams = ServerLogs.__name__ in cluster["capabilities"]
        self._at = dict.fromkeys(self._nodes, 0)
        self._rest = dict.fromkeys(self._nodes, b"")

    def last(self, count: int) -> Iterator[str]:
        """Yields the last `count` lines of each node's log."""
        for node in self._nodes:
            yield from deque(self._lines(node), count)

    def more(self) -> Iterator[str]:
        """Yields the lines that were added to the logs since the previous call."""
        for node in self._nodes:
            yield from self._lines(node)

    def _lines(self, node: str) -> Iterator[str]:
        before = f"{node}: " if len(self._nodes) > 1 else ""
        for chunk in self._chunks(node):
            *whole, self._rest[node] = (self._rest[node] + chunk).split(b"\n")
            for line in whole:
                yield before + line.decode(errors="replace")

    def _chunks(self, node: str) -> Iterator[bytes]:
        while True:
            chunk, after = self._read(node, self._at[node])
            if not chunk:
                return
            self._at[node] = after
            yield chunk

    def _read(self, node: str, offset: int) -> tuple[bytes, int]:
        if self._streams:
            chunk, after = client.call_method(self._name, "read_log", node, offset)
            return chunk, after
        with tempfile.TemporaryDirectory(prefix="logs-") as folder:
            client.call_method(self._name, "collect", folder)
            paths = sorted((Path(folder) / node).glob("*.log"))
            content = b"".join(path.read_bytes() for path in paths)[offset:]
            return content, offset + len(content)


# --- shell --------------------------------------------------------------------------------------------


def shell(name: str, kind: str, node: str, command: Sequence[str], say: Callable[[str], None]) -> int:
    """Runs a shell or a command on a node's host; returns its exit code. Raises BadInput."""
    state = client.find(name, kind)
    cluster = client.call(state.name, "describe")
    every = (*cluster["nodes"], *cluster["metadata_servers"])
    if node not in every:
        raise BadInput(f"there is no node {node!r}: the nodes are {', '.join(every)}")
    if state.kind != "local":
        return _elsewhere(state, node, command, say)
    plan = attached_cluster.plan_of(state.name)
    found = java.find()
    scripts = client.folder(state.name) / "bin"
    made = command_line_tools.scripts(scripts, jars.ensure(plan.kafka_version, found, say), found, say)
    environment = {
        **os.environ,
        "PATH": f"{scripts}:{os.environ.get('PATH', '')}",
        "PYTHONPATH": namespaces.python_path(),
        "BOOTSTRAP": cluster["direct_bootstrap"],
        "PS1": f"{state.name}/{node}$ ",
    }
    if not command:
        say(f"shell on {node}; tools: {', '.join(made)}; bootstrap servers: $BOOTSTRAP")

    def spawn(argv: Sequence[str], fds: Sequence[int]) -> KeeperChild:
        log = str(client.folder(state.name) / "shell.log")
        pid = client.call(state.name, "spawn", fds, host=node, argv=list(argv), env=environment, log=log, guest=True)
        return KeeperChild(int(pid), state.name)

    return shell_on_a_node.run(spawn, command or SHELL)


def _elsewhere(state: State, node: str, command: Sequence[str], say: Callable[[str], None]) -> int:
    if not command:
        how = "docker exec -it" if state.kind == "docker" else "ssh"
        raise BadInput(f"for a shell on {node} use {how}; for a command use harness cluster shell {node} -- COMMAND")
    result: CommandResult = client.call_method(state.name, "run", node, list(command), client.CALL_TIMEOUT_S / 2)
    for stream in (result.out, result.err):
        if stream:
            say(stream.rstrip("\n"))
    return result.code
