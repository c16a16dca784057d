"""The brokers of docker-compose.yml in containers, controlled through the Docker SDK.

Each run has its own names, network and ports. Clients run on this machine as children of a supervisor process, without
network namespaces of their own. They reach the brokers at ports of 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.cluster import checkpoint_files
from harness.cluster.docker import cleanup
from harness.cluster.docker.engine_and_images import connect, trouble
from harness.cluster.docker.network_and_containers import Containers, make_container, make_network
from harness.cluster.docker.packet_filters import Filters
from harness.cluster.local import remote_process
from harness.cluster.local.remote_process import RemoteChild
from harness.cluster.local.supervisor_client import Control
from harness.model.capabilities import STOP_S, CommandResult
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, HarnessError
from harness.protocol import brokers_metadata_views, quorum
from harness.protocol.brokers_metadata_views import View
from harness.protocol.one_exchange import exchange

_UP_TIMEOUT_S: Final = 120.0
_KILL_TIMEOUT_S: Final = 20.0
_VIEW_TIMEOUT_S: Final = 1.0
_OUTPUT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Running:
    """State that exists between `up` and `down`."""

    engine: Any
    control: Control
    guard: contextlib.ExitStack
    container_ids: dict[str, str] = field(default_factory=dict)
    filters: list[Filters] = field(default_factory=list)


class DockerCluster:
    """Satisfies the protocols Cluster, Hosts, Processes, Network, Checkpoints and Logs (harness.model.capabilities).

    `packet_filters.why_not` decides whether Network is available. All clients share this machine's address. Therefore a
    network partition between clients and a node always affects all clients.
    """

    def __init__(self, containers: Containers) -> None:
        self.containers = containers
        self.nodes = tuple(service.name for service in containers.services)
        self.bootstrap = ",".join(f"127.0.0.1:{self._port(node)}" for node in self.nodes)
        self._state: _Running | None = None

    # --- start and stop -------------------------------------------------------------------------------

    def up(self, progress: Callable[[str], None]) -> None:
        """Starts all containers; returns when every node reports all brokers as registered.

        Raises Missing (engine), ClusterTrouble.
        """
        engine = connect()
        left = cleanup.leftovers(engine)
        if left:
            progress(
                f"{len(left)} objects of earlier runs are left in the Docker engine, first {left[0].name}; "
                "to remove them: harness cluster clean --cluster docker"
            )
        self.containers.work_dir.mkdir(parents=True, exist_ok=True)
        guard = contextlib.ExitStack()
        guard.enter_context(cleanup.guarded(self.containers.run, self.containers.work_dir / "guard.log"))
        control = Control(isolated=False, log=self.containers.work_dir / "supervisor.log")
        state = self._state = _Running(engine, control, guard)
        progress(f"starting {len(self.nodes)} containers of {self.containers.services[0].image}")
        net = make_network(engine, self.containers.run, self.nodes)
        state.filters.append(Filters(net.addresses, net.bridge, self._pid))
        for service in self.containers.services:
            made = make_container(engine, self.containers.run, service, net)
            state.container_ids[service.name] = made
        for node in self.nodes:
            self.start(node)
        self._await_registered(progress)

    def down(self) -> None:
        """Removes containers and network, and ends the clients. May be called more than once. Raises ClusterTrouble."""
        self.containers.ports.give_back()
        state, self._state = self._state, None
        if state is None:
            return
        try:
            state.control.close()
            cleanup.remove_run(self.containers.run, state.engine)
        finally:
            state.guard.close()
        for name in ("supervisor.log", "guard.log"):
            (self.containers.work_dir / name).unlink(missing_ok=True)

    def _await_registered(self, progress: Callable[[str], None]) -> None:
        began = time.monotonic()
        missing = list(self.nodes)
        while missing:
            missing = [node for node in missing if len(self.seen_by(node)) < len(self.nodes)]
            for node in missing:
                if not self.running(node):
                    raise ClusterTrouble(f"{node} exited during startup: {self._last_error(node)}")
            if missing and time.monotonic() - began > _UP_TIMEOUT_S:
                raise ClusterTrouble(
                    f"{', '.join(missing)} did not report all brokers as registered within {_UP_TIMEOUT_S:.0f} s: "
                    f"{self._last_error(missing[0])}"
                )
            if missing:
                time.sleep(0.1)
        progress(f"{len(self.nodes)} brokers registered in {time.monotonic() - began:.1f} s")

    def _last_error(self, node: str) -> str:
        with suppress(ClusterTrouble), trouble("reading the log"):
            state = self._up()
            text = state.engine.api.logs(state.container_ids[node], tail=200).decode(errors="replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            bad = [line for line in lines if any(w in line for w in ("ERROR", "FATAL", "Exception", "error"))]
            return str((bad or lines or ["its log is empty"])[-1][:500])
        return "its log cannot be read"

    # --- what the brokers report ----------------------------------------------------------------------

    def seen_by(self, node: str) -> frozenset[str]:
        """Returns the names of the nodes that `node` regards as registered; empty if `node` does not answer."""
        try:
            ids = brokers_metadata_views.ask(new_socket(), "127.0.0.1", self._port(node), _VIEW_TIMEOUT_S).brokers
        except (OSError, ValueError):
            return frozenset()
        return frozenset(other for number, other in enumerate(self.nodes, start=1) if number in ids)

    def views(self) -> list[View]:
        """Returns what each node that answers knows of the metadata: leaders, replicas, registered brokers."""
        found = []
        for node in self.nodes:
            with suppress(OSError, ValueError):
                found.append(brokers_metadata_views.ask(new_socket(), "127.0.0.1", self._port(node), _VIEW_TIMEOUT_S))
        return found

    def controller(self) -> int | None:
        """Returns the id of the leader of the metadata quorum; None if it cannot be determined."""
        found = []
        for node in self.nodes:
            with suppress(OSError, ValueError):
                port = self._port(node)
                found.append(quorum.parse(exchange(new_socket(), "127.0.0.1", port, quorum.REQUEST, _VIEW_TIMEOUT_S)))
        return max(found)[1] if found else None

    # --- the brokers' processes -----------------------------------------------------------------------

    def kill(self, node: str) -> None:
        """Sends SIGKILL; returns when the broker has ended."""
        self._signal(node, signal.SIGKILL)
        self._wait(node, "SIGKILL", _KILL_TIMEOUT_S)

    def stop(self, node: str, within_s: float = STOP_S) -> None:
        """Sends SIGTERM; returns when the broker has ended."""
        self._signal(node, signal.SIGTERM)
        self._wait(node, "SIGTERM", within_s)

    def pause(self, node: str) -> None:
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._signal(node, signal.SIGCONT)

    def start(self, node: str) -> None:
        """Starts a node that is not running, and restores its packet filters, because its network namespace is new."""
        state = self._up()
        with trouble(f"starting {node}"):
            state.engine.api.start(self._container(node))
        self._filters().started(node)

    def running(self, node: str) -> bool:
        return bool(self._container_state(node)["Running"])

    def _container_state(self, node: str) -> Mapping[str, Any]:
        """Returns the state of a node's container: Running, Pid, ExitCode."""
        with trouble(f"querying the container of {node}"):
            state: Mapping[str, Any] = self._up().engine.api.inspect_container(self._container(node))["State"]
            return state

    def _signal(self, node: str, number: signal.Signals) -> None:
        """Sends a signal, unless the node is not running."""
        with trouble(f"sending {number.name} to {node}"):
            try:
                self._up().engine.api.kill(self._container(node), signal=number.name)
            except Exception:
                if self.running(node):
                    raise

    def _wait(self, node: str, what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.running(node):
            if time.monotonic() > deadline:
                raise ClusterTrouble(f"{node} did not end within {timeout_s:.0f} s of {what}")
            time.sleep(0.05)

    # --- the network ----------------------------------------------------------------------------------

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """Makes host `at` drop packets from the hosts `sources`, from now on. A client stands for all clients."""
        self._filters().drop(at, sources)

    def heal(self) -> None:
        self._filters().heal()

    def dropped(self, at: str) -> int:
        """Returns how many packets host `at` has dropped because of `drop`; 0 for a client: only nodes have rules."""
        return self._filters().dropped(at)

    def _filters(self) -> Filters:
        found = self._up().filters
        if not found:
            raise ClusterTrouble("the cluster has no network yet")
        return found[0]

    def _pid(self, node: str) -> int:
        state = self._container_state(node)
        return int(state["Pid"]) if state["Running"] else 0

    # --- commands, clients, logs ----------------------------------------------------------------------

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Runs a command in a node's container.

        Raises ClusterTrouble if the command cannot be started or does not end within `timeout_s`.
        """
        api, container = self._up().engine.api, self._container(node)
        answers: list[CommandResult | HarnessError] = []

        def execute() -> None:
            try:
                with trouble(f"running {argv[0]} in {node}"):
                    made = api.exec_create(container, list(argv))["Id"]
                    out, err = api.exec_start(made, demux=True)
                    code = int(api.exec_inspect(made)["ExitCode"])
                    answers.append(CommandResult(code, _text(out), _text(err)))
            except HarnessError as error:
                answers.append(error)

        thread = threading.Thread(target=execute, daemon=True)
        thread.start()
        thread.join(timeout_s)
        if not answers:
            raise ClusterTrouble(f"{argv[0]} did not end within {timeout_s:.0f} s")
        if isinstance(answers[0], HarnessError):
            raise answers[0]
        return answers[0]

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Starts a process on this machine, for any `host`. `env` is added to this process's environment."""
        return remote_process.spawn(self._up().control, host, argv, env, fds, log)

    def collect(self, folder: str) -> None:
        """Writes the log of each container to `folder`/<node>/server.log."""
        if self._state is None:
            return
        for node, container in self._state.container_ids.items():
            path = Path(folder) / node / "server.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file, suppress(ClusterTrouble), trouble(f"reading the log of {node}"):
                for chunk in self._state.engine.api.logs(container, stream=True, follow=False):
                    file.write(chunk)

    def checkpoint(self, node: str, name: str) -> str:
        """Returns the text of the checkpoint file `name` in all log directories of a node.

        Works only for images that take their log directories from the variable KAFKA_LOG_DIRS. Raises ClusterTrouble.
        """
        environment = {service.name: service.environment for service in self.containers.services}[node]
        folders = [folder for folder in environment.get("KAFKA_LOG_DIRS", "").split(",") if folder]
        if not folders:
            raise ClusterTrouble(f"{node}: its log directories are unknown, because KAFKA_LOG_DIRS is not set")
        return checkpoint_files.read(lambda argv: self.run(node, argv, checkpoint_files.TIMEOUT_S), name, folders)

    def _port(self, node: str) -> int:
        return self.containers.port(node, self.containers.client_port)

    def _container(self, node: str) -> str:
        if node not in self.nodes:
            raise BadInput(f"there is no node {node!r}: the nodes are {', '.join(self.nodes)}")
        return self._up().container_ids[node]

    def _up(self) -> _Running:
        if self._state is None:
            raise ClusterTrouble("the cluster is not up")
        return self._state


def new_socket() -> socket.socket:
    """Returns a new TCP socket."""
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def _text(output: bytes | None) -> str:
    return (output or b"")[:_OUTPUT_BYTES].decode(errors="replace")
