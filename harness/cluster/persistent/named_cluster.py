"""A persistent cluster as a run sees it: every method of a capability calls the cluster's keeper process.

The class has the methods of all capabilities. The keeper reports which capabilities the cluster really has. The
attribute `capabilities` lists them, and `harness.model.capabilities.offers` uses that list.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.cluster.json_messages import Closed
from harness.cluster.local import namespaces, process_owner
from harness.cluster.persistent import client, rpc
from harness.cluster.persistent.client import KeeperChild, State
from harness.model.capabilities import STOP_S, CommandResult, LinkCounts, LinkQuality, LogDir
from harness.model.errors_and_exit_codes import ClusterTrouble, Missing
from harness.model.wire_rules import Rule, RuleCounts, Traffic
from harness.protocol.brokers_metadata_views import View
from harness.protocol.error_codes import TopicPartition

HOLD_TIMEOUT_S: Final = 200.0


class NamedCluster:
    """Satisfies the protocols Cluster and Hosts, and those named in `capabilities` (harness.model.capabilities).

    capabilities  names of the capabilities that the persistent cluster has
    run           name of the run that uses the cluster; from `up` to `down` other runs are refused
    left_runs     the earlier runs whose topics still exist; empty until `up` has returned
    """

    def __init__(self, state: State, run: str) -> None:
        self.name, self.left_runs = state.name, tuple[str, ...]()
        self._run_name = run
        self._hold: socket.socket | None = None
        description = client.call(state.name, "describe")
        self.capabilities = frozenset(description["capabilities"])
        self.nodes: tuple[str, ...] = description["nodes"]
        self.metadata_servers: tuple[str, ...] = description["metadata_servers"]
        self.bootstrap: str = description["bootstrap"]
        self.direct_bootstrap: str = description["direct_bootstrap"]
        self.outside_bootstrap: str = description["outside_bootstrap"]

    def _call(self, method: str, *arguments: Any) -> Any:
        return client.call_method(self.name, method, *arguments)

    # --- reserving the cluster ------------------------------------------------------------------------

    def up(self, progress: Callable[[str], None]) -> None:
        """Reserves the cluster for this run. Returns when the keeper process has undone earlier faults.

        The cluster is then healthy. Raises BadInput if another run uses the cluster, ClusterTrouble if the keeper does
        not answer.
        """
        hold = rpc.connect(client.folder(self.name) / client.SOCKET, HOLD_TIMEOUT_S)
        try:
            owner = process_owner.owner(os.getpid())
            rpc.send(hold, {"do": "hold", "run": self._run_name, "owner": owner, "cwd": str(Path.cwd())})
            answer, _ = rpc.receive(hold)
            while "say" in answer:
                progress(answer["say"])
                answer, _ = rpc.receive(hold)
            self.left_runs = tuple(rpc.value(answer)["left"])
        except (Closed, TimeoutError) as error:
            hold.close()
            raise ClusterTrouble(f"the cluster {self.name}: its keeper does not answer ({error})") from None
        except BaseException:
            hold.close()
            raise
        self._hold = hold
        progress(f"the {len(self.nodes)} brokers of {self.name} are healthy")

    def down(self) -> None:
        """Releases the cluster; the keeper process then undoes the run's faults. May be called more than once.

        Raises ClusterTrouble if the cluster does not become healthy.
        """
        hold, self._hold = self._hold, None
        if hold is None:
            return
        with hold:
            try:
                rpc.send(hold, {"do": "release"})
                answer, _ = rpc.receive(hold)
            except (Closed, OSError) as error:
                raise ClusterTrouble(f"the cluster {self.name}: its keeper has ended ({error})") from None
            rpc.value(answer)

    def forget(self, runs: Sequence[str]) -> None:
        """Removes earlier runs from `left_runs`, the keeper's list of runs whose topics still exist.

        runs  runs whose topics have been deleted, or are to be kept
        """
        client.call(self.name, "forget", runs=list(runs))

    # --- Cluster, Hosts, OwnAddresses -----------------------------------------------------------------

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Runs a command on a node's host."""
        result: CommandResult = self._call("run", node, list(argv), timeout_s)
        return result

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> KeeperChild:
        """Starts a process on a host. `env` is added to this process's environment."""
        environment = {**os.environ, "PYTHONPATH": namespaces.python_path(), **env}
        path = str(Path(log).absolute())
        pid = client.call(self.name, "spawn", fds, host=host, argv=list(argv), env=environment, log=path)
        return KeeperChild(int(pid), self.name)

    def host(self, name: str) -> str:
        return str(self._call("host", name))

    # --- Processes, MetadataServers, Brokers, and metadata views --------------------------------------

    def kill(self, node: str) -> None:
        self._call("kill", node)

    def stop(self, node: str, within_s: float = STOP_S) -> None:
        self._call("stop", node, within_s)

    def pause(self, node: str) -> None:
        self._call("pause", node)

    def resume(self, node: str) -> None:
        self._call("resume", node)

    def start(self, node: str) -> None:
        self._call("start", node)

    def running(self, node: str) -> bool:
        return bool(self._call("running", node))

    def silent(self) -> Sequence[str]:
        names: Sequence[str] = self._call("silent")
        return names

    def views(self) -> list[View]:
        views: list[View] = self._call("views")
        return views

    def controller(self) -> int | None:
        broker: int | None = self._call("controller")
        return broker

    def coordinator(self, role: str, name: str) -> int | None:
        broker: int | None = self._call("coordinator", role, name)
        return broker

    # --- Network, Links -------------------------------------------------------------------------------

    def drop(self, at: str, sources: Sequence[str]) -> None:
        self._call("drop", at, list(sources))

    def heal(self) -> None:
        self._call("heal")

    def dropped(self, at: str) -> int:
        return int(self._call("dropped", at))

    def degrade(self, hosts: Sequence[str], quality: LinkQuality, seed: int) -> None:
        self._call("degrade", list(hosts), quality, seed)

    def restore(self) -> None:
        self._call("restore")

    def link_counts(self, at: str) -> LinkCounts:
        counts: LinkCounts = self._call("link_counts", at)
        return counts

    def round_trip_ms(self, at: str) -> float | None:
        median_ms: float | None = self._call("round_trip_ms", at)
        return median_ms

    # --- Wire -----------------------------------------------------------------------------------------

    def apply_rules(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        self._call("apply_rules", name, list(rules), seed)

    def rule_counts(self, name: str) -> Sequence[RuleCounts]:
        counts: Sequence[RuleCounts] = self._call("rule_counts", name)
        return counts

    def clear_rules(self, name: str) -> Sequence[RuleCounts]:
        counts: Sequence[RuleCounts] = self._call("clear_rules", name)
        return counts

    def wire_traffic(self) -> Traffic:
        traffic: Traffic = self._call("wire_traffic")
        return traffic

    # --- Clocks ---------------------------------------------------------------------------------------

    def set_clock(self, node: str, ahead_s: float) -> None:
        self._call("set_clock", node, ahead_s)

    def strobe_clock(self, node: str, ahead_s: float, every_s: float) -> None:
        self._call("strobe_clock", node, ahead_s, every_s)

    def clock_ahead_s(self, node: str) -> tuple[float, float] | None:
        bounds: tuple[float, float] | None = self._call("clock_ahead_s", node)
        return bounds

    # --- SlowDisks, Disks -----------------------------------------------------------------------------

    def stall(self, node: str, stall_s: float, gap_s: float) -> None:
        self._call("stall", node, stall_s, gap_s)

    def unstall(self) -> None:
        self._call("unstall")

    def write_ms(self, node: str) -> Sequence[float]:
        times: Sequence[float] = self._call("write_ms", node)
        return times

    def power_off(self, nodes: Sequence[str]) -> Mapping[str, int]:
        lost_bytes: Mapping[str, int] = self._call("power_off", list(nodes))
        return lost_bytes

    def fill(self, nodes: Sequence[str]) -> Mapping[str, int]:
        free_bytes: Mapping[str, int] = self._call("fill", list(nodes))
        return free_bytes

    def free(self, nodes: Sequence[str]) -> None:
        self._call("free", list(nodes))

    # --- LogDirs --------------------------------------------------------------------------------------

    def log_dirs(self, node: str) -> Mapping[str, LogDir]:
        directories: Mapping[str, LogDir] = self._call("log_dirs", node)
        return directories

    def move_logs(self, node: str, moves: Mapping[str, Sequence[TopicPartition]]) -> Mapping[TopicPartition, str]:
        errors: Mapping[TopicPartition, str] = self._call("move_logs", node, dict(moves))
        return errors

    def fail_log_dir(self, node: str) -> str:
        return str(self._call("fail_log_dir", node))

    def mend_log_dir(self, node: str) -> None:
        self._call("mend_log_dir", node)

    # --- Files, LogFolders, Checkpoints, Data, Logs, ServerLogs ---------------------------------------

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        damage: Mapping[str, Any] = self._call("damage", node, kind, topic_prefix, seed)
        return damage

    def log_folders(self, node: str, topic_prefix: str) -> Mapping[str, Any]:
        folders: Mapping[str, Any] = self._call("log_folders", node, topic_prefix)
        return folders

    def checkpoint(self, node: str, name: str) -> str:
        text: str = self._call("checkpoint", node, name)
        return text

    def keep_data(self, folder: str, topic_prefix: str, most_bytes: int) -> Mapping[str, Any]:
        copied: Mapping[str, Any] = self._call("keep_data", folder, topic_prefix, most_bytes)
        return copied

    def quorum(self) -> Sequence[Mapping[str, Any]]:
        answers: Sequence[Mapping[str, Any]] = self._call("quorum")
        return answers

    def keep_metadata(self, folder: str, most_bytes: int) -> Mapping[str, Any]:
        copied: Mapping[str, Any] = self._call("keep_metadata", folder, most_bytes)
        return copied

    def voters(self) -> Sequence[str]:
        names: Sequence[str] = self._call("voters")
        return names

    def add_voter(self, node: str) -> None:
        self._call("add_voter", node)

    def remove_voter(self, node: str) -> None:
        self._call("remove_voter", node)

    def collect(self, folder: str) -> None:
        self._call("collect", str(Path(folder).absolute()))

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        chunk: tuple[bytes, int] = self._call("read_log", node, offset)
        return chunk


def attach(name: str, kind: str, run: str) -> NamedCluster:
    """Returns the cluster with this name and kind, for a run.

    Raises BadInput if it is not up, Missing if its keeper does not answer.
    """
    state = client.find(name, kind)
    try:
        return NamedCluster(state, run)
    except ClusterTrouble as error:
        raise Missing(f"{error}: run `harness cluster down {name}`, then `harness cluster up {name}`") from None
