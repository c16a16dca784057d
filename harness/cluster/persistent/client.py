"""Clusters that stay: `harness cluster up NAME` starts one, and runs use it as local:NAME.

    <cache>/clusters/NAME/   plan.yaml    what it is
                             state.json   whose it is and since when; there once it is up
                             socket       where its keeper (`harness.persistent.server`) takes calls
                             keeper.log   what the keeper says
                             cluster/     the cluster's own folder

The keeper holds the supervisor and everything below it, and does for a run what a cluster of the run's own
would do: `NamedCluster` has each method that the kept cluster has, and so its capabilities.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.cluster.distribution import download_cache
from harness.cluster.local import namespaces, process_owner
from harness.cluster.persistent import rpc
from harness.model.capabilities import CommandResult
from harness.model.errors import BadInput, ClusterTrouble, Missing

CALL_TIMEOUT_S: Final = 200.0
HOLD_TIMEOUT_S: Final = 200.0
DEFAULT: Final = "default"
SOCKET: Final = "socket"
STATE: Final = "state.json"
PLAN: Final = "plan.yaml"
LOG: Final = "keeper.log"
# What differs between a cluster of a run's own and one that stays.
_OWN: Final = frozenset({"up", "down", "spawn", "run", "collect"})


@dataclass(frozen=True, slots=True)
class State:
    """kind: as in --cluster; owner: the keeper (`owners`); since: UTC."""

    name: str
    kind: str
    owner: str
    since: str

    @property
    def alive(self) -> bool:
        return process_owner.in_use(self.owner)

    @property
    def pid(self) -> int:
        return process_owner.pid_of(self.owner)


def folder(name: str) -> Path:
    """Where a cluster of that name has its files."""
    return download_cache.root() / "clusters" / name


def write(state: State) -> None:
    """In one step: a reader sees all of it or nothing."""
    path = folder(state.name) / STATE
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(asdict(state)))
    temporary.replace(path)


def read(name: str) -> State | None:
    """The state of a cluster, alive or left over; None when there is none, or not yet."""
    try:
        return State(**json.loads((folder(name) / STATE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def names() -> list[str]:
    """Every cluster that has files, alive or not."""
    clusters = download_cache.root() / "clusters"
    return sorted(path.name for path in clusters.iterdir() if path.is_dir()) if clusters.is_dir() else []


def alive() -> list[State]:
    """Clusters that are up."""
    return [state for name in names() if (state := read(name)) is not None and state.alive]


def find(name: str = "", kind: str = "") -> State:
    """The cluster of that name, or the only one that is up. Raises BadInput."""
    up = [state for state in alive() if kind in ("", state.kind)]
    found = [state for state in up if name in ("", state.name)]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{state.kind}:{state.name}" for state in up)
    if found:
        raise BadInput(f"several clusters are up ({there}): name one")
    of_kind = "" if kind in ("", "local") else f" --cluster {kind}"
    start = f"start it: harness cluster up{of_kind} {name or DEFAULT}"
    what = f"no {kind + ' ' if kind else ''}cluster {name or 'of a name'} is up"
    raise BadInput(f"{what} ({f'up: {there}' if up else 'none is'}): {start}")


def call(name: str, do: str, fds: Sequence[int] = (), timeout_s: float = CALL_TIMEOUT_S, **more: Any) -> Any:
    """A request to a cluster's keeper. Raises what the keeper raised, or ClusterTrouble."""
    return rpc.call(folder(name) / SOCKET, {"do": do, **more}, fds, timeout_s)


@dataclass(slots=True)
class KeptChild:
    """A process that the keeper's cluster started for us. `pid` is its number in there."""

    pid: int
    cluster: str
    _code: int | None = None

    def signal(self, number: int) -> None:
        if self._code is None:
            with suppress(ClusterTrouble):
                call(self.cluster, "signal", pid=self.pid, number=int(number))

    def poll(self) -> int | None:
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> int | None:
        if self._code is None:
            self._code = call(
                self.cluster, "wait", timeout_s=timeout_s + CALL_TIMEOUT_S, pid=self.pid, within_s=timeout_s
            )
        return self._code


class NamedCluster:
    """Satisfies what the kept cluster satisfies, by asking its keeper.

    run        who holds it from `up` to `down`; a second one is refused
    left_runs  runs whose topics are still there, once up
    """

    nodes: tuple[str, ...]
    bootstrap: str

    def __init__(self, state: State, run: str) -> None:
        self.name, self.left_runs = state.name, tuple[str, ...]()
        self._run = run
        self._held: socket.socket | None = None
        told: Mapping[str, Any] = call(state.name, "describe")
        for name, value in told["values"].items():
            setattr(self, name, value)
        for name in told["methods"]:
            if name not in _OWN:
                setattr(self, name, partial(self._call, name))
        if "collect" in told["methods"]:
            self.collect = self._collect

    def _call(self, name: str, *args: Any, **more: Any) -> Any:
        return call(self.name, "call", method=name, args=args, more=more)

    def up(self, progress: Callable[[str], None]) -> None:
        """Hold it, and return when it is healed and healthy. Raises BadInput when another run holds it."""
        held = rpc.connect(folder(self.name) / SOCKET, HOLD_TIMEOUT_S)
        try:
            mine = {"run": self._run, "owner": process_owner.owner(os.getpid()), "cwd": str(Path.cwd())}
            rpc.send(held, {"do": "hold", **mine})
            while True:
                (kind, value), _ = rpc.receive(held)
                if kind == "say":
                    progress(value)
                elif kind == "raise":
                    raise value
                else:
                    break
        except (rpc.Closed, TimeoutError) as error:
            held.close()
            raise ClusterTrouble(f"the cluster {self.name}: its keeper does not answer ({error})") from None
        except BaseException:
            held.close()
            raise
        self.left_runs = tuple(value["left"])
        self._held = held
        progress(f"{len(self.nodes)} brokers of {self.name}, healthy")

    def down(self) -> None:
        """Let it go, healed, for others. Safe to repeat. Raises ClusterTrouble when it does not heal."""
        held, self._held = self._held, None
        if held is None:
            return
        with held:
            try:
                rpc.send(held, {"do": "release"})
                (kind, value), _ = rpc.receive(held)
            except (rpc.Closed, OSError) as error:
                raise ClusterTrouble(f"the cluster {self.name}: its keeper is gone ({error})") from None
            if kind == "raise":
                raise value

    def forget(self, runs: Sequence[str]) -> None:
        """The topics of these runs are gone, or are to stay."""
        call(self.name, "forget", runs=list(runs))

    def spawn(self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str) -> KeptChild:
        """Start a process on a host, in this process's environment and `env`."""
        everything = {**os.environ, "PYTHONPATH": namespaces.python_path(), **env}
        path = str(Path(log).absolute())
        pid = call(self.name, "spawn", fds, host=host, argv=list(argv), env=everything, log=path)
        return KeptChild(int(pid), self.name)

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command where the node runs."""
        result: CommandResult = self._call("run", node, list(argv), timeout_s)
        return result

    def _collect(self, target: str) -> None:
        self._call("collect", str(Path(target).absolute()))


def attach(name: str, kind: str, run: str) -> NamedCluster:
    """The cluster of that name, for a run. Raises BadInput, or Missing when its keeper does not answer."""
    state = find(name, kind)
    try:
        return NamedCluster(state, run)
    except ClusterTrouble as error:
        raise Missing(f"{error}: harness cluster down {name}, then up again") from None
