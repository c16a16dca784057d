"""The interfaces between packages: generators, clients, faults, clusters and what a cluster can do.

Everything is a narrow Protocol; nothing is inherited. A cluster declares what it can do by the capability
protocols that it satisfies, and a fault that needs another one is refused before anything starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from harness.model.draw import Draw
from harness.model.op import Op, Process


class Pending:
    """What a generator answers when it has nothing to do now, but may have later."""

    def __repr__(self) -> str:
        return "PENDING"


PENDING: Final = Pending()


@dataclass(frozen=True, slots=True)
class Context:
    """What a generator may know.

    time_ns       now, since the run began
    free          client processes that wait for an op, the one that has waited longest first
    all           every client process, busy ones too; the position is the slot
    nemesis_free  whether the nemesis waits for an op
    seed          the run's seed: all randomness comes from `draw`
    """

    time_ns: int
    free: Sequence[Process]
    all: Sequence[Process]
    nemesis_free: bool
    seed: int

    def draw(self, stream: str, n: int) -> Draw:
        """The n-th independent source of randomness of a named stream: the same one at every call."""
        return Draw.of(self.seed, stream, n)


class Generator(Protocol):
    """Pure source of ops. Asking twice gives the same answer; the state is in the generator returned."""

    def op(self, ctx: Context) -> tuple[Op | Pending, Generator] | None:
        """The next op (process -1: any free one), PENDING, or None when exhausted."""

    def update(self, ctx: Context, event: Op) -> Generator:
        """The generator after it has seen an invocation or a completion."""


class Client(Protocol):
    """Applies ops to the system for one logical process; lives in a worker process."""

    def open(self, node: str, process: Process) -> Client: ...
    def setup(self) -> None: ...
    def invoke(self, op: Op) -> Op: ...
    def teardown(self) -> None: ...
    def close(self) -> None: ...


# --- clusters -----------------------------------------------------------------------------------------


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

    def spawn(
        self, host: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int], log: str
    ) -> Child:
        """Start a process on a host of its own (address and network namespace where there are any).

        `fds` become descriptors 3, 4, ... of the child; `log` is the file for its output, appended to.
        """


@runtime_checkable
class Processes(Protocol):
    """The nodes' server processes."""

    def kill(self, node: str) -> None:
        """SIGKILL; returns when it is gone."""

    def stop(self, node: str) -> None:
        """SIGTERM; returns when it has ended. Raises ClusterTrouble when it takes too long."""

    def pause(self, node: str) -> None: ...
    def resume(self, node: str) -> None: ...
    def start(self, node: str) -> None:
        """Start a node that does not run, without waiting for it to register."""

    def running(self, node: str) -> bool: ...


@runtime_checkable
class Network(Protocol):
    """Silent, one-way packet filters at the receiving end. Hosts are nodes and worker hosts."""

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """From now on, `at` does not hear `sources`."""

    def heal(self) -> None:
        """Remove every rule."""

    def dropped(self, at: str) -> int:
        """Packets that the rules at `at` have dropped since they were put there."""


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
        """Damage files in a way that `harness.cluster.damage` names; what was done, empty for nothing."""


@runtime_checkable
class Logs(Protocol):
    """The nodes' server logs and configuration."""

    def collect(self, folder: str) -> None:
        """Copy them into `folder`/<node>/."""


@runtime_checkable
class Roles(Protocol):
    """Who does what now, as the cluster itself says."""

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        """(topic, partition) -> node, of this run's topics; None where there is no leader."""

    def topic_prefix(self) -> str:
        """What the names of this run's topics begin with."""

    def holders(self, role: str) -> Sequence[str]:
        """The node of each holder of a role: "controller" (one), "txn-coordinator" (one for each of the
        run's transactional ids), "group-coordinator". Empty where nobody can tell."""

    def unhealthy(self) -> str:
        """Empty when every node is registered and every replica in sync; otherwise what is wrong."""


@runtime_checkable
class Workers(Protocol):
    """The run's client processes."""

    def names(self) -> tuple[str, ...]:
        """Hosts of the workers, in slot order."""

    def signal(self, name: str, number: int) -> bool:
        """Signal a worker process; False when there is none. A killed one is replaced by the run."""


# --- faults -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Env:
    """What a nemesis may touch.

    draw   this invocation's randomness
    admin  (name, within_s, **arguments) -> value: a request to the brokers as harness.clients.admin has them;
           raises ClusterTrouble
    """

    cluster: Cluster
    roles: Roles
    workers: Workers
    draw: Draw
    admin: Callable[..., Any] | None = None


class Nemesis(Protocol):
    """Applies faults of one verb. `fs`: the op names it answers to."""

    fs: frozenset[str]

    def setup(self, env: Env) -> None: ...
    def invoke(self, env: Env, op: Op) -> Op:
        """Apply the fault and say in the value what was hit: see `nemesis` for the fields."""

    def teardown(self, env: Env) -> None:
        """Heal whatever is still broken. Safe to repeat."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as a composable package.

    name         "kill:leader"
    nemesis      what carries it out
    rounds       the n-th round: when it starts and stops
    final        heals it at the end
    needs        capability protocols that the cluster must satisfy
    takes_turns  not on together with others that take turns
    """

    name: str
    nemesis: Nemesis
    rounds: Callable[[int], Generator]
    final: Generator
    needs: tuple[type, ...] = ()
    takes_turns: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """What the clients do.

    generator  ops under load
    final      ops after healing, or None
    client     name of the client logic in a worker ("queue")
    checks     names of the checks that judge it
    client_options  plain data for the client
    """

    name: str
    generator: Generator
    final: Generator | None
    client: str
    checks: tuple[str, ...] = ("queue",)
    client_options: Mapping[str, Any] = field(default_factory=dict)
