"""The protocol of a cluster, and its capabilities: what faults can require of it.

Each capability is a narrow Protocol; no class inherits from it. A cluster offers a capability if it has all of its
methods and, where the cluster declares `capabilities`, names it there (`offers`). A fault that requires a capability
that the cluster does not offer is refused before anything starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from harness.model.wire_rules import Rule, RuleCounts, Traffic

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
STOP_S: Final = 60.0  # timeout of an orderly shutdown of a server


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a finished command: exit code, standard output and standard error (at most 1 MiB each)."""

    code: int
    out: str
    err: str


@runtime_checkable
class Child(Protocol):
    """A process that the cluster started on behalf of the harness."""

    pid: int

    def signal(self, number: int) -> None:
        """Send a signal. Does nothing if the process has exited."""

    def poll(self) -> int | None:
        """Return the exit code (negative for a signal), or None while the process runs."""

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the process to exit. Returns the exit code, or None on timeout."""


@runtime_checkable
class Cluster(Protocol):
    """A system under test."""

    nodes: tuple[str, ...]
    bootstrap: str

    def up(self, progress: Callable[[str], None]) -> None:
        """Start the cluster, and return when every node is registered. Raises ClusterTrouble or Missing."""

    def down(self) -> None:
        """Stop the cluster, and remove everything that `up` created. Safe to repeat."""

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command on the node's host."""


@runtime_checkable
class Hosts(Protocol):
    """Hosts for worker processes. The brokers are reachable from them at `bootstrap`."""

    def spawn(self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str) -> Child:
        """Start a process on the named host, which has its own address and network namespace where supported.

        `fds` become file descriptors 3, 4, ... of the child. Its output is appended to the file `log`.
        """


@runtime_checkable
class Processes(Protocol):
    """The nodes' server processes."""

    def kill(self, node: str) -> None:
        """Send SIGKILL, and return when the server has exited."""

    def stop(self, node: str, within_s: float = STOP_S) -> None:
        """Send SIGTERM, and return when the server has exited. Raises ClusterTrouble after `within_s`."""

    def pause(self, node: str) -> None: ...
    def resume(self, node: str) -> None: ...
    def start(self, node: str) -> None:
        """Start the server of a stopped node, without waiting for it to register."""

    def running(self, node: str) -> bool: ...


@runtime_checkable
class MetadataServers(Protocol):
    """Dedicated metadata servers: KRaft controllers that are not brokers, or ZooKeeper servers.

    `metadata_servers` are their names; it is empty where the brokers are the controllers. The methods of Processes
    and Network, where the cluster offers them, accept these names like those of nodes.
    """

    metadata_servers: tuple[str, ...]

    def silent(self) -> Sequence[str]:
        """Return the names of the servers that do not answer."""


def servers(cluster: Cluster) -> tuple[str, ...]:
    """Return the names of all servers: the nodes, then the metadata servers."""
    return (*cluster.nodes, *(cluster.metadata_servers if offers(cluster, MetadataServers) else ()))


@runtime_checkable
class Brokers(Protocol):
    """Brokers that only this run uses, so that it may send them any admin request."""

    def controller(self) -> int | None:
        """Return the id of the active controller, or None if no server reports one."""


@runtime_checkable
class Network(Protocol):
    """One-way packet filters at the receiving host, which drop silently. Hosts are nodes and worker hosts."""

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """From now on, host `at` drops all packets from `sources`."""

    def heal(self) -> None:
        """Remove every filter rule."""

    def dropped(self, at: str) -> int:
        """Return how many packets the rules of host `at` have dropped since they were added."""


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """The impairments of a network link, the same in both directions.

    delay_ms, jitter_ms  packets are delayed by `delay_ms`, plus or minus up to `jitter_ms` (drawn every 100 ms)
    loss       the fraction of packets that is dropped
    reorder    the fraction of packets that is not delayed, and so may overtake others
    rate_kbit  the bandwidth in units of 1,000 bits per second; 0: no limit
    bad_s, good_s  mean lengths of the alternating periods with and without the impairments; good_s 0: always impaired
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    reorder: float = 0.0
    rate_kbit: int = 0
    bad_s: float = 0.0
    good_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """Packet counts of an impaired link, both directions together.

    packets   packets seen
    delayed   delayed packets; `held_ms` is their mean delay
    dropped   packets dropped by `loss`
    overrun   packets dropped because the queue was full
    overtook  packets that overtook earlier ones
    waited    packets that had to wait because of the limited bandwidth
    """

    packets: int = 0
    delayed: int = 0
    dropped: int = 0
    overrun: int = 0
    overtook: int = 0
    waited: int = 0
    held_ms: float = 0.0


@runtime_checkable
class Links(Protocol):
    """Network links that can be impaired, from chosen hosts to all others. Hosts are nodes and worker hosts."""

    def degrade(self, hosts: Sequence[str], quality: LinkQuality, seed: int) -> None:
        """Apply `quality` to all links of `hosts`, including those among them. Raises ClusterTrouble."""

    def restore(self) -> None:
        """Remove the impairments of all links. Safe to repeat."""

    def link_counts(self, at: str) -> LinkCounts:
        """Return the packet counts of the link of host `at` since it was degraded; zeros if it is not degraded.

        A packet between two degraded hosts is counted at its sender's link. Raises ClusterTrouble.
        """

    def round_trip_ms(self, at: str) -> float | None:
        """Return the median time to open a TCP connection from `at` to a node; None if no attempt succeeded."""


@runtime_checkable
class Clocks(Protocol):
    """A wall clock per node that can be set. Monotonic clocks are not affected."""

    def set_clock(self, node: str, ahead_s: float) -> None:
        """Set the node's wall clock `ahead_s` ahead of the machine's; 0 is the right time."""

    def strobe_clock(self, node: str, ahead_s: float, every_s: float) -> None:
        """From now on, switch the node's wall clock between the right time and `ahead_s` ahead, every `every_s`."""

    def clock_ahead_s(self, node: str) -> tuple[float, float] | None:
        """Return bounds (lowest, highest) on how far the clock that the server reports is ahead, in seconds.

        The bounds differ by the duration of the request. None if the server reports no time.
        """


@runtime_checkable
class SlowDisks(Protocol):
    """Disks of the nodes that can be slowed down."""

    def stall(self, node: str, stall_s: float, gap_s: float) -> None:
        """From now on, block writes to the node's disk for `stall_s`, allow them for `gap_s`, and repeat."""

    def unstall(self) -> None:
        """Return all disks to full speed. Safe to repeat."""

    def write_ms(self, node: str) -> Sequence[float]:
        """Return the durations of several small synchronous writes to the node's disk, in order."""


@runtime_checkable
class OwnAddresses(Protocol):
    """A distinct address for each worker host, so that a single client can be cut off."""

    def host(self, name: str) -> str:
        """Return the address of a host."""


@runtime_checkable
class Wire(Protocol):
    """A proxy between clients and brokers that understands Kafka's protocol.

    All methods raise ClusterTrouble if the proxy is no longer running.
    """

    def apply_rules(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        """Install rules under a name. They replace earlier rules of that name; rules of other names stay."""

    def rule_counts(self, name: str) -> Sequence[RuleCounts]:
        """Return the counts of each rule installed under a name."""

    def clear_rules(self, name: str) -> Sequence[RuleCounts]:
        """Remove the rules of a name, and return their counts. Frames that they held are released. Safe to repeat."""

    def wire_traffic(self) -> Traffic:
        """Return the counts of all traffic since the proxy was started."""


@runtime_checkable
class Disks(Protocol):
    """A separate disk for each node's data, on which unsynced writes are lost as on a real file system."""

    def power_off(self, nodes: Sequence[str]) -> Mapping[str, int]:
        """Simulate a power failure of all `nodes` at once: kill their servers, and discard every write that was
        not yet on disk. Returns how many bytes of its logs each node lost."""

    def fill(self, nodes: Sequence[str]) -> Mapping[str, int]:
        """Fill the disks of `nodes`. Returns how many bytes were free on each."""

    def free(self, nodes: Sequence[str]) -> None:
        """Free the space that `fill` took."""


@runtime_checkable
class Files(Protocol):
    """The nodes' data files, which can be damaged while the server is down."""

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        """Damage files of a node. `kind` is one of those in `harness.cluster.local.file_damage`.

        Returns what was damaged; empty if nothing was.
        """


@runtime_checkable
class LogFolders(Protocol):
    """The nodes' log folders, which can be inspected while the server runs or is down."""

    def log_folders(self, node: str, topic_prefix: str) -> Mapping[str, Any]:
        """Describe the files of the topics with a prefix: see `harness.cluster.local.log_folders`.

        Raises ClusterTrouble.
        """


@runtime_checkable
class Checkpoints(Protocol):
    """The nodes' checkpoint files, which can be read while the server runs."""

    def checkpoint(self, node: str, name: str) -> str:
        """Return the text of a node's checkpoint file, such as cleaner-offset-checkpoint.

        With several log folders, their files are concatenated. Empty if there is no such file. Raises ClusterTrouble.
        """


@runtime_checkable
class Data(Protocol):
    """The nodes' data, which can be copied into the run folder."""

    def keep_data(self, folder: str, topic_prefix: str, most_bytes: int) -> Mapping[str, Any]:
        """Copy each node's data of the topics with a prefix into `folder`/<node>/; `folder` is absolute.

        No server writes during the copy. Returns the "bytes" copied, and the partitions "left_out" because they
        would have exceeded `most_bytes`. Raises ClusterTrouble.
        """


@runtime_checkable
class Logs(Protocol):
    """The nodes' server logs and configuration."""

    def collect(self, folder: str) -> None:
        """Copy the server logs and configuration into `folder`/<node>/."""


@runtime_checkable
class ServerLogs(Protocol):
    """The nodes' server logs, which can be followed while the server runs."""

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        """Read a node's server log from a byte offset (None: its end). Returns the bytes and the offset after them.

        Reads at most 1 MiB; returns no bytes if there is no log yet. Raises ClusterTrouble.
        """


ALL: Final[tuple[type, ...]] = (
    Brokers, Checkpoints, Clocks, Data, Disks, Files, Hosts, Links, LogFolders, Logs, MetadataServers, Network,
    OwnAddresses, Processes, ServerLogs, SlowDisks, Wire,
)  # fmt: skip


def offers(cluster: object, capability: type[T]) -> TypeIs[T]:
    """Whether a cluster has the capability's methods and, if it declares `capabilities`, names it there."""
    declared: frozenset[str] | None = getattr(cluster, "capabilities", None)
    return isinstance(cluster, capability) and (declared is None or capability.__name__ in declared)
