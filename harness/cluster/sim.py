"""The simulated log as a system under test: no broker, no JVM, ready at once, with bugs that can be switched on.

The simulated log is part of the single worker process that all clients share (`harness.sim.queue.client`), so this
cluster only starts that worker. It has nothing to kill, pause or partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.cluster.local import remote_process
from harness.cluster.local.remote_process import RemoteChild
from harness.cluster.local.supervisor_client import Control
from harness.cluster.spec import ClusterSpec
from harness.model.capabilities import CommandResult
from harness.model.errors_and_exit_codes import ClusterTrouble


def make(spec: ClusterSpec) -> SimCluster:
    """Returns a cluster for a simulated log, which has not been started."""
    return SimCluster(spec.work_dir)


class SimCluster:
    """Satisfies the protocols Cluster and Hosts (harness.model.capabilities)."""

    nodes: tuple[str, ...] = ("n1",)
    bootstrap = "simulated"

    def __init__(self, work_dir: Path) -> None:
        self._work_dir = work_dir
        self._control: Control | None = None

    def up(self, progress: Callable[[str], None]) -> None:
        self._work_dir.mkdir(parents=True, exist_ok=True)
        self._control = Control(isolated=False, log=self._work_dir / "supervisor.log")
        progress("simulated log, no broker")

    def down(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        return remote_process.run(self._up(), node, argv, timeout_s)

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Starts a process on this machine, for any `host`. `env` is added to this process's environment."""
        return remote_process.spawn(self._up(), host, argv, env, fds, log)

    def _up(self) -> Control:
        if self._control is None:
            raise ClusterTrouble("the simulated cluster is not up")
        return self._control
