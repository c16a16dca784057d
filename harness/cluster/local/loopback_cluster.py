"""A Kafka cluster on ports of 127.0.0.1. It needs only Python and Java, but does not offer network faults.

All processes of the cluster are descendants of one supervisor. Whatever ends the harness, even kill -9, ends all of
them. `harness.cluster.local.namespaced_cluster` extends this cluster with a network that can be partitioned.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from harness.cluster import checkpoint_files
from harness.cluster.distribution import broker_config, java, migration_config, upgrade_pairs, versions
from harness.cluster.distribution.broker_config import Node
from harness.cluster.local import (
    dynamic_quorum,
    layout,
    log_tail,
    migration,
    namespaces,
    releases,
    remote_process,
    servers,
    storage_format,
    trial_start,
    wire_faults,
)
from harness.cluster.local.clocks import Clocks
from harness.cluster.local.layout import Layout, Place
from harness.cluster.local.log_dirs import LogDirectories
from harness.cluster.local.node_files import NodeFiles
from harness.cluster.local.ports import Ports
from harness.cluster.local.query_servers import ServerQueries
from harness.cluster.local.releases import Release
from harness.cluster.local.remote_process import RemoteChild
from harness.cluster.local.servers import Servers
from harness.cluster.local.supervisor_client import Control, Refused
from harness.cluster.local.wire_faults import WireProxy
from harness.cluster.spec import NOBODY, ClusterSpec
from harness.model import capabilities
from harness.model.capabilities import STOP_S, CommandResult, LogDir, UpgradePath
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, Missing
from harness.model.wire_rules import Rule, RuleCounts, Traffic
from harness.protocol.brokers_metadata_views import View
from harness.protocol.error_codes import TopicPartition

Progress = Callable[[str], None]

_WIRE_LOG = "wire.log"
_NOT_COLLECTED = (".img", ".so")  # disk images and clock libraries
_LOGS = ("supervisor.log", "forward.log", _WIRE_LOG)
_UP_TIMEOUT_S = 90.0
_KILL_TIMEOUT_S = 10.0
_FILES_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Running:
    """State that exists between `up` and `down`.

    addresses  host name -> address
    made       names of the hosts that have been created
    children   server name -> process
    releases   version -> what servers need to run it
    changed    server name -> its settings, for servers that were given another version
    pinned     names of the servers whose protocol is pinned to the old version
    """

    control: Control
    servers: Servers
    addresses: dict[str, str]
    made: set[str] = field(default_factory=set)
    children: dict[str, RemoteChild] = field(default_factory=dict)
    proxy: WireProxy | None = None
    releases: Mapping[str, Release] = field(default_factory=dict)
    changed: dict[str, Servers] = field(default_factory=dict)
    pinned: set[str] = field(default_factory=set)

    def servers_of(self, name: str) -> Servers:
        """Returns the settings with which a server starts."""
        return self.changed.get(name, self.servers)


class LoopbackCluster:
    """Satisfies the protocols Cluster, Hosts, Processes, MetadataServers, Files, LogDirs, LogFolders, Checkpoints,
    Data, MetadataLogs, Voters, Wire, Clocks, Releases and Logs (harness.model.capabilities), but not Network.

    Thread-safe once `up` has returned. If Clocks is needed, every server has its own clock
    (harness.cluster.local.clocks).

    jvm_flags  JVM flags of brokers; None: flags that make brokers start faster
               (harness.cluster.distribution.cds_archive)
    """

    isolated: ClassVar = False

    def __init__(self, spec: ClusterSpec, jvm_flags: Sequence[str] | None = None) -> None:
        self.spec, self._jvm_flags = spec, jvm_flags
        self._releases, self.work_dir = releases.named(spec), spec.work_dir
        self.version = self._releases[0]
        broker_config.check_overrides(spec.kafka_config)
        self._ports = Ports()
        self._all = self._places()
        self.layout = replace(self._all, controllers=()) if spec.migrates else self._all
        self.nodes = tuple(place.name for place in self.layout.brokers)
        self.bootstrap = ",".join(f"{place.address}:{place.port}" for place in self.layout.brokers)
        self.direct_bootstrap = self.bootstrap  # always without the proxy; `bootstrap` leads to the proxy, if any
        self.outside_bootstrap = self.bootstrap  # for programs of this machine outside the cluster's network
        self._queries = ServerQueries(self.layout, self._socket)
        self._clocks: Clocks | None = None
        if capabilities.Clocks in spec.needed:
            self._clocks = Clocks(lambda name: self._up().servers.home(name), self._queries.provoke)
        self._directory_ids: Mapping[str, str] = {}  # of controllers, if the voters of their quorum can be changed
        self._state: Running | None = None
        self._lock = threading.Lock()
        self._starting = threading.Lock()  # several faults may start the same server

    def _places(self) -> Layout:
        spec = self.spec
        return layout.on_loopback(spec.nodes, spec.controllers, spec.metadata_kept, self._ports.take, spec.migrates)

    @property
    def metadata_servers(self) -> tuple[str, ...]:
        return tuple(place.name for place in self.layout.metadata_servers)

    # --- start and stop -------------------------------------------------------------------------------

    def up(self, progress: Progress) -> None:
        """Creates the folders of all servers, and starts the servers.

        Returns when every broker reports all brokers as registered. Raises ClusterTrouble, Missing (Java, jars,
        namespaces), BadInput (no such version, folder exists already).
        """
        found = java.find()
        fetched = releases.fetch(self._releases, self._all, found, self._jvm_flags, progress)
        first = fetched[self.version]
        folder = self.work_dir.absolute() / "nodes"
        if folder.exists():
            raise BadInput(f"{folder} exists already: use another working directory for the cluster")
        self.work_dir.mkdir(parents=True, exist_ok=True)
        try:
            supervisor = Control(self.isolated, self.work_dir / "supervisor.log")
        except Refused as error:
            raise Missing(f"network namespaces are refused here: {error}; use --network loopback") from error
        laid_out = Servers(
            self.layout,
            self.version,
            self.spec.kafka_config,
            folder,
            found,
            first.jars,
            first.template,
            storage_format.random_id(),
            self.spec.log_dirs,
            self.spec.racks,
            first.jvm_flags,
        )
        addresses = {place.name: place.address for place in self._all.places}
        self._state = Running(supervisor, laid_out, addresses, releases=fetched)
        folder.mkdir()
        self._state.servers = replace(laid_out, layout=self._with_proxy(self._reached()))
        for place in self._state.servers.layout.places:
            self._state.servers.lay_out(place)
        if capabilities.Voters in self.spec.needed:
            self._directory_ids = dynamic_quorum.prepare(self._state.servers)
        self._prepare()
        for place in self.layout.places:
            self.start(place.name)
        self._await_registered(_UP_TIMEOUT_S, progress)

    def _with_proxy(self, reached: Layout) -> Layout:
        """Starts the wire proxy if the spec asks for one. Returns the layout, which then includes the proxy's ports."""
        if self.spec.proxy == NOBODY:
            return reached
        state, log = self._up(), str(self.work_dir / _WIRE_LOG)
        placed, state.proxy = wire_faults.start(
            state.control, reached.brokers, self._listen, self._proxy_ports(), self.spec.proxy, log
        )
        self.bootstrap = ",".join(f"{place.address}:{place.proxy_port}" for place in placed)
        return replace(reached, brokers=placed)

    def _listen(self, host: str, address: str, port: int) -> socket.socket:
        self.host(host)
        return wire_faults.listening(remote_process.new_socket(self._up().control, host), address, port)

    def _proxy_ports(self) -> wire_faults.TakePorts:
        return lambda: (self._ports.take(), 0, 0)

    def _reached(self) -> Layout:
        """Returns the layout, to which subclasses add listeners for programs outside the cluster's network."""
        return self.layout

    def _prepare(self) -> None:
        """Prepares whatever must exist before the servers start. A hook for subclasses; does nothing here."""

    def down(self) -> None:
        """Ends all processes, and removes the folders that `up` created. May be called more than once."""
        if self._clocks is not None:
            self._clocks.stop()
        state, self._state = self._state, None
        self._ports.give_back()
        if state is not None:
            if state.proxy is not None:
                state.proxy.close()
            state.control.close()
            shutil.rmtree(state.servers.folder, ignore_errors=True)
            for name in _LOGS:
                (self.work_dir / name).unlink(missing_ok=True)

    def _await_registered(self, timeout_s: float, progress: Progress) -> None:
        """Waits until every broker reports all brokers as registered. Raises ClusterTrouble."""
        began = time.monotonic()
        waiting = list(self.nodes)
        while True:
            waiting = [name for name in waiting if len(self.seen_by(name)) < len(self.nodes)]
            silent = self.silent()
            if not waiting and not silent:
                progress(f"{len(self.nodes)} brokers registered in {time.monotonic() - began:.1f} s")
                return
            for name, child in self._up().children.items():
                code = child.poll()
                if code is not None:
                    last_error = self._up().servers.last_error(name)
                    raise ClusterTrouble(f"{name} exited with code {code} during startup: {last_error}")
            if time.monotonic() - began > timeout_s:
                last_error = self._up().servers.last_error([*silent, *waiting][0])
                what = (
                    f"{', '.join(silent)} did not answer"
                    if silent
                    else (f"{', '.join(waiting)} did not report all brokers as registered")
                )
                raise ClusterTrouble(f"{what} within {timeout_s:.0f} s: {last_error}")
            time.sleep(0.05)

    def _up(self) -> Running:
        if self._state is None:
            raise ClusterTrouble("the cluster is not up")
        return self._state

    def _known(self, name: str) -> str:
        if name not in (names := (*self.nodes, *self.metadata_servers)):
            raise BadInput(f"there is no node {name!r}: the nodes are {', '.join(names)}")
        return name

    def _place(self, node: str) -> Place:
        """Returns the addresses of a server, which include the ports of the wire proxy if there is one."""
        return next(place for place in self._up().servers.layout.places if place.name == node)

    # --- what the servers report ----------------------------------------------------------------------

    def _socket(self, host: str = "") -> socket.socket:
        return remote_process.new_socket(self._up().control, host)

    def seen_by(self, node: str) -> frozenset[str]:
        """Returns the names of the brokers that `node` regards as registered; empty if `node` does not answer."""
        view = self._queries.view(self._broker(node))
        ids = view.brokers if view else frozenset()
        return frozenset(other.name for other in self.layout.brokers if other.id in ids)

    def views(self) -> list[View]:
        """Returns what each broker that answers knows of the metadata: leaders, replicas, registered brokers."""
        return self._queries.views()

    def controller(self) -> int | None:
        """Returns the id of the active controller; None if it cannot be determined."""
        return self._queries.controller()

    def quorum(self) -> list[dict[str, Any]]:
        return [{"node": node, **state._asdict()} for node, state in self._queries.quorum()]

    def voters(self) -> list[str]:
        return dynamic_quorum.voters(self._queries)

    def add_voter(self, node: str) -> None:
        dynamic_quorum.add(self._queries, self._directory_ids, node)

    def remove_voter(self, node: str) -> None:
        dynamic_quorum.remove(self._queries, self._directory_ids, node)

    def silent(self) -> list[str]:
        """Returns the names of the metadata servers (dedicated controllers, ZooKeepers) that do not answer."""
        return self._queries.silent()

    # --- the servers' processes -----------------------------------------------------------------------

    def start(self, node: str) -> None:
        """Starts a server that is not running; does not wait until it has registered."""
        with self._starting:
            if not self.running(node):
                state = self._up()
                place = self._place(node)
                log = str(state.servers.home(node) / servers.STDOUT)
                env = self._clocks.env(node) if self._clocks else {}
                state.children[node] = self.spawn(node, state.servers_of(node).argv(place), env, [], log)

    def kill(self, node: str) -> None:
        """Sends SIGKILL; returns when the process has ended."""
        self._end(node, signal.SIGKILL, _KILL_TIMEOUT_S)

    def stop(self, node: str, within_s: float = STOP_S) -> None:
        """Sends SIGTERM; returns when the server has ended.

        Before it ends, the server gives up its leaderships and flushes its logs.
        """
        self._end(node, signal.SIGTERM, within_s)

    def _end(self, node: str, number: signal.Signals, timeout_s: float) -> None:
        child = self._up().children.get(self._known(node))
        if child is not None:
            child.signal(number)
            if child.wait(timeout_s) is None:
                raise ClusterTrouble(f"{node} did not end within {timeout_s:.0f} s of {number.name}")

    def pause(self, node: str) -> None:
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._signal(node, signal.SIGCONT)

    def _signal(self, node: str, number: int) -> None:
        child = self._up().children.get(self._known(node))
        if child is not None:
            child.signal(number)

    def running(self, node: str) -> bool:
        child = self._up().children.get(self._known(node))
        return child is not None and child.poll() is None

    # --- versions of Kafka ----------------------------------------------------------------------------

    def upgrade_path(self) -> UpgradePath:
        pins = self.layout.metadata == versions.ZOOKEEPER
        return UpgradePath(self.version, self._releases[-1], releases.rolled(self.layout), pins)

    def release(self, node: str) -> tuple[str, bool]:
        state = self._up()
        return state.servers_of(self._known(node)).version, node in state.pinned

    def set_release(self, node: str, version: str, pinned: bool) -> None:
        """Gives a stopped server the jars and the configuration of a version. Raises BadInput for other versions."""
        state = self._up()
        if version not in state.releases or node not in releases.rolled(self.layout):
            raise BadInput(f"{node} cannot run {version}: it can run {', '.join(self._releases)}")
        pin = upgrade_pairs.protocol_of(self.version) if pinned else ""
        with self._starting:
            state.changed[node] = releases.with_release(state.servers, state.releases[version], pin)
            (state.pinned.add if pinned else state.pinned.discard)(node)
            state.changed[node].configure(self._place(node))

    def starts_empty(self, node: str, version: str) -> str:
        state = self._up()
        place = self._place(self._known(node))
        trial = releases.with_release(state.servers, state.releases[version], "")
        return trial_start.attempt(
            trial, place, self._ports.take, lambda argv, log: self.spawn(node, argv, {}, [], log), self._socket
        )

    def new_levels(self, version: str) -> Mapping[str, int]:
        return self._up().releases[version].levels

    def reported_features(self, node: str) -> tuple[int, Mapping[str, int]] | None:
        found = self._queries.features(self._known(node))
        return None if found is None else (found.epoch, found.levels)

    # --- migration from ZooKeeper to KRaft ------------------------------------------------------------

    def mode(self, node: str) -> str:
        return migration.mode_of(self._up().servers_of(self._known(node)))

    def set_mode(self, node: str, mode: str) -> None:
        state = self._up()
        state.changed[node] = migration.in_mode(state.servers, mode)
        state.changed[node].configure(self._place(node))

    def provision(self) -> Sequence[str]:
        state = self._up()
        state.servers = migration.with_controllers(state.servers, self._all.controllers, self.nodes[0])
        self._lay_out_as(replace(self.layout, controllers=self._all.controllers))
        for place in self._all.controllers:
            state.changed[place.name] = migration.in_mode(state.servers, migration_config.MIGRATION)
            state.changed[place.name].lay_out(place)
            self.start(place.name)
        return [place.name for place in self._all.controllers]

    def deprovision(self) -> None:
        state = self._up()
        for place in self.layout.controllers:
            self.kill(place.name)
            del state.changed[place.name]
            shutil.rmtree(state.servers.data(place.name))  # the logs stay
        state.servers = replace(state.servers, layout=replace(state.servers.layout, controllers=()))
        self._lay_out_as(replace(self.layout, controllers=()))

    def retire_zookeepers(self) -> None:
        for place in self.layout.zookeepers:
            self.stop(place.name)
        self._lay_out_as(replace(self.layout, zookeepers=()))

    def zookeeper_shell(self, command: Sequence[str]) -> CommandResult:
        argv = migration.shell_argv(self._up().servers, self.layout.zookeepers[0], command)
        return self.run(self.nodes[0], argv, migration.SHELL_S)

    def _lay_out_as(self, places: Layout) -> None:
        self.layout, self._queries = places, ServerQueries(places, self._socket)

    # --- wire proxy rules -----------------------------------------------------------------------------

    def apply_rules(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        self._proxy().apply(name, rules, seed)

    def rule_counts(self, name: str) -> Sequence[RuleCounts]:
        return self._proxy().counts(name)

    def clear_rules(self, name: str) -> Sequence[RuleCounts]:
        return self._proxy().clear(name)

    def wire_traffic(self) -> Traffic:
        return self._proxy().traffic()

    def _proxy(self) -> WireProxy:
        proxy = self._up().proxy
        if proxy is None:
            raise ClusterTrouble("the cluster was started without a wire proxy: use --proxy clients")
        return proxy

    # --- clocks ---------------------------------------------------------------------------------------

    @property
    def clocks(self) -> Clocks:
        """The servers' clocks. Raises ClusterTrouble if the servers were started without clocks of their own."""
        if self._clocks is None:
            raise ClusterTrouble("the servers have no clocks of their own: the cluster was started without them")
        return self._clocks

    def set_clock(self, node: str, ahead_s: float) -> None:
        self.clocks.set(self._known(node), ahead_s)

    def strobe_clock(self, node: str, ahead_s: float, every_s: float) -> None:
        self.clocks.strobe(self._known(node), ahead_s, every_s)

    def clock_ahead_s(self, node: str) -> tuple[float, float] | None:
        return self.clocks.ahead_s(self._known(node))

    # --- log directories ------------------------------------------------------------------------------

    @property
    def _directories(self) -> LogDirectories:
        return LogDirectories(self._socket, self.files, self.spec.log_dirs)

    def _broker(self, node: str) -> Node:
        return next(place for place in self.layout.brokers if place.name == self._known(node))

    def log_dirs(self, node: str) -> Mapping[str, LogDir]:
        return self._directories.describe(self._broker(node))

    def move_logs(self, node: str, moves: Mapping[str, Sequence[TopicPartition]]) -> Mapping[TopicPartition, str]:
        return self._directories.move(self._broker(node), moves)

    def fail_log_dir(self, node: str) -> str:
        return self._directories.fail(self._known(node))

    def mend_log_dir(self, node: str) -> None:
        """Repairs the failed log directory of a node; kills its server first, because it would not use it again."""
        if self._directories.failed(self._known(node)):
            self.kill(node)
            self._directories.mend(node)

    # --- files and logs -------------------------------------------------------------------------------

    @property
    def files(self) -> NodeFiles:
        """The servers' files, for disk and data faults."""
        folders = {place.name: self._up().servers.home(place.name) for place in self.layout.places}
        return NodeFiles(folders, self._inside)

    def _inside(self, module: str, *arguments: str) -> str:
        """Runs a Python module where the servers' files are mounted; returns its output. Raises ClusterTrouble."""
        env = {"PYTHONPATH": namespaces.python_path()}
        argv = [sys.executable, "-m", module, *arguments]
        done = remote_process.run(self._up().control, "", argv, _FILES_TIMEOUT_S, env)
        if done.code:
            raise ClusterTrouble(f"{module} {arguments[0]}: {done.err.strip() or f'exit code {done.code}'}")
        return done.out

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        return self.files.damage(node, kind, topic_prefix, seed)

    def log_folders(self, node: str, topic_prefix: str) -> Mapping[str, Any]:
        return self.files.look(self._known(node), topic_prefix)

    def checkpoint(self, node: str, name: str) -> str:
        folder = self.files.data(self._known(node))
        control = self._up().control
        return checkpoint_files.read(
            lambda argv: remote_process.run(control, "", argv, checkpoint_files.TIMEOUT_S), name, [folder]
        )

    def keep_data(self, folder: str, topic_prefix: str, most_bytes: int) -> Mapping[str, Any]:
        with self._paused(self.nodes):
            return self.files.keep(folder, topic_prefix, most_bytes, self.nodes)

    def keep_metadata(self, folder: str, most_bytes: int) -> Mapping[str, Any]:
        names = capabilities.servers(self)
        with self._paused(names):
            return self.files.keep_metadata(folder, most_bytes, names)

    @contextlib.contextmanager
    def _paused(self, names: Sequence[str]) -> Iterator[None]:
        """Pauses those of the servers that run, until the context ends."""
        running = [name for name in names if self.running(name)]
        for name in running:
            self.pause(name)
        try:
            yield
        finally:
            for name in running:
                self.resume(name)

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        """Returns part of a server's log, and the byte offset after that part.

        The part starts at byte `offset`; None: at the end of the log.
        """
        return log_tail.tail(self._up().servers.home(self._known(node)) / servers.LOG, offset)

    def collect(self, folder: str) -> None:
        """Copies each server's current logs and configuration into `folder`/<name>/."""
        target = Path(folder)
        for log in _LOGS:
            path = self.work_dir / log
            if path.exists() and path.stat().st_size:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target / log)
        for place in self._all.places:
            home = self.work_dir / "nodes" / place.name
            for path in sorted(home.iterdir()) if home.is_dir() else ():
                if path.is_file() and path.suffix not in _NOT_COLLECTED:
                    (target / place.name).mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target / place.name / path.name)

    # --- hosts and commands ---------------------------------------------------------------------------

    def host(self, name: str) -> str:
        """Returns the IPv4 address of a host. `name` is the name of a server or of a worker's host."""
        return "127.0.0.1"

    def ask(self, verb: str, arguments: Mapping[str, object]) -> dict[str, object]:
        """Sends a request to the supervisor: see `harness.cluster.local.supervisor`."""
        return self._up().control.ask(verb, arguments)[0]

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Starts a process on a host. `env` is added to this process's environment."""
        self.host(host)
        return remote_process.spawn(self._up().control, host, argv, env, fds, log)

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Runs a command on a node's host.

        Raises ClusterTrouble if the command cannot be started or does not end within `timeout_s`.
        """
        self.host(self._known(node))
        return remote_process.run(self._up().control, node, argv, timeout_s)
