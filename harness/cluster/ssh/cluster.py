"""Brokers on other hosts, through ssh. All files that the brokers need are installed there, and removed afterwards.

A watchdog runs on each host. The harness renews a lease there every few seconds. If the lease has not been renewed for
`SILENCE_S` seconds, the watchdog ends the broker and removes the packet filters, so a killed harness leaves only files
(see `harness.cluster.ssh.cleanup`). Clients run on this machine as children of a supervisor process, without network
namespaces of their own.
"""

from __future__ import annotations

import math
import secrets
import shlex
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from harness.cluster import checkpoint_files
from harness.cluster.distribution import broker_config, jars, java, versions
from harness.cluster.local import remote_process, storage_format
from harness.cluster.local.layout import Layout
from harness.cluster.local.query_servers import ServerQueries
from harness.cluster.local.remote_process import RemoteChild
from harness.cluster.local.supervisor_client import Control
from harness.cluster.spec import ClusterSpec
from harness.cluster.ssh import cleanup, install, logs, preflight
from harness.cluster.ssh.commands_on_hosts import Link
from harness.cluster.ssh.hosts import Host, load
from harness.cluster.ssh.package import Pack
from harness.cluster.ssh.packet_filters import Filters
from harness.cluster.ssh.preflight import Ready, ask
from harness.model.capabilities import STOP_S, CommandResult, Network
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, HarnessError
from harness.protocol.brokers_metadata_views import View

Progress = Callable[[str], None]
T = TypeVar("T")

SILENCE_S: Final = 60
_RENEW_S: Final = 3.0
_ASK_S: Final = 20.0
_UP_S: Final = 120.0
_KILL_S: Final = 10
_REMOVE_S: Final = 120.0
_LOGS_S: Final = 120.0
_LOG: Final = "supervisor.log"


@dataclass(slots=True)
class _Running:
    """State that exists between `up` and `down`."""

    control: Control
    hosts: Mapping[str, Ready]
    folders: Mapping[str, str]
    filters: Filters
    queries: ServerQueries
    say: Progress
    ended: threading.Event = field(default_factory=threading.Event)


def make(spec: ClusterSpec) -> SshCluster:
    """Returns a cluster on the hosts that the file `spec.hosts` describes.

    Does not connect to the hosts yet. Raises BadInput.
    """
    return SshCluster(spec, load(Path(spec.hosts)))


class SshCluster:
    """Satisfies the protocols Cluster, Hosts, Processes, Network and Logs (harness.model.capabilities).

    Thread-safe once `up` has returned; until then, `bootstrap` is empty. If the run's faults need Network, `up` rejects
    hosts without working packet filters.

    silence_s  seconds without a renewal of the lease after which the hosts consider the harness dead
    """

    def __init__(self, spec: ClusterSpec, hosts: Sequence[Host], silence_s: int = SILENCE_S) -> None:
        self.nodes = tuple(host.name for host in hosts)
        self.bootstrap = ""
        self._version = versions.resolve(spec.kafka_version)
        versions.check(self._version, versions.KRAFT)
        broker_config.check_overrides(spec.kafka_config)
        self._token = secrets.token_hex(4)
        self._spec, self._work_dir, self._silence_s = spec, spec.work_dir, silence_s
        self._links = {host.name: Link(host) for host in hosts}
        self._state: _Running | None = None

    # --- start and stop -------------------------------------------------------------------------------

    def up(self, progress: Progress) -> None:
        """Checks the hosts, installs the brokers and starts them.

        Returns when every node reports all brokers as registered. Raises Missing or BadInput before anything is
        installed, ClusterTrouble afterwards.
        """
        table = f"{cleanup.TABLE}{self._token}"
        ready = preflight.ready(list(self._links.values()), table, Network in self._spec.needed)
        hosts = {each.host.name: each for each in ready}
        found = java.find()
        fetched = jars.ensure(self._version, found, progress)
        template = storage_format.template(found, fetched, progress)
        folders = {name: f"{each.look.folder}/{self._spec.run}-{self._token}-{name}" for name, each in hosts.items()}
        self._work_dir.mkdir(parents=True, exist_ok=True)
        control = Control(isolated=False, log=self._work_dir / _LOG)
        reached = Layout(tuple(install.reached(node) for node in install.nodes(ready)))
        self._state = _Running(
            control, hosts, folders, Filters(hosts, folders, table), ServerQueries(reached, _socket), progress
        )
        self.bootstrap = ",".join(f"{node.address}:{node.port}" for node in reached.brokers)
        layout, cluster_id = Layout(install.nodes(ready)), storage_format.random_id()
        packs = {
            node.name: Pack(
                node,
                layout,
                self._version,
                self._spec.kafka_config,
                folders[node.name],
                fetched,
                found,
                hosts[node.name].look.java[0],
                template,
                cluster_id,
            )
            for node in layout.brokers
        }
        began = time.monotonic()
        without_java = [name for name, each in hosts.items() if not each.look.java[0]]
        progress(
            f"installing Kafka {self._version} on {', '.join(self.nodes)}"
            + (f", and Java {found.full} on {', '.join(without_java)}, which have none" if without_java else "")
        )
        self._everywhere(lambda name: self._install(packs[name]))
        progress(f"installed in {time.monotonic() - began:.1f} s")
        self._everywhere(self.start)
        self._await_registered(progress)

    def _install(self, pack: Pack) -> None:
        """Installs the files on a host, and starts the host's watchdog. Raises ClusterTrouble."""
        name = pack.node.name
        install.install(self._up().hosts[name].link, pack)
        self._ask(name, "guard", _ASK_S, str(self._silence_s))
        threading.Thread(target=self._renew, args=(name,), daemon=True).start()

    def _renew(self, name: str) -> None:
        """Renews the lease on a host at regular intervals, in a thread of its own."""
        state, number = self._up(), 0
        while not state.ended.wait(_RENEW_S):
            number += 1
            with suppress(HarnessError):
                ask(state.hosts[name].link, _ASK_S, "renew", state.folders[name], str(number))

    def down(self) -> None:
        """Removes everything from the hosts, and ends the clients. May be called more than once.

        Reports what could not be removed, but raises no error, so that the run still gets a verdict.
        """
        state, self._state = self._state, None
        if state is not None:
            state.control.close()
            state.ended.set()

            def remove(name: str) -> str:
                try:
                    ask(state.hosts[name].link, _REMOVE_S, "remove", state.folders[name])
                except HarnessError as error:
                    return str(error)
                return ""

            failures = [text for text in _each(self.nodes, remove) if text]
            if failures:
                state.say(
                    f"not everything was removed: {'; '.join(failures)}. "
                    "To remove the rest: harness cluster clean --cluster ssh --hosts FILE"
                )
            (self._work_dir / _LOG).unlink(missing_ok=True)
        for link in self._links.values():
            link.close()

    def _await_registered(self, progress: Progress) -> None:
        """Waits until every node reports all brokers as registered. Raises ClusterTrouble."""
        began = time.monotonic()
        waiting = list(self.nodes)
        while waiting:
            waiting = [name for name in waiting if len(self.seen_by(name)) < len(self.nodes)]
            for name in waiting:
                if not self.running(name):
                    raise ClusterTrouble(f"{name} exited during startup: {self._last_error(name)}")
            if waiting and time.monotonic() - began > _UP_S:
                raise ClusterTrouble(
                    f"{', '.join(waiting)} did not report all brokers as registered within {_UP_S:.0f} s. Check that "
                    "the hosts can reach each other at the brokers' ports, and that this machine can reach them there. "
                    f"{waiting[0]} reports: {self._last_error(waiting[0])}"
                )
            if waiting:
                time.sleep(0.2)
        progress(f"{len(self.nodes)} brokers registered in {time.monotonic() - began:.1f} s")

    def _last_error(self, name: str) -> str:
        try:
            lines = self._ask(name, "words", _ASK_S).splitlines()
        except HarnessError as error:
            return str(error)
        lines = [line.strip() for line in lines if line.strip()]
        bad = [line for line in lines if any(word in line for word in ("ERROR", "FATAL", "Exception"))]
        return (bad or lines or ["its log is empty"])[-1][:500]

    # --- what the brokers report ----------------------------------------------------------------------

    def seen_by(self, node: str) -> frozenset[str]:
        """Returns the names of the nodes that `node` regards as registered; empty if `node` does not answer."""
        queries, number = self._up().queries, self.nodes.index(self._known(node))
        view = queries.view(queries.layout.brokers[number])
        ids = view.brokers if view else frozenset()
        return frozenset(name for id_, name in enumerate(self.nodes, start=1) if id_ in ids)

    def views(self) -> list[View]:
        """Returns what each node that answers knows of the metadata: leaders, replicas, registered brokers."""
        return self._up().queries.views()

    def controller(self) -> int | None:
        """Returns the id of the leader of the metadata quorum; None if it cannot be determined."""
        return self._up().queries.controller()

    # --- the brokers' processes -----------------------------------------------------------------------

    def kill(self, node: str) -> None:
        """Sends SIGKILL; returns when the broker has exited."""
        self._ask(node, "end", _KILL_S + _ASK_S, "KILL", str(_KILL_S))

    def stop(self, node: str, within_s: float = STOP_S) -> None:
        """Sends SIGTERM; returns when the broker has exited."""
        self._ask(node, "end", within_s + _ASK_S, "TERM", str(math.ceil(within_s)))

    def pause(self, node: str) -> None:
        self._ask(node, "signal", _ASK_S, "STOP")

    def resume(self, node: str) -> None:
        self._ask(node, "signal", _ASK_S, "CONT")

    def start(self, node: str) -> None:
        """Starts a node that is not running; does not wait until it has registered."""
        self._ask(node, "start", _ASK_S)

    def running(self, node: str) -> bool:
        return self._ask(node, "running", _ASK_S).strip() == "yes"

    # --- their network --------------------------------------------------------------------------------

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """Makes host `at` drop packets from the hosts `sources`. A name that is not a node stands for all clients."""
        self._up().filters.drop(at, sources)

    def heal(self) -> None:
        """Removes all packet filter rules."""
        self._up().filters.heal()

    def dropped(self, at: str) -> int:
        """Returns how many packets the rules on the host of node `at` have dropped; 0 for a client."""
        return self._up().filters.dropped(at)

    # --- commands, clients, logs ----------------------------------------------------------------------

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Runs a command on a node's host.

        Raises ClusterTrouble if the command cannot be started or does not end within `timeout_s`.
        """
        return self._up().hosts[self._known(node)].link.run(shlex.join(argv), timeout_s)

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Starts a process on this machine, for any `host`. `env` is added to this process's environment."""
        return remote_process.spawn(self._up().control, host, argv, env, fds, log)

    def collect(self, folder: str) -> None:
        """Copies each node's current logs and configuration to `folder`/<node>/."""
        state = self._state
        if state is None:
            return

        def fetch(name: str) -> str:
            try:
                logs.fetch(state.hosts[name].link, state.folders[name], Path(folder) / name, _LOGS_S)
            except HarnessError as error:
                return str(error)
            return ""

        missing = [text for text in _each(self.nodes, fetch) if text]
        if missing:
            state.say(f"logs were not collected: {'; '.join(missing)}")

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        """Returns at most 1 MiB of a node's server log, and the byte offset after it.

        Reading starts at byte `offset`; None: at the end of the log. Raises ClusterTrouble.
        """
        if offset is None:
            return b"", int(self._ask(node, "size", _ASK_S))
        state = self._up()
        data = logs.read(state.hosts[self._known(node)].link, state.folders[node], offset, _ASK_S)
        return data, offset + len(data)

    def checkpoint(self, node: str, name: str) -> str:
        folder = f"{self._up().folders[self._known(node)]}/data"
        return checkpoint_files.read(lambda argv: self.run(node, argv, checkpoint_files.TIMEOUT_S), name, [folder])

    # --- commands of host_commands.sh -----------------------------------------------------------------

    def _ask(self, node: str, what: str, timeout_s: float, *arguments: str) -> str:
        """Runs the command `what` of host_commands.sh on a node's host; returns its output. Raises ClusterTrouble."""
        state = self._up()
        name = self._known(node)
        return ask(state.hosts[name].link, timeout_s, what, state.folders[name], *arguments)

    def _everywhere(self, act: Callable[[str], None]) -> None:
        """Calls `act` with the name of each node, in parallel. Raises ClusterTrouble with all errors."""

        def one(name: str) -> HarnessError | None:
            try:
                act(name)
            except HarnessError as error:
                return error
            return None

        errors = [error for error in _each(self.nodes, one) if error is not None]
        if errors:
            raise ClusterTrouble("; ".join(str(error) for error in errors))

    def _known(self, node: str) -> str:
        if node not in self.nodes:
            raise BadInput(f"there is no node {node!r}: the nodes are {', '.join(self.nodes)}")
        return node

    def _up(self) -> _Running:
        if self._state is None:
            raise ClusterTrouble("the cluster is not up")
        return self._state


def _each(names: Sequence[str], act: Callable[[str], T]) -> list[T]:
    """Calls `act` with each name, in parallel; returns the results."""
    with ThreadPoolExecutor(max(len(names), 1)) as pool:
        return list(pool.map(act, names))


def _socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
