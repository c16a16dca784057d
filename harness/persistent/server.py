"""The keeper: the process that owns a persistent cluster. Many runs can use the cluster, one after another.

Run as `python -m harness.persistent.server NAME FD`. The keeper creates the cluster that clusters/NAME/plan.yaml
describes, and accepts calls on a socket (`harness.cluster.persistent.rpc`). A connection carries one request and its
answer. The exception is the request `hold`: its connection stays open as long as the run uses the cluster. When that
connection closes, for whatever reason, the keeper ends the processes that the run started and undoes the run's faults.

During start-up, the keeper writes messages to descriptor FD as JSON lines: {"say": ...}, {"error": ..., "code": ...}

Requests: the value of the field `do`, the other fields, and the answer or effect.

    describe                       capabilities, nodes and addresses, as `NamedCluster` needs them
    call     method, arguments     the result of a method of the cluster
    spawn    host, argv, env, log, guest + descriptors   the pid of a new process; with `guest` it outlives the run
    signal   pid, number           sends a signal to the process
    wait     pid, within_s         the process's exit code, or None
    hold     run, owner, cwd       reserves the cluster; answers {"say": ...} while the cluster heals, then
                                   {"left": [earlier runs whose topics still exist]}; `release` on the same
                                   connection ends the reservation
    forget   runs                  removes these runs from `left`, because their topics have been deleted
    status                         see `Keeper.status`
    down     force                 ends the cluster and the keeper; refused while a run uses the cluster, unless
                                   `force` is true
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson

from harness.cluster import json_messages
from harness.cluster.json_messages import Closed
from harness.cluster.local import process_owner
from harness.cluster.persistent import client, rpc
from harness.cluster.persistent.client import State
from harness.model import capabilities
from harness.model.capabilities import (
    Child,
    Cluster,
    Hosts,
    MetadataServers,
    Processes,
    Wire,
    offers,
    servers,
)
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble, HarnessError
from harness.persistent import heal
from harness.protocol.brokers_metadata_views import newest
from harness.run.roles import Coordinated, Viewed

CAPABILITIES: Final = (
    *(each for each in capabilities.ALL if each not in capabilities.FOR_GOOD),
    Viewed,
    Coordinated,
)
_REQUEST_S: Final = 30.0
_WAIT_MAX_S: Final = 3600.0
_KILL_S: Final = 5.0
_CLEANUP_S: Final = 150.0


@dataclass(slots=True)
class Hold:
    """A run that has reserved the cluster.

    owner  owner text of the run's process (`process_owner`)
    cwd    the run's working directory
    since  when the run reserved the cluster, UTC
    """

    run: str
    owner: str
    cwd: str
    since: str
    children: dict[int, Child] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    released: bool = False

    def __str__(self) -> str:
        return f"run {self.run} (pid {process_owner.pid_of(self.owner)}, since {self.since}, in {self.cwd})"


class Keeper:
    """Serves requests to the keeper, with one thread per connection."""

    def __init__(self, cluster: Cluster, state: State, prepared: frozenset[type]) -> None:
        self._cluster, self._state, self._prepared = cluster, state, prepared
        self._hold: Hold | None = None
        self._hold_changed = threading.Condition()
        self._left_runs: list[str] = []
        self._guests: dict[int, Child] = {}
        self.ended = threading.Event()

    def serve(self, listener: socket.socket) -> None:
        """Accepts connections until a request `down` arrives."""
        while not self.ended.is_set():
            listener.settimeout(0.5)
            with suppress(TimeoutError):
                end, _ = listener.accept()
                threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        """Serves one connection. Closes a connection of another user without an answer."""
        with end, suppress(OSError):
            if not rpc.same_user(end):
                return
            end.settimeout(_REQUEST_S)
            request, fds = rpc.receive(end)
            end.settimeout(None)
            try:
                if request["do"] == "hold":
                    self._serve_run(end, request)
                else:
                    rpc.reply(end, lambda: self._do(request, fds))
            finally:
                for fd in fds:
                    os.close(fd)

    def _do(self, request: Mapping[str, Any], fds: Sequence[int]) -> Any:
        match request["do"]:
            case "describe":
                return self._describe()
            case "call":
                return self._call(request["method"], request["arguments"])
            case "spawn":
                return self._spawn(request, fds)
            case "signal":
                self._child(request["pid"]).signal(request["number"])
            case "wait":
                return self._child(request["pid"]).wait(min(request["within_s"], _WAIT_MAX_S))
            case "forget":
                self._left_runs = [run for run in self._left_runs if run not in request["runs"]]
            case "status":
                return self.status()
            case "down":
                if self._hold is not None and not request["force"]:
                    raise BadInput(
                        f"the cluster {self._state.name} is in use by {self._hold}: wait until this run has ended, "
                        "or use --force"
                    )
                self.ended.set()
            case verb:
                raise BadInput(f"unknown request {verb!r} to the keeper")
        return None

    # --- the cluster ----------------------------------------------------------------------------------

    def _describe(self) -> dict[str, Any]:
        cluster = self._cluster
        return {
            "capabilities": [kind.__name__ for kind in CAPABILITIES if offers(cluster, kind)],
            "nodes": cluster.nodes,
            "metadata_servers": cluster.metadata_servers if offers(cluster, MetadataServers) else (),
            "bootstrap": cluster.bootstrap,
            "direct_bootstrap": getattr(cluster, "direct_bootstrap", cluster.bootstrap),
            "outside_bootstrap": getattr(cluster, "outside_bootstrap", cluster.bootstrap),
        }

    def _call(self, name: str, arguments: Sequence[Any]) -> Any:
        if name.startswith("_"):
            raise BadInput(f"{name} is not a public method of the cluster")
        if name == "apply_rules" and self._hold is not None:
            self._hold.rules.add(arguments[0])
        return getattr(self._cluster, name)(*arguments)

    def _spawn(self, request: Mapping[str, Any], fds: Sequence[int]) -> int:
        assert isinstance(self._cluster, Hosts)
        hold = self._hold
        if hold is None and not request.get("guest"):
            raise ClusterTrouble("no run has reserved the cluster")
        child = self._cluster.spawn(request["host"], request["argv"], request["env"], fds, request["log"])
        children = self._guests if hold is None or request.get("guest") else hold.children
        children[child.pid] = child
        return child.pid

    def _child(self, pid: int) -> Child:
        all_children = {**self._guests, **(self._hold.children if self._hold is not None else {})}
        if pid not in all_children:
            raise ClusterTrouble(f"this run has no process {pid}")
        return all_children[pid]

    def status(self) -> dict[str, Any]:
        """Returns the state of the cluster and of each node, as values for JSON.

        The state of a node is whether it is running, whether it is registered, and how many partitions it leads.
        """
        cluster = self._cluster
        views = cluster.views() if offers(cluster, Viewed) else []
        now = newest(views)
        leaders = [partition.leader for partition in now.partitions.values()]
        return {
            **asdict(self._state),
            "bootstrap": cluster.bootstrap,
            "outside_bootstrap": getattr(cluster, "outside_bootstrap", ""),
            "nodes": [
                {
                    "name": name,
                    "running": cluster.running(name) if offers(cluster, Processes) else None,
                    "registered": number in now.brokers,
                    "leads": leaders.count(number),
                }
                for number, name in enumerate(cluster.nodes, start=1)
            ],
            "beside": [name for name in servers(cluster) if name not in cluster.nodes],
            "trouble": heal.trouble(cluster),
            "held": str(self._hold) if self._hold is not None else "",
            "left_topics_of": [run for run in self._left_runs if self._hold is None or run != self._hold.run],
        }

    # --- runs -----------------------------------------------------------------------------------------

    def _serve_run(self, end: socket.socket, request: Mapping[str, Any]) -> None:
        """Serves a run from its `hold` request until it releases the cluster or ends."""
        hold = Hold(request["run"], request["owner"], request["cwd"], _now())
        hold_answer = rpc.answered(lambda: self._reserve(hold))
        if "raise" in hold_answer:
            json_messages.send(end, hold_answer)
            return
        try:
            ready_answer = rpc.answered(lambda: self._begin(lambda text: json_messages.send(end, {"say": text})))
            json_messages.send(end, ready_answer)
            self._left_runs.append(hold.run)
            with suppress(Closed):
                rpc.receive(end)
        finally:
            hold.released = True
            release_answer = rpc.answered(lambda: self._end(hold))
            with self._hold_changed:
                self._hold = None
                self._hold_changed.notify_all()
            with suppress(OSError):
                json_messages.send(end, release_answer)

    def _reserve(self, hold: Hold) -> None:
        """Reserves the cluster for a run. Raises BadInput if another run uses it.

        If the other run has ended, but its processes and faults are still being cleaned up, waits until this is done.
        """
        deadline = time.monotonic() + _CLEANUP_S
        with self._hold_changed:
            while self._hold is not None:
                holder = self._hold
                if not (holder.released or not process_owner.in_use(holder.owner)) or time.monotonic() > deadline:
                    raise BadInput(
                        f"the cluster {self._state.name} is in use by {holder}: wait until it has ended, "
                        "or start another cluster: harness cluster up NAME"
                    )
                self._hold_changed.wait(1.0)
            self._hold = hold

    def _begin(self, say: Callable[[str], None]) -> dict[str, Any]:
        heal.make_healthy(self._cluster, self._prepared, say)
        return {"left": list(self._left_runs)}

    def _end(self, hold: Hold) -> None:
        """Ends the processes that a run started, and heals its faults."""
        for child in hold.children.values():
            child.signal(signal.SIGKILL)
        for child in hold.children.values():
            child.wait(_KILL_S)
        if offers(self._cluster, Wire):
            for name in hold.rules:
                self._cluster.clear_rules(name)
        heal.make_healthy(self._cluster, self._prepared, _print)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _print(text: str) -> None:
    print(f"{_now()} {text}", flush=True)


# --- the process --------------------------------------------------------------------------------------


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str]) -> int:
    """Creates the cluster NAME, and serves requests until `down` or SIGTERM; returns 0, or an error's exit code."""
    from harness.plan import plan_file
    from harness.run import make_cluster

    name, number = argv
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    starter = os.fdopen(int(number), "wb", buffering=0)

    def say(text: str) -> None:
        _print(text)
        with suppress(OSError):
            starter.write(orjson.dumps({"say": text}, option=orjson.OPT_APPEND_NEWLINE))

    folder = client.folder(name)
    cluster: Cluster | None = None
    try:
        plan = plan_file.load(folder / client.PLAN)
        prepared = make_cluster.prepared(make_cluster.resolved(plan))
        cluster = make_cluster.make(plan, folder / "cluster", say, prepared)
        cluster.up(say)
        state = State(name, plan.cluster, process_owner.owner(os.getpid()), _now())
        with rpc.listen(folder / client.SOCKET) as listener:
            client.write(state)
            starter.close()
            keeper = Keeper(cluster, state, prepared)
            keeper.serve(listener)
    except HarnessError as error:
        _print(str(error))
        with suppress(OSError, ValueError):
            failure = {"error": str(error), "code": error.exit_code}
            starter.write(orjson.dumps(failure, option=orjson.OPT_APPEND_NEWLINE))
        return error.exit_code
    except KeyboardInterrupt:
        _print("received SIGTERM")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if cluster is not None:
            with suppress(HarnessError):
                cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
