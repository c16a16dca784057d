"""The process that keeps a cluster for many runs: `python -m harness.persistent.server NAME FD`.

It makes the cluster that clusters/NAME/plan.yaml describes, and takes calls on a socket
(`harness.cluster.persistent.rpc`): one request and its answer a connection, but for `hold`, whose connection lasts as
long as the run holds the cluster. When that ends, in whatever way, what the run started is ended and what it
broke is mended.

FD takes what there is to say at the start, in JSON lines: {"say": ...}, {"error": ..., "code": ...}

Requests, by `do`:

    describe                       what `NamedCluster` has to know of the cluster: capabilities, nodes, addresses
    call     method, arguments      what a method of the cluster gives
    spawn    host, argv, env, log + descriptors   the number of a process; a `guest` outlives the run
    signal   pid, number
    wait     pid, within_s         its exit code, or None
    hold     run, owner, cwd       "say" while it heals, then {"left": [runs with topics]}; `release` ends it
    forget   runs                  their topics are gone
    status                         see `Keeper.status`
    down     force                 end everything; refused while held, unless forced
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

CAPABILITIES: Final = (*capabilities.ALL, Viewed, Coordinated)
_REQUEST_S: Final = 30.0
_WAIT_MAX_S: Final = 3600.0
_ENDED_S: Final = 5.0
_LETTING_GO_S: Final = 150.0


@dataclass(slots=True)
class Hold:
    """A run that has the cluster: its process, where it was started, since when (UTC)."""

    run: str
    owner: str
    cwd: str
    since: str
    children: dict[int, Child] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    let_go: bool = False

    def __str__(self) -> str:
        return f"run {self.run} (pid {process_owner.pid_of(self.owner)}, since {self.since}, in {self.cwd})"


class Keeper:
    """Takes requests; a thread for each connection."""

    def __init__(self, cluster: Cluster, state: State, prepared: frozenset[type]) -> None:
        self._cluster, self._state, self._prepared = cluster, state, prepared
        self._hold: Hold | None = None
        self._free = threading.Condition()
        self._left: list[str] = []
        self._guests: dict[int, Child] = {}
        self.ended = threading.Event()

    def serve(self, listener: socket.socket) -> None:
        """Until `down`."""
        while not self.ended.is_set():
            listener.settimeout(0.5)
            with suppress(TimeoutError):
                end, _ = listener.accept()
                threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        """One connection; whoever is not our user hears nothing."""
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
                self._left = [run for run in self._left if run not in request["runs"]]
            case "status":
                return self.status()
            case "down":
                if self._hold is not None and not request["force"]:
                    raise BadInput(f"the cluster {self._state.name} is held by {self._hold}: --force ends it")
                self.ended.set()
            case verb:
                raise BadInput(f"the keeper knows no {verb!r}")
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
            raise BadInput(f"{name} is not a cluster's to call")
        if name == "apply_rules" and self._hold is not None:
            self._hold.rules.add(arguments[0])
        return getattr(self._cluster, name)(*arguments)

    def _spawn(self, request: Mapping[str, Any], fds: Sequence[int]) -> int:
        assert isinstance(self._cluster, Hosts)
        hold = self._hold
        if hold is None and not request.get("guest"):
            raise ClusterTrouble("no run holds the cluster")
        child = self._cluster.spawn(request["host"], request["argv"], request["env"], fds, request["log"])
        theirs = self._guests if hold is None or request.get("guest") else hold.children
        theirs[child.pid] = child
        return child.pid

    def _child(self, pid: int) -> Child:
        everyone = {**self._guests, **(self._hold.children if self._hold is not None else {})}
        if pid not in everyone:
            raise ClusterTrouble(f"no process {pid} of this run")
        return everyone[pid]

    def status(self) -> dict[str, Any]:
        """State, the nodes, who is registered, how many partitions each leads, who holds it."""
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
            "left_topics_of": [run for run in self._left if self._hold is None or run != self._hold.run],
        }

    # --- runs -----------------------------------------------------------------------------------------

    def _serve_run(self, end: socket.socket, request: Mapping[str, Any]) -> None:
        """From a run's first word to its last, or to its end."""
        hold = Hold(request["run"], request["owner"], request["cwd"], _now())
        taken = rpc.answered(lambda: self._take(hold))
        if "raise" in taken:
            json_messages.send(end, taken)
            return
        try:
            began = rpc.answered(lambda: self._begin(lambda text: json_messages.send(end, {"say": text})))
            json_messages.send(end, began)
            self._left.append(hold.run)
            with suppress(Closed):
                rpc.receive(end)
        finally:
            hold.let_go = True
            freed = rpc.answered(lambda: self._end(hold))
            with self._free:
                self._hold = None
                self._free.notify_all()
            with suppress(OSError):
                json_messages.send(end, freed)

    def _take(self, hold: Hold) -> None:
        """Raises BadInput while another run has it; waits for one that is gone and being cleared up after."""
        deadline = time.monotonic() + _LETTING_GO_S
        with self._free:
            while self._hold is not None:
                holder = self._hold
                if not (holder.let_go or not process_owner.in_use(holder.owner)) or time.monotonic() > deadline:
                    raise BadInput(
                        f"the cluster {self._state.name} is held by {holder}: wait for it, "
                        "or start another: harness cluster up NAME"
                    )
                self._free.wait(1.0)
            self._hold = hold

    def _begin(self, say: Callable[[str], None]) -> dict[str, Any]:
        heal.make_healthy(self._cluster, self._prepared, say)
        return {"left": list(self._left)}

    def _end(self, hold: Hold) -> None:
        """End what the run started, and mend what it broke."""
        for child in hold.children.values():
            child.signal(signal.SIGKILL)
        for child in hold.children.values():
            child.wait(_ENDED_S)
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
    """See the module's text."""
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
        _print("asked to end")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if cluster is not None:
            with suppress(HarnessError):
                cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
