"""The brokers of a local cluster and everything that runs beside them, by way of one supervisor.

`local` gives it a face: with a network of its own, or on loopback ports.
"""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.cluster import broker, control, jars, java, namespaces, quorum, remote, storage, views
from harness.cluster.broker import Node
from harness.cluster.control import Control
from harness.cluster.jars import Jars
from harness.cluster.java import Java
from harness.cluster.nodefiles import NodeFiles
from harness.cluster.remote import RemoteChild
from harness.cluster.views import View
from harness.model.errors import BadInput, ClusterTrouble, Missing
from harness.model.protocols import CommandResult

FORWARD_PORT = 9094
_LOGS = ("supervisor.log", "forward.log")
_UP_TIMEOUT_S = 90.0
_KILL_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 60.0
_DISK_TIMEOUT_S = 120.0
_VIEW_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Spec:
    """What to run.

    nodes      their places; addresses are those of 127.0.0.1 unless `isolated`
    overrides  broker settings
    work_dir   takes data, logs and configuration, in `nodes`/<name>/, and `supervisor.log`
    isolated   with namespaces: every host has its own network
    outside    isolated brokers get a second listener each, forwarded from a port of 127.0.0.1
    java, jars None: found, and fetched, by `up`
    disks      every node's data is on a disk of its own (harness.cluster.disks)
    """

    nodes: tuple[Node, ...]
    version: str
    overrides: Mapping[str, str]
    work_dir: Path
    isolated: bool
    outside: bool = False
    java: Java | None = None
    jars: Jars | None = None
    disks: bool = False


@dataclass(frozen=True, slots=True)
class _Running:
    """What there is between `up` and `down`."""

    control: Control
    java: Java
    jars: Jars
    addresses: dict[str, str]
    made: set[str] = field(default_factory=set)
    brokers: dict[str, RemoteChild] = field(default_factory=dict)


class Fleet:
    """Satisfies Cluster, Hosts, Processes and Logs. Thread-safe once up."""

    def __init__(self, spec: Spec) -> None:
        broker.check_version(spec.version)
        broker.check_overrides(spec.overrides)
        self.spec = spec
        self.nodes = tuple(node.name for node in spec.nodes)
        self.bootstrap = ",".join(f"{node.address}:{node.port}" for node in spec.nodes)
        self._nodes = {node.name: node for node in spec.nodes}
        self.outside = "" if spec.isolated else self.bootstrap  # bootstrap for this machine's own clients
        self._state: _Running | None = None
        self._lock = threading.Lock()

    # --- start and stop -------------------------------------------------------------------------------

    def up(self, progress: Callable[[str], None]) -> None:
        """Format, start and wait until every node says that all are registered.

        Raises ClusterTrouble; Missing, BadInput from finding Java and jars.
        """
        found = self.spec.java or java.find()
        fetched = self.spec.jars or jars.ensure(self.spec.version, found, progress)
        made = storage.template(found, fetched, progress)
        folder = self.spec.work_dir / "nodes"
        if folder.exists():
            raise BadInput(f"{folder} is there already: give the cluster a working directory of its own")
        self.spec.work_dir.mkdir(parents=True, exist_ok=True)
        try:
            supervisor = Control(self.spec.isolated, self.spec.work_dir / "supervisor.log")
        except control.Refused as error:
            raise Missing(f"network namespaces are refused here: {error}; use loopback instead") from error
        self._state = _Running(supervisor, found, fetched, {n.name: n.address for n in self.spec.nodes})
        folder.mkdir()
        places = self._forward() if self.spec.outside and self.spec.isolated else self.spec.nodes
        cluster_id = storage.random_id()
        for node in places:
            self._lay_out(node, fetched.version, made, cluster_id)
        if self.spec.disks:
            self.files.make_disks()
        for node in self.spec.nodes:
            self.start(node.name)
        self._await_registered(_UP_TIMEOUT_S, progress)

    def down(self) -> None:
        """End everything and remove what `up` laid out. Safe to repeat."""
        state, self._state = self._state, None
        if state is not None:
            state.control.close()
            shutil.rmtree(self.spec.work_dir / "nodes", ignore_errors=True)
            for name in _LOGS:
                (self.spec.work_dir / name).unlink(missing_ok=True)

    def seen_by(self, name: str) -> frozenset[str]:
        """Names of the nodes that a node knows to be registered; empty when it does not answer."""
        node = self._nodes[self._known(name)]
        connection = remote.new_socket(self._up().control)
        try:
            ids = views.ask(connection, node.address, node.port, _VIEW_TIMEOUT_S).brokers
        except (OSError, ValueError):
            return frozenset()
        return frozenset(other.name for other in self.spec.nodes if other.id in ids)

    def views(self) -> list[View]:
        """What every node that answers believes about leaders and replicas."""
        found = []
        for node in self._nodes.values():
            connection = remote.new_socket(self._up().control)
            with suppress(OSError, ValueError):
                found.append(views.ask(connection, node.address, node.port, _VIEW_TIMEOUT_S))
        return found

    def controller(self) -> int | None:
        """The id of the node that leads the metadata quorum by the newest answer; None for no answer."""
        found = []
        for node in self._nodes.values():
            connection = remote.new_socket(self._up().control)
            with suppress(OSError, ValueError):
                answer = views.exchange(connection, node.address, node.port, quorum.REQUEST, _VIEW_TIMEOUT_S)
                found.append(quorum.parse(answer))
        return max(found)[1] if found else None

    def _await_registered(self, timeout_s: float, progress: Callable[[str], None]) -> None:
        """Return when every node says that all are registered. Raises ClusterTrouble."""
        began = time.monotonic()
        missing = list(self.nodes)
        while True:
            for name in list(missing):
                if len(self.seen_by(name)) == len(self.nodes):
                    missing.remove(name)
            if not missing:
                progress(f"{len(self.nodes)} brokers registered in {time.monotonic() - began:.1f} s")
                return
            for name in missing:
                code = self._up().brokers[name].poll()
                if code is not None:
                    raise ClusterTrouble(
                        f"{name} ended with code {code} as it started: {self._last_words(name)}"
                    )
            if time.monotonic() - began > timeout_s:
                raise ClusterTrouble(
                    f"{', '.join(missing)} did not see every broker registered in {timeout_s:.0f} s: "
                    f"{self._last_words(missing[0])}"
                )
            time.sleep(0.05)

    def _forward(self) -> tuple[Node, ...]:
        """Carry connections from ports of 127.0.0.1 to each node's second listener; the nodes with those."""
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in self.spec.nodes]
        ports = [listener.getsockname()[1] for listener in listeners]
        places = tuple(
            replace(node, outside_port=port, forward_port=FORWARD_PORT)
            for node, port in zip(self.spec.nodes, ports, strict=True)
        )
        argv = [sys.executable, "-m", "harness.cluster.forward"]
        argv += [f"{node.address}:{node.forward_port}" for node in places]
        env = {"PYTHONPATH": namespaces.python_path()}
        log = str(self.spec.work_dir / "forward.log")
        remote.spawn(self._up().control, "", argv, env, [listener.fileno() for listener in listeners], log)
        for listener in listeners:
            listener.close()
        self.outside = ",".join(f"127.0.0.1:{port}" for port in ports)
        return places

    def _lay_out(self, node: Node, version: str, made: storage.Template, cluster_id: str) -> None:
        folder = self._folder(node.name)
        folder.mkdir()
        data = Path(self.files.data(node.name))
        text = broker.properties(node, self.spec.nodes, version, str(data), self.spec.overrides)
        (folder / "server.properties").write_text(text)
        log_name, log_text = broker.log_config(version, str(folder / "server.log"))
        (folder / log_name).write_text(log_text)
        storage.write(made, data, cluster_id, node.id)

    def _folder(self, name: str) -> Path:
        return self.spec.work_dir.absolute() / "nodes" / name

    def _last_words(self, name: str) -> str:
        """The last complaint in a node's logs, and where they are."""
        folder = self._folder(name)
        lines: list[str] = []
        for file in ("server.log", "stdout.log"):
            with suppress(OSError):
                lines += (folder / file).read_text(errors="replace").splitlines()
        bad = [line for line in lines if "ERROR" in line or "FATAL" in line or "Exception" in line]
        last = (bad or lines or ["it logged nothing"])[-1]
        return f"{last.strip()[:500]} (its logs are in {folder})"

    def _up(self) -> _Running:
        if self._state is None:
            raise ClusterTrouble("the cluster is not up")
        return self._state

    def _known(self, name: str) -> str:
        if name not in self._nodes:
            raise BadInput(f"there is no node {name!r}: the nodes are {', '.join(self._nodes)}")
        return name

    # --- the brokers' processes -----------------------------------------------------------------------

    def start(self, node: str) -> None:
        """Start a node that does not run, without waiting for it to register."""
        if self.running(node):
            return
        state, folder = self._up(), self._folder(node)
        log_name, _ = broker.log_config(self.spec.version, "")
        properties = [str(folder / "server.properties")]
        argv = broker.java_argv(state.java, state.jars, str(folder / log_name), "kafka.Kafka", properties)
        state.brokers[node] = self.spawn(node, argv, {}, [], str(folder / "stdout.log"))

    def kill(self, node: str) -> None:
        """SIGKILL; returns when it is gone."""
        child = self._up().brokers.get(self._known(node))
        if child is not None:
            child.signal(signal.SIGKILL)
            if child.wait(_KILL_TIMEOUT_S) is None:
                raise ClusterTrouble(f"{node} did not die of SIGKILL in {_KILL_TIMEOUT_S:.0f} s")

    def stop(self, node: str) -> None:
        """SIGTERM; returns when it has ended, its leaderships handed over and its logs flushed."""
        child = self._up().brokers.get(self._known(node))
        if child is not None:
            child.signal(signal.SIGTERM)
            if child.wait(_STOP_TIMEOUT_S) is None:
                raise ClusterTrouble(f"{node} did not end within {_STOP_TIMEOUT_S:.0f} s of SIGTERM")

    def pause(self, node: str) -> None:
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._signal(node, signal.SIGCONT)

    def running(self, node: str) -> bool:
        child = self._up().brokers.get(self._known(node))
        return child is not None and child.poll() is None

    def _signal(self, node: str, number: int) -> None:
        child = self._up().brokers.get(self._known(node))
        if child is not None:
            child.signal(number)

    # --- their files ----------------------------------------------------------------------------------

    @property
    def files(self) -> NodeFiles:
        """The nodes' files, for the faults of disks and data."""
        return NodeFiles({name: self._folder(name) for name in self.nodes}, self._inside)

    def _inside(self, module: str, *arguments: str) -> str:
        """Run a module where the nodes' files are; what it prints. Raises ClusterTrouble."""
        env = {"PYTHONPATH": namespaces.python_path()}
        argv = [sys.executable, "-m", module, *arguments]
        done = remote.run(self._up().control, "", argv, _DISK_TIMEOUT_S, env)
        if done.code:
            raise ClusterTrouble(f"{module} {arguments[0]}: {done.err.strip() or f'exit code {done.code}'}")
        return done.out

    def power_off(self, names: Sequence[str]) -> dict[str, int]:
        """Cut the power of nodes, all in one moment; bytes of their logs that were lost, by node.

        Their servers are stopped first, so that none acknowledges in between. Raises ClusterTrouble.
        """
        for name in names:
            self.pause(name)
        before = self.files.log_bytes(names)
        self.files.cut(names)
        for name in names:
            self.kill(name)
        self.files.mount_again(names)
        after = self.files.log_bytes(names)
        return {name: before[name] - after[name] for name in names}

    # --- hosts and commands ---------------------------------------------------------------------------

    def host(self, name: str) -> str:
        """The address of a host, which is made unless there is one. Nodes are hosts too."""
        state = self._up()
        if not self.spec.isolated:
            return "127.0.0.1"
        with self._lock:
            if name not in state.addresses:
                workers = len(state.addresses) - len(self.nodes)
                state.addresses[name] = f"10.64.{2 + workers // 250}.{1 + workers % 250}"
            address = state.addresses[name]
            if name not in state.made:
                state.control.ask("host", {"name": name, "address": address})
                state.made.add(name)
            return address

    def ask(self, verb: str, arguments: Mapping[str, object]) -> dict[str, object]:
        """A request of the supervisor's own: see `supervisor`."""
        return self._up().control.ask(verb, arguments)[0]

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Start a process on a host; `env` is added to this process's environment."""
        self.host(host)
        return remote.spawn(self._up().control, host, argv, env, fds, log)

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command on a node's host. Raises ClusterTrouble when it cannot start or end in time."""
        self.host(self._known(node))
        return remote.run(self._up().control, node, argv, timeout_s)

    # --- logs -----------------------------------------------------------------------------------------

    def collect(self, folder: str) -> None:
        """Copy each node's logs and configuration into `folder`/<node>/, as they are now."""
        for log in _LOGS:
            path = self.spec.work_dir / log
            if path.exists() and path.stat().st_size:
                Path(folder).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, Path(folder) / log)
        for name in self.nodes:
            source, target = self._folder(name), Path(folder) / name
            if source.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                for path in sorted(source.iterdir()):
                    if path.is_file():
                        shutil.copyfile(path, target / path.name)
