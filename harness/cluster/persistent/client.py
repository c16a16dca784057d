"""Persistent clusters, client side: `harness cluster up NAME` starts one, and runs use it as local:NAME.

    <cache>/clusters/NAME/   plan.yaml    the cluster's plan
                             state.json   owner and start time; exists once the cluster is up
                             socket       where the keeper process (`harness.persistent.server`) accepts calls
                             keeper.log   output of the keeper
                             cluster/     the cluster's working directory

The keeper owns the cluster's supervisor and all its descendants. To a run, the cluster is a `NamedCluster`
(`harness.cluster.persistent.named_cluster`), whose methods call the keeper.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.cluster.distribution import download_cache
from harness.cluster.local import process_owner
from harness.cluster.persistent import rpc
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble

CALL_TIMEOUT_S: Final = 200.0
DEFAULT: Final = "default"
SOCKET: Final = "socket"
STATE: Final = "state.json"
PLAN: Final = "plan.yaml"
LOG: Final = "keeper.log"


@dataclass(frozen=True, slots=True)
class State:
    """The state of a cluster, as stored in state.json.

    kind   kind of cluster, as in --cluster
    owner  owner text of the keeper process (`process_owner`)
    since  start time, UTC
    """

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
    """Returns the folder of the cluster with this name."""
    return download_cache.root() / "clusters" / name


def write(state: State) -> None:
    """Writes the state of a cluster atomically."""
    path = folder(state.name) / STATE
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(asdict(state)))
    temporary.replace(path)


def read(name: str) -> State | None:
    """Returns the state of a cluster, whether or not the cluster is up; None if there is no state file (yet)."""
    try:
        return State(**json.loads((folder(name) / STATE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def names() -> list[str]:
    """Returns the names of all clusters that have a folder, whether or not they are up."""
    clusters = download_cache.root() / "clusters"
    return sorted(path.name for path in clusters.iterdir() if path.is_dir()) if clusters.is_dir() else []


def alive() -> list[State]:
    """Returns the states of the clusters that are up."""
    return [state for name in names() if (state := read(name)) is not None and state.alive]


def find(name: str = "", kind: str = "") -> State:
    """Returns the state of the cluster that is up and has this name and kind.

    An empty `name` stands for any name, an empty `kind` for any kind. Raises BadInput if no such cluster, or more than
    one, is up.
    """
    up = [state for state in alive() if kind in ("", state.kind)]
    fitting = [state for state in up if name in ("", state.name)]
    if len(fitting) == 1:
        return fitting[0]
    names_up = ", ".join(f"{state.kind}:{state.name}" for state in up)
    if fitting:
        raise BadInput(f"several clusters are up ({names_up}): give the name of one")
    of_kind = "" if kind in ("", "local") else f" --cluster {kind}"
    start = f"start it with: harness cluster up{of_kind} {name or DEFAULT}"
    what = f"no {kind + ' ' if kind else ''}cluster {f'{name} ' if name else ''}is up"
    raise BadInput(f"{what} ({f'running: {names_up}' if up else 'none is running'}): {start}")


def call(name: str, do: str, fds: Sequence[int] = (), timeout_s: float = CALL_TIMEOUT_S, **more: Any) -> Any:
    """Sends a request to a cluster's keeper process; returns the answer.

    do    the kind of request: see `harness.persistent.server`
    more  further fields of the request

    Raises the error that the keeper raised, or ClusterTrouble if the keeper does not answer.
    """
    return rpc.call(folder(name) / SOCKET, {"do": do, **more}, fds, timeout_s)


def call_method(name: str, method: str, *arguments: Any) -> Any:
    """Calls a method of the persistent cluster; returns its result.

    Raises the error that the method raised, or ClusterTrouble if the keeper does not answer.
    """
    return call(name, "call", method=method, arguments=arguments)


@dataclass(slots=True)
class KeeperChild:
    """A process that the keeper has started for this run. `pid` is the pid in the supervisor's pid namespace."""

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
