"""Slow disks on the local cluster: one `harness.cluster.local.freeze_disk` process for each affected node."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from harness.cluster.local import helper_process
from harness.cluster.local.helper_process import Helper, Spawn
from harness.model.errors_and_exit_codes import ClusterTrouble


class Stalls:
    """The slow disks of one cluster. Thread-safe."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._slow: dict[str, Helper] = {}
        self._lock = threading.Lock()

    def begin(self, node: str, at: str, stall_s: float, gap_s: float) -> None:
        """Makes the disk of `node` slow: it stalls for `stall_s`, accepts writes for `gap_s`, stalls again, and so on.

        at  mount point of the disk

        Raises ClusterTrouble with the kernel's reason if the disk cannot be frozen.
        """
        with self._lock:
            self._end([node])
            self._slow[node] = helper_process.start(
                self._spawn,
                "harness.cluster.local.freeze_disk",
                [at, str(stall_s), str(gap_s)],
                f"a slow disk of {node}",
            )

    def end(self) -> None:
        """Makes all disks fast again.

        If this fails for one disk, continues with the others, and then raises ClusterTrouble.
        """
        with self._lock:
            self._end(list(self._slow))

    def _end(self, nodes: Sequence[str]) -> None:
        stuck = [node for node in nodes if node in self._slow and not self._slow.pop(node).close()]
        if stuck:
            raise ClusterTrouble(f"the disks of {', '.join(stuck)} may still be frozen: take the cluster down")
