"""What a cluster is, and what it can do: the capabilities that faults ask for.

Each is a narrow Protocol; nothing is inherited. A cluster can do what it has the methods for, or, of those, what it
declares as its `capabilities`; `offers` says so. A fault that needs another one is refused before anything starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from harness.model.wire_rules import Rule, RuleCounts, Traffic

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
STOP_S: Final = 60.0  # for a server to end in order


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that ended: exit code, standard output and standard error (at most 1 MiB each)."""

    code: int
    out: str
    err: str


@runtime_checkable
class Child(Protocol):
    """A process that a cluster started for us."""

    pid: int

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when it has ended."""

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end; None when it did not come in time."""


@runtime_checkable
class Cluster(Protocol):
    """A system under test."""

    nodes: tuple[str, ...]
    bootstrap: str

    def up(self, progress: Callable[[str], None]) -> None:
        """Start, and return when every node is registered. Raises ClusterTrouble or Missing."""

    def down(self) -> None:
        """Stop, and remove everything that `up` made. Safe to repeat."""

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command where the node runs."""


@runtime_checkable
class Hosts(Protocol):
    """A place to run worker processes, from which the brokers are reachable at `bootstrap`."""

    def spawn(self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str) -> Child:
        """Start a process on a host of its own (address and network namespace where there are any).

        `fds` become descriptors 3, 4, ... of the child; `log` is the file for its output, appended to.
        """


@runtime_checkable
class Processes(Protocol):
    """The nodes' server processes."""

    def kill(self, node: str) -> None:
        """SIGKILL; returns when it is gone."""

    def stop(self, node: str, within_s: float = STOP_S) -> None:
        """SIGTERM; returns when it has ended. Raises ClusterTrouble when it takes too long."""

    def pause(self, node: str) -> None: ...
    def resume(self, node: str) -> None: ...
    def start(self, node: str) -> None:
        """Start a node that does not run, without waiting for it to register."""

    def running(self, node: str) -> bool: ...


@runtime_checkable
class MetadataServers(Protocol):
    """Servers that hold the cluster's metadata and are no brokers: controllers of their own, or ZooKeepers.

    `metadata_servers` are their names; there are none where brokers do that too. Where the cluster satisfies
    Processes or Network, what these do to nodes they do to them as well.
    """

    metadata_servers: tuple[str, ...]

    def silent(self) -> Sequence[str]:
        """Those that do not answer."""


def servers(cluster: Cluster) -> tuple[str, ...]:
    """Every server: the nodes, then those of the metadata."""
    return (*cluster.nodes, *(cluster.metadata_servers if offers(cluster, MetadataServers) else ()))


@runtime_checkable
class Brokers(Protocol):
    """Brokers of the run's own, which take every request of an administrator."""

    def controller(self) -> int | None:
        """The id of the one that controls the cluster; None when nobody says."""


@runtime_checkable
class Network(Protocol):
    """Silent, one-way packet filters at the receiving end. Hosts are nodes and worker hosts."""

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """From now on, `at` does not hear `sources`."""

    def heal(self) -> None:
        """Remove every rule."""

    def dropped(self, at: str) -> int:
        """Packets that the rules at `at` have dropped since they were put there."""


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """How bad a link is, the same in both directions.

    delay_ms, jitter_ms  packets wait `delay_ms`, give or take up to `jitter_ms` (drawn every 100 ms)
    loss       the share of packets that is dropped
    reorder    the share of packets that does not wait, and so may overtake others
    rate_kbit  1,000 bits per second that fit through; 0: no limit
    bad_s, good_s  mean lengths of the turns in which it is so and in which all is well; good_s 0: always so
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
    """What a bad link has done to packets, both directions together.

    packets   that it saw
    delayed   of those, held for a while: `held_ms` on average
    dropped   by `loss`
    overrun   dropped because too many waited
    overtook  went ahead of packets that came before them
    waited    found a narrow line busy
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
    """Links of a chosen quality, between some hosts and all others. Hosts are nodes and worker hosts."""

    def degrade(self, hosts: Sequence[str], quality: LinkQuality, seed: int) -> None:
        """From now on, the links of `hosts` are that bad, among each other too. Raises ClusterTrouble."""

    def restore(self) -> None:
        """Every link is well again. Safe to repeat."""

    def link_counts(self, at: str) -> LinkCounts:
        """What the link of `at` has done since it was degraded; nothing while it is well.

        A packet between two degraded links counts for its sender's. Raises ClusterTrouble.
        """

    def round_trip_ms(self, at: str) -> float | None:
        """How long a TCP connection from `at` to a node takes, median of some; None where none came about."""


@runtime_checkable
class Clocks(Protocol):
    """A wall clock of its own for each node's server. Clocks that measure spans are left alone."""

    def set_clock(self, node: str, ahead_s: float) -> None:
        """From now on the node's wall clock is `ahead_s` ahead of the machine's; 0 is the right time."""

    def strobe_clock(self, node: str, ahead_s: float, every_s: float) -> None:
        """From now on it changes between right and `ahead_s` ahead, every `every_s`."""

    def clock_ahead_s(self, node: str) -> tuple[float, float] | None:
        """How far ahead the node's clock is by what its server itself says, at least and at most.

        The time that asking takes is in between. None where it does not say.
        """


@runtime_checkable
class SlowDisks(Protocol):
    """Disks of the nodes that can be made slow."""

    def stall(self, node: str, stall_s: float, gap_s: float) -> None:
        """From now on, the node's disk takes no writes for `stall_s`, then does for `gap_s`, and so on."""

    def unstall(self) -> None:
        """No disk is slow any more. Safe to repeat."""

    def write_ms(self, node: str) -> Sequence[float]:
        """How long some small synced writes to the node's disk took, one after another."""


@runtime_checkable
class OwnAddresses(Protocol):
    """An address for each host of workers that no other has, so that one client can be cut off alone."""

    def host(self, name: str) -> str:
        """The address of a host."""


@runtime_checkable
class Wire(Protocol):
    """A proxy between clients and brokers that understands their requests. Gone, it raises ClusterTrouble."""

    def apply_rules(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        """From now on these rules too; those of the same name before them are forgotten."""

    def rule_counts(self, name: str) -> Sequence[RuleCounts]:
        """What each of the rules of a name has done."""

    def clear_rules(self, name: str) -> Sequence[RuleCounts]:
        """No such rules any more, and what they had done; what they held goes on. Safe to repeat."""

    def wire_traffic(self) -> Traffic:
        """What has passed since the proxy was started."""


@runtime_checkable
class Disks(Protocol):
    """A disk of its own for each node's data, with the file system's real rules for what is on it."""

    def power_off(self, nodes: Sequence[str]) -> Mapping[str, int]:
        """Cut the power of some nodes in one moment: their servers are gone, and every write that was not yet
        on disk. Bytes of their logs that were lost, by node."""

    def fill(self, nodes: Sequence[str]) -> Mapping[str, int]:
        """Leave no room on the disks of some nodes. Bytes that were free, by node."""

    def free(self, nodes: Sequence[str]) -> None:
        """Make room again."""


@runtime_checkable
class Files(Protocol):
    """The nodes' data, as files that can be damaged while a server is down."""

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        """Damage files in a way that `harness.cluster.local.file_damage` names; what was done, empty for nothing."""


@runtime_checkable
class LogFolders(Protocol):
    """The nodes' data, to be looked at while a server runs or is down."""

    def log_folders(self, node: str, topic_prefix: str) -> Mapping[str, Any]:
        """What is on disk of some topics: see `harness.cluster.local.log_folders`. Raises ClusterTrouble."""


@runtime_checkable
class Checkpoints(Protocol):
    """The nodes' checkpoint files, to be read while a server runs."""

    def checkpoint(self, node: str, name: str) -> str:
        """The text of one of a node's checkpoints, such as cleaner-offset-checkpoint; of several folders for
        logs one after another; empty where there is none. Raises ClusterTrouble."""


@runtime_checkable
class Data(Protocol):
    """The nodes' data, to be copied."""

    def keep_data(self, folder: str, topic_prefix: str, most_bytes: int) -> Mapping[str, Any]:
        """Copy into `folder`/<node>/, which is an absolute path, what nodes hold of some topics.

        No server writes meanwhile. "bytes" that were copied, and "left_out": partitions that would have made
        it more than `most_bytes`. Raises ClusterTrouble.
        """


@runtime_checkable
class Logs(Protocol):
    """The nodes' server logs and configuration."""

    def collect(self, folder: str) -> None:
        """Copy them into `folder`/<node>/."""


@runtime_checkable
class ServerLogs(Protocol):
    """The nodes' server logs while they grow."""

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        """A piece of a node's server log from a byte offset (None: from its end), and the offset after it.

        At most 1 MiB; nothing where there is no log yet. Raises ClusterTrouble.
        """


ALL: Final[tuple[type, ...]] = (
    Brokers, Checkpoints, Clocks, Data, Disks, Files, Hosts, Links, LogFolders, Logs, MetadataServers, Network,
    OwnAddresses, Processes, ServerLogs, SlowDisks, Wire,
)  # fmt: skip


def offers(cluster: object, capability: type[T]) -> TypeIs[T]:
    """Whether a cluster can do that: it has the methods, and names the capability if it declares `capabilities`."""
    declared: frozenset[str] | None = getattr(cluster, "capabilities", None)
    return isinstance(cluster, capability) and (declared is None or capability.__name__ in declared)
