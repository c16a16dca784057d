"""Accesses the files of a local cluster's nodes, for disk and data faults.

The files may be visible only in the supervisor's mount namespace. Therefore programs that run there do the work:
`harness.cluster.local.disks`, `harness.cluster.local.file_damage`, `harness.cluster.local.log_folders`,
`harness.cluster.local.copy_data` and `harness.cluster.local.copy_metadata`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DISK_BYTES: Final = 4 << 30  # an upper bound: the file is sparse


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Access to the files of all nodes.

    folders  node name -> folder of the node
    inside   runs a module in the mount namespace and returns its output, or raises ClusterTrouble
    root     root directory of the mount namespace, as a path that this process can use
    """

    folders: Mapping[str, Path]
    inside: Callable[..., str]
    root: Path = Path("/")

    def data(self, node: str) -> str:
        return str(self.folders[node] / "data")

    def here(self, node: str) -> Path:
        """Returns a node's data folder, as a path that this process can use."""
        return self.root / self.data(node).lstrip("/")

    def image(self, node: str) -> str:
        return str(self.folders[node] / "disk.img")

    def make_disks(self) -> None:
        """Creates a disk for every node, copies the node's data folder to it, and mounts it at this folder."""
        rows = [(self.image(node), self.data(node), str(DISK_BYTES)) for node in self.folders]
        self._disks("make", *(each for row in rows for each in row))

    def log_bytes(self, nodes: Sequence[str]) -> dict[str, int]:
        """Returns node -> total size of its log segments, in bytes."""
        return self._counted("sizes", nodes)

    def cut(self, nodes: Sequence[str]) -> None:
        """Cuts the power of these nodes' disks: from now on, no write reaches the disks."""
        self._disks("cut", *map(self.data, nodes))

    def mount_again(self, nodes: Sequence[str]) -> None:
        """Mounts the disks again. Only what was synced before the power cut is left on them.

        The nodes' servers must have ended.
        """
        self._disks("again", *(each for node in nodes for each in (self.image(node), self.data(node))))

    def fill(self, nodes: Sequence[str]) -> dict[str, int]:
        """Fills the disks completely; returns node -> how many bytes were free."""
        return self._counted("fill", nodes)

    def free(self, nodes: Sequence[str]) -> None:
        """Frees the space that `fill` took."""
        self._disks("free", *map(self.data, nodes))

    def write_ms(self, node: str) -> list[float]:
        """Returns the latencies, in ms, of small synced writes to a node's disk, spread over about a second."""
        took: list[float] = json.loads(self._disks("write", self.data(node), "15", "0.05"))
        return took

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> dict[str, Any]:
        """Damages the files of a stopped node; returns what was done.

        kind          see `harness.cluster.local.file_damage`
        topic_prefix  files of topics are damaged only if the names of the topics begin with this text
        seed          determines the random choices
        """
        output = self.inside("harness.cluster.local.file_damage", kind, self.data(node), topic_prefix, str(seed))
        done: dict[str, Any] = json.loads(output)
        return done

    def look(self, node: str, topic_prefix: str) -> dict[str, Any]:
        """Describes the logs on a node, for topics whose names begin with `topic_prefix`.

        See `harness.cluster.local.log_folders` for the format.
        """
        found: dict[str, Any] = json.loads(
            self.inside("harness.cluster.local.log_folders", self.data(node), topic_prefix)
        )
        return found

    def keep(self, folder: str, topic_prefix: str, most: int, nodes: Sequence[str]) -> dict[str, Any]:
        """Copies data of several nodes to `folder`, for topics whose names begin with `topic_prefix`.

        Copies at most `most` bytes. Returns the total size, and which partitions were left out: see
        `harness.cluster.local.copy_data`.
        """
        rows = [f"{node}={self.data(node)}" for node in nodes]
        done: dict[str, Any] = json.loads(
            self.inside("harness.cluster.local.copy_data", folder, topic_prefix, str(most), *rows)
        )
        return done

    def keep_metadata(self, folder: str, most: int, nodes: Sequence[str]) -> dict[str, Any]:
        """Copies the metadata logs of several nodes to `folder`. See `harness.cluster.local.copy_metadata`."""
        rows = [f"{node}={self.data(node)}" for node in nodes]
        done: dict[str, Any] = json.loads(self.inside("harness.cluster.local.copy_metadata", folder, str(most), *rows))
        return done

    def _disks(self, verb: str, *arguments: str) -> str:
        return self.inside("harness.cluster.local.disks", verb, *arguments)

    def _counted(self, verb: str, nodes: Sequence[str]) -> dict[str, int]:
        by_folder = json.loads(self._disks(verb, *map(self.data, nodes)))
        return {node: by_folder[self.data(node)] for node in nodes}
