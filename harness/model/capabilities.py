"""The Cluster protocol, and the capabilities that a cluster can have and a fault can require.

Each capability is a narrow Protocol; no class inherits from it. A cluster offers a capability (see `offers`) if it has
all methods of the Protocol. A cluster with an attribute `capabilities` must also list the capability in this attribute.
If a fault of a plan requires a capability and the cluster does not offer it, the run is refused before anything starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, runtime_checkable

from harness.model.wire_rules import Rule, RuleCounts, Traffic

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")
TopicPartition = tuple[str, int]
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
        """Sends a signal. Does nothing if the process has exited."""

    def poll(self) -> int | None:
        """Returns the exit code (negative for a signal), or None while the process runs."""

    def wait(self, timeout_s: float) -> int | None:
        """Waits for the process to exit. Returns the exit code, or None on timeout."""


@runtime_checkable
class Cluster(Protocol):
    """A system under test."""

    nodes: tuple[str, ...]
    bootstrap: str

    def up(self, progress: Callable[[str], None]) -> None:
        """Starts the cluster, and returns when every node is registered. Raises ClusterTrouble or Missing."""

    def down(self) -> None:
        """Stops the cluster, and removes everything that `up` created. Safe to repeat."""

    def run(self, node: str, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Runs a command on the host of a node, and returns when it has exited."""


@runtime_checkable
class Hosts(Protocol):
    """Hosts on which the harness can start its worker processes, which run the Kafka clients.

    From these hosts, the brokers are reachable at `bootstrap`.
    """

    def spawn(self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str) -> Child:
        """Starts a process on the named host. Where supported, each host has its own address and network namespace.

        `fds` become file descriptors 3, 4, ... of the child. Its output is appended to the file `log`.
        """


@runtime_checkable
class Processes(Protocol):
    """The nodes' server processes."""

    def kill(self, node: str) -> None:
        """Sends SIGKILL, and returns when the server has exited."""

    def stop(self, node: str, within_s: float = STOP_S) -> None:
        """Sends SIGTERM, and returns when the server has exited.

        Raises ClusterTrouble if that takes more than `within_s` seconds.
        """

    def pause(self, node: str) -> None: ...
    def resume(self, node: str) -> None: ...
    def start(self, node: str) -> None:
        """Starts the server of a stopped node, without waiting for it to register."""

    def running(self, node: str) -> bool: ...


@runtime_checkable
class MetadataServers(Protocol):
    """Dedicated metadata servers: KRaft controllers that are not brokers, or ZooKeeper servers.

    `metadata_servers` lists their names; the list is empty if the brokers are also the controllers. If the cluster
    offers Processes or Network, the methods of those Protocols accept names of nodes and names of metadata servers.
    """

    metadata_servers: tuple[str, ...]

    def silent(self) -> Sequence[str]:
        """Returns the names of the metadata servers that do not answer."""


def servers(cluster: Cluster) -> tuple[str, ...]:
    """Returns the names of all servers: the nodes, then the metadata servers."""
    return (*cluster.nodes, *(cluster.metadata_servers if offers(cluster, MetadataServers) else ()))


@runtime_checkable
class Brokers(Protocol):
    """Brokers that only this run uses, so that it may send them any admin request."""

    def controller(self) -> int | None:
        """Returns the id of the active controller, or None if no server reports one."""


@runtime_checkable
class Network(Protocol):
    """Packet filters, with which a host silently drops all packets from certain other hosts.

    A host is one on which a node runs, or one on which workers run (see `Hosts`).
    """

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """From now on, host `at` drops all packets from `sources`."""

    def heal(self) -> None:
        """Removes every filter rule."""

    def dropped(self, at: str) -> int:
        """Returns how many packets the rules of host `at` have dropped since they were added."""


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """The impairments of a network link, the same in both directions.

    delay_ms   the mean delay of packets
    jitter_ms  the delay differs from `delay_ms` by up to this much; the difference is drawn every 100 ms
    loss       the fraction of packets that are dropped
    reorder    the fraction of packets that are not delayed, and so may overtake others
    rate_kbit  the bandwidth in units of 1,000 bits per second; 0: no limit
    bad_s      the mean length of the periods with the impairments
    good_s     the mean length of the periods in between, without impairments; 0: always impaired
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
    """Packet counts of an impaired link. Each count is the sum of both directions.

    packets   packets seen
    delayed   delayed packets
    held_ms   the mean delay of the delayed packets
    dropped   packets dropped because of `loss`
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
    """Network links of chosen hosts, which can be impaired.

    A host is one on which a node runs, or one on which workers run (see `Hosts`).
    """

    def degrade(self, hosts: Sequence[str], quality: LinkQuality, seed: int) -> None:
        """Impairs all links of `hosts`, including those between two of them. `quality` describes the impairments.

        Raises ClusterTrouble.
        """

    def restore(self) -> None:
        """Removes the impairments of all links. Safe to repeat."""

    def link_counts(self, at: str) -> LinkCounts:
        """Returns the packet counts of the link of host `at` since it was degraded; zeros if it is not degraded.

        A packet between two degraded hosts is counted at its sender's link. Raises ClusterTrouble.
        """

    def round_trip_ms(self, at: str) -> float | None:
        """Measures how long it takes to open a TCP connection from the host `at` to a node. Returns the median in ms.

        Returns None if no attempt succeeded.
        """


@runtime_checkable
class Clocks(Protocol):
    """A wall clock for each node, which can be set. Monotonic clocks are not affected."""

    def set_clock(self, node: str, ahead_s: float) -> None:
        """Sets the node's wall clock `ahead_s` seconds ahead of the machine's clock; 0: to the correct time."""

    def strobe_clock(self, node: str, ahead_s: float, every_s: float) -> None:
        """From now on, moves the node's wall clock back and forth, once every `every_s` seconds: to `ahead_s` seconds
        ahead of the correct time, then back to the correct time.
        """

    def clock_ahead_s(self, node: str) -> tuple[float, float] | None:
        """Asks the node's server for its wall clock.

        Returns (lowest, highest): bounds on how many seconds it is ahead of the correct time. The difference between
        the bounds is the duration of the request. Returns None if the server reports no time.
        """


@runtime_checkable
class SlowDisks(Protocol):
    """The nodes' disks, which can be slowed down."""

    def stall(self, node: str, stall_s: float, gap_s: float) -> None:
        """From now on, alternately blocks writes to the node's disk for `stall_s` and allows them for `gap_s`."""

    def unstall(self) -> None:
        """Lets all disks run at full speed again. Safe to repeat."""

    def write_ms(self, node: str) -> Sequence[float]:
        """Makes several small synchronous writes to the node's disk. Returns the duration of each in ms, in order."""


@runtime_checkable
class OwnAddresses(Protocol):
    """A separate network address for each host on which workers run, so that a single client can be cut off."""

    def host(self, name: str) -> str:
        """Returns the address of a host on which workers run."""


@runtime_checkable
class Wire(Protocol):
    """A proxy between clients and brokers, which parses Kafka's protocol and can delay, drop or change messages.

    All methods raise ClusterTrouble if the proxy is no longer running.
    """

    def apply_rules(self, name: str, rules: Sequence[Rule], seed: int) -> None:
        """Installs rules under a name. They replace earlier rules with that name; rules with other names stay."""

    def rule_counts(self, name: str) -> Sequence[RuleCounts]:
        """Returns the counts of each rule that is installed under a name."""

    def clear_rules(self, name: str) -> Sequence[RuleCounts]:
        """Removes the rules installed under a name, and forwards the requests and responses that they held back.

        Safe to repeat. Returns the counts of each removed rule.
        """

    def wire_traffic(self) -> Traffic:
        """Returns the counts of all traffic since the proxy was started."""


@runtime_checkable
class Disks(Protocol):
    """A separate disk for each node's data, on which a power failure loses unsynced writes."""

    def power_off(self, nodes: Sequence[str]) -> Mapping[str, int]:
        """Simulates a power failure of all `nodes` at once: kills their servers, and discards all writes that were not
        yet on disk.

        Returns, for each node, how many bytes of its logs were lost.
        """

    def fill(self, nodes: Sequence[str]) -> Mapping[str, int]:
        """Fills the disks of `nodes`. Returns how many bytes were free on each disk."""

    def free(self, nodes: Sequence[str]) -> None:
        """Frees the space that `fill` used up."""


@runtime_checkable
class Files(Protocol):
    """The nodes' data files, which can be damaged while the node's server is down."""

    def damage(self, node: str, kind: str, topic_prefix: str, seed: int) -> Mapping[str, Any]:
        """Damages data files of a node. `kind` is one of the kinds of damage in `harness.cluster.local.file_damage`.

        Returns a description of what was damaged; an empty mapping if nothing was.
        """


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory as its broker describes it.

    error  name of the error; empty if the directory is online. The logs of an offline directory are not listed
    logs   (topic, partition) of each log in the directory -> whether it is a copy that is to replace the log in another
           directory once it has caught up
    """

    error: str
    logs: Mapping[TopicPartition, bool] = field(default_factory=dict)


@runtime_checkable
class LogDirs(Protocol):
    """The nodes' log directories, of which each node has several."""

    def log_dirs(self, node: str) -> Mapping[str, LogDir]:
        """Asks a node's broker for its log directories. Returns path -> directory. Raises ClusterTrouble."""

    def move_logs(self, node: str, moves: Mapping[str, Sequence[TopicPartition]]) -> Mapping[TopicPartition, str]:
        """Asks a node's broker to move logs. Does not wait until they have been moved.

        moves  path of a directory -> the logs that are to be there

        Returns (topic, partition) -> name of the error, for the logs that are not moved. Raises ClusterTrouble.
        """

    def fail_log_dir(self, node: str) -> str:
        """Makes a node's last log directory fail, and returns its path. Raises ClusterTrouble."""

    def mend_log_dir(self, node: str) -> None:
        """Repairs the failed directory of a node, whose server must be started afterwards. Safe to repeat."""


@runtime_checkable
class LogFolders(Protocol):
    """The nodes' log folders, which can be inspected whether the server is running or not."""

    def log_folders(self, node: str, topic_prefix: str) -> Mapping[str, Any]:
        """Returns a description of the files of all topics whose names have this prefix.

        The form of the description is that of `harness.cluster.local.log_folders`. Raises ClusterTrouble.
        """


@runtime_checkable
class Checkpoints(Protocol):
    """The nodes' checkpoint files, which can be read while the server runs."""

    def checkpoint(self, node: str, name: str) -> str:
        """Returns the text of a node's checkpoint file, such as cleaner-offset-checkpoint. Empty if there is none.

        If the node has several log folders, returns the concatenated text of their files. Raises ClusterTrouble.
        """


@runtime_checkable
class Data(Protocol):
    """The nodes' data, which can be copied into the run folder."""

    def keep_data(self, folder: str, topic_prefix: str, most_bytes: int) -> Mapping[str, Any]:
        """Copies the data of all topics whose names have this prefix: from each node to `folder`/<node>/.

        `folder` is an absolute path. No server writes during the copy. Returns {"bytes": size of the copy, "left_out":
        partitions that were left out because the copy would have exceeded `most_bytes`}. Raises ClusterTrouble.
        """


@runtime_checkable
class MetadataLogs(Protocol):
    """The servers' copies of KRaft's metadata log, and the quorum that writes it."""

    def quorum(self) -> Sequence[Mapping[str, Any]]:
        """Asks every voter for the state of the quorum.

        Returns {"node", "leader": id, "epoch", "high_watermark", "voters": ids} for each voter that says it leads.
        """

    def keep_metadata(self, folder: str, most_bytes: int) -> Mapping[str, Any]:
        """Copies the metadata log of each server to `folder`/<server>/.

        `folder` is an absolute path. No server writes during the copy. Returns {"bytes": size of the copy}. Raises
        ClusterTrouble, also if the copy would exceed `most_bytes`.
        """


@runtime_checkable
class Voters(Protocol):
    """A metadata quorum of dedicated controllers whose voters can be changed while it works (KIP-853)."""

    def voters(self) -> Sequence[str]:
        """Returns the names of the voters according to the quorum's leader. Empty if no controller leads."""

    def add_voter(self, node: str) -> None:
        """Asks the quorum's leader to make a controller a voter. Raises ClusterTrouble with the leader's error."""

    def remove_voter(self, node: str) -> None:
        """Asks the quorum's leader to remove a voter. Raises ClusterTrouble with the leader's error."""


@runtime_checkable
class Logs(Protocol):
    """The nodes' server logs and configuration."""

    def collect(self, folder: str) -> None:
        """Copies the server logs and configuration into `folder`/<node>/."""


@runtime_checkable
class ServerLogs(Protocol):
    """The nodes' server logs, which can be followed while the server runs."""

    def read_log(self, node: str, offset: int | None) -> tuple[bytes, int]:
        """Reads up to 1 MiB of a node's server log, starting at a byte offset.

        Returns the bytes, and the offset at which to continue. With offset None, returns no bytes, only the current
        size of the file. Returns no bytes if the file does not exist. Raises ClusterTrouble.
        """


@dataclass(frozen=True, slots=True)
class UpgradePath:
    """Between which versions a cluster can be upgraded.

    old      the version with which the servers are started first
    new      the version to which they can be upgraded; the old one if the cluster was not prepared for an upgrade
    servers  the names of the servers that run Kafka, in the order in which they should be upgraded
    pins     whether the brokers' protocol must be pinned during the upgrade, and lifted in a second roll (ZooKeeper)
    """

    old: str
    new: str
    servers: tuple[str, ...]
    pins: bool


@runtime_checkable
class Releases(Protocol):
    """Servers each of which can be restarted with another version of Kafka."""

    def upgrade_path(self) -> UpgradePath: ...
    def release(self, node: str) -> tuple[str, bool]:
        """Returns the version with which a server was started last, or will be started next; and whether its protocol
        is pinned to the old version.
        """

    def set_release(self, node: str, version: str, pinned: bool) -> None:
        """Makes a stopped server start with this version from now on."""

    def starts_empty(self, node: str, version: str) -> str:
        """Starts a version in the place of a stopped server: on empty folders, with the same configuration, alone.

        Returns "" if it answers requests within a time limit, else why not. Leaves nothing behind.
        """

    def new_levels(self, version: str) -> Mapping[str, int]:
        """Returns feature -> level, for the features that are enabled in a new cluster of this version."""

    def reported_features(self, node: str) -> tuple[int, Mapping[str, int]] | None:
        """Returns the finalized features that a server knows: (epoch, feature -> level). None if it reports none."""


@runtime_checkable
class Migration(Protocol):
    """A cluster that can migrate from ZooKeeper to KRaft: see `harness.cluster.distribution.migration_config`."""

    def mode(self, node: str) -> str:
        """Returns the mode of a server that runs Kafka: zookeeper, migration or kraft."""

    def set_mode(self, node: str, mode: str) -> None:
        """Makes a stopped server start in this mode from now on."""

    def provision(self) -> Sequence[str]:
        """Formats and starts the controllers, in the mode `migration`. Returns their names."""

    def deprovision(self) -> None:
        """Kills the controllers, and removes their data."""

    def retire_zookeepers(self) -> None:
        """Stops the ZooKeepers for good."""

    def zookeeper_shell(self, command: Sequence[str]) -> CommandResult:
        """Executes a command of ZooKeeper's shell, such as `get /controller`."""


ALL: Final[tuple[type, ...]] = (
    Brokers, Checkpoints, Clocks, Data, Disks, Files, Hosts, Links, LogDirs, LogFolders, Logs, MetadataLogs,
    MetadataServers, Migration, Network, OwnAddresses, Processes, Releases, ServerLogs, SlowDisks, Voters, Wire,
)  # fmt: skip

# Capabilities that change a cluster for good. A cluster that stays up for other runs does not have them.
FOR_GOOD: Final[tuple[type, ...]] = (Migration, Releases)


def offers(cluster: object, capability: type[T]) -> TypeIs[T]:
    """Returns whether a cluster offers a capability: whether it has the Protocol's methods, and lists the capability if
    it has an attribute `capabilities`.
    """
    declared: frozenset[str] | None = getattr(cluster, "capabilities", None)
    return isinstance(cluster, capability) and (declared is None or capability.__name__ in declared)
