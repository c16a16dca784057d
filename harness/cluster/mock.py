"""librdkafka's mock cluster as a system under test: brokers without a JVM, ready in a fraction of a second.

The mock cluster and the workers are child processes of a supervisor without network namespaces. The mock cluster's
transactions succeed, but violate the guarantees: aborted records are visible to read_committed, and no producer is
fenced. So it serves as a target with known bugs. It has no server processes to kill and no network to partition, so it
satisfies only Cluster, Hosts and Logs (harness.model.capabilities).
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.cluster.local import namespaces, remote_process
from harness.cluster.local.remote_process import RemoteChild
from harness.cluster.local.supervisor_client import Control
from harness.cluster.spec import ClusterSpec
from harness.model.capabilities import CommandResult
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble

_START_TIMEOUT_S = 30.0
_METADATA_TIMEOUT_S = 20.0
_MAX_NODES = 30


def make(spec: ClusterSpec) -> MockCluster:
    """Returns a mock cluster, which has not been started. Raises BadInput."""
    return MockCluster(spec.nodes, spec.work_dir)


class MockCluster:
    """librdkafka's mock brokers on ports of 127.0.0.1. `bootstrap` is empty until `up` has returned.

    work_dir  folder for the log file mock.log, which `down` removes; None: a temporary folder
    """

    def __init__(self, nodes: int = 3, work_dir: Path | None = None) -> None:
        if not 1 <= nodes <= _MAX_NODES:
            raise BadInput(f"--nodes {nodes}: must be from 1 to {_MAX_NODES}")
        self.nodes = tuple(f"n{i}" for i in range(1, nodes + 1))
        self.bootstrap = ""
        self._own = tempfile.TemporaryDirectory(prefix="mock-") if work_dir is None else None
        self._log = Path(self._own.name if self._own else work_dir or ".") / "mock.log"
        self._control: Control | None = None

    def up(self, progress: Callable[[str], None]) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._control = Control(isolated=False, log=self._log)
        read_end, write_end = os.pipe()
        try:
            argv = [sys.executable, "-m", "harness.cluster.mock", str(len(self.nodes))]
            env = {"PYTHONPATH": namespaces.python_path()}
            self.spawn("mock", argv, env, [write_end], str(self._log))
            os.close(write_end)
            write_end = -1
            ready = select.select([read_end], [], [], _START_TIMEOUT_S)[0]
            self.bootstrap = os.read(read_end, 1 << 16).decode() if ready else ""
        finally:
            os.close(read_end)
            if write_end >= 0:
                os.close(write_end)
        if not self.bootstrap:
            raise ClusterTrouble(f"the mock cluster did not start; see {self._log} for the reason")
        progress(f"{len(self.nodes)} mock brokers at {self.bootstrap}")

    def down(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
            self._log.unlink(missing_ok=True)
        if self._own is not None:
            self._own.cleanup()

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        return remote_process.run(self._up(), node, argv, timeout_s)

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> RemoteChild:
        """Starts a process on this machine, for any `host`. `env` is added to this process's environment."""
        return remote_process.spawn(self._up(), host, argv, env, fds, log)

    def collect(self, folder: str) -> None:
        """Copies the mock cluster's log to `folder`. There is one log for all nodes."""
        if self._log.exists():
            Path(folder).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._log, Path(folder) / "mock.log")

    def _up(self) -> Control:
        if self._control is None:
            raise ClusterTrouble("the cluster is not up")
        return self._control


def main(argv: Sequence[str]) -> int:
    """`python -m harness.cluster.mock COUNT`: serves until killed. Writes the bootstrap servers to descriptor 3."""
    from confluent_kafka import Producer

    # The mock is part of a client; other clients find its brokers through the metadata.
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": int(argv[0])})
    brokers = producer.list_topics(timeout=_METADATA_TIMEOUT_S).brokers
    os.write(3, ",".join(f"{b.host}:{b.port}" for _, b in sorted(brokers.items())).encode())
    os.close(3)
    while True:
        producer.poll(60.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
