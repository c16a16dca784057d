"""The interfaces between packages: generators, roles, workers, faults and workloads.

Interfaces are narrow Protocols; no class inherits from them. The interfaces of clusters are in
harness.model.capabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from harness.model.capabilities import Cluster
from harness.model.op import Op, Process
from harness.model.randomness import Draw


class Pending:
    """The type of PENDING. A generator returns PENDING when it has no op now but may have one later."""

    def __repr__(self) -> str:
        return "PENDING"


PENDING: Final = Pending()


@dataclass(frozen=True, slots=True)
class Context:
    """The state of the run that a generator may depend on.

    time_ns       time since the start of the run
    free          idle client processes, the longest idle first
    all           all client processes, including busy ones; a process's place in this list is its slot
    nemesis_free  whether no nemesis op is in progress
    seed          the run's seed, from which `draw` derives all randomness
    busy_faults   the names of the faults that have an op in progress; "" stands for ops that belong to no fault
    """

    time_ns: int
    free: Sequence[Process]
    all: Sequence[Process]
    nemesis_free: bool
    seed: int
    busy_faults: frozenset[str] = frozenset()

    def draw(self, stream: str, n: int) -> Draw:
        """Returns a new source of random values. It depends only on the run's seed, the name of the stream, and `n`."""
        return Draw.of(self.seed, stream, n)


class Generator(Protocol):
    """A source of ops, without side effects. Equal calls return equal results.

    Each call returns the generator's next state as a new generator.
    """

    def op(self, ctx: Context) -> tuple[Op | Pending, Generator] | None:
        """Returns (op, next generator), or (PENDING, next generator) if there is no op now.

        Returns None if there will be no more ops. A process of -1 in the op means any free process.
        """

    def update(self, ctx: Context, event: Op) -> Generator:
        """Returns the generator's state after an event: the invocation or the completion of an op."""


# --- clusters -----------------------------------------------------------------------------------------


@runtime_checkable
class Roles(Protocol):
    """The current roles of the nodes as the cluster reports them: partition leader, controller, coordinator."""

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        """Returns (topic, partition) -> the node that is the partition's leader, for all partitions of this run's
        topics.

        The node is None if there is no leader.
        """

    def topic_prefix(self) -> str:
        """Returns the common prefix of the names of this run's topics."""

    def holders(self, role: str) -> Sequence[str]:
        """Returns the nodes that have a role. Returns no nodes if the cluster does not report the role.

        "controller" is the role of one node. "txn-coordinator", "group-coordinator" and "share-coordinator" can be
        roles of several: the coordinators of the run's transactional ids, of its groups, or of its share partitions.
        """

    def unhealthy(self) -> str:
        """Returns what is wrong with the cluster: nodes that are not registered, or replicas that are not in sync.

        Returns an empty string if nothing is wrong.
        """


@runtime_checkable
class Workers(Protocol):
    """The run's client processes."""

    def names(self) -> tuple[str, ...]:
        """Returns the names of the workers' hosts, in slot order."""

    def signal(self, name: str, number: int) -> bool:
        """Sends a signal to a worker process. Returns False if the process is not running.

        If the signal kills the process, the run starts a new worker in its place.
        """


@runtime_checkable
class Instances(Protocol):
    """The client processes of a run whose clients start and stop instances of an application."""

    def ask(self, name: str, what: str, by: str, within_s: float) -> Mapping[str, Any] | None:
        """Asks the client of the worker with this name to stop its instance in order, or to start it, or for a report.

        what  "stop", "start" or "report"
        by    the name of the fault that asks; an instance that another fault has stopped is not stopped again

        Returns the state that the instance has before it stops or starts (see
        `harness.clients.app.client.AppClient.answer`). Returns None if no answer arrives within `within_s` seconds.
        """


# --- faults -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Env:
    """What a nemesis may use.

    draw       source of randomness for this invocation
    admin      function that sends an admin request to the brokers: (name of the request in harness.clients.admin,
               within_s, **arguments) -> value; raises ClusterTrouble
    sends      (topic, partition) -> number of recent sends to the partition
    effect_s   for how many seconds to wait at most until the fault has an effect
    healthy_s  for how many seconds to wait at most until the cluster is healthy
    point_s    when the trigger fired that started the fault, in seconds since the epoch; None if none did
    until_s    the time (of time.monotonic()) at which waiting for a healthy cluster, or for a clean shutdown of a
               server, must end
    """

    cluster: Cluster
    roles: Roles
    workers: Workers
    draw: Draw
    admin: Callable[..., Any] | None = None
    effect_s: float = math.inf
    healthy_s: float = math.inf
    until_s: float = math.inf
    point_s: float | None = None
    sends: Mapping[tuple[str, int], int] = field(default_factory=dict)


class Nemesis(Protocol):
    """The code that applies a kind of fault, such as all faults that kill.

    `fs` are the names of the ops that it handles.
    """

    fs: frozenset[str]

    def invoke(self, env: Env, op: Op) -> Op:
        """Applies the fault. The value of the returned op describes what was hit (see `nemesis.shared.effects.hit`)."""

    def teardown(self, env: Env) -> None:
        """Heals all faults that are still active. Safe to repeat."""


class Rounds(Protocol):
    """The ops of a fault, and their default schedule. A round is one start of the fault and its end.

    start  the op that starts the fault
    stop   the op that ends it; None for a fault without duration
    """

    @property
    def start(self) -> Op: ...
    @property
    def stop(self) -> Op | None: ...
    def __call__(self, n: int) -> Generator:
        """Returns a generator for the n-th round. It emits `start` and `stop` when they are due."""


CONSUMER_GROUP: Final = "consumer group"
GROUP: Final = "group"
SHARE_GROUP: Final = "share group"
TRANSACTIONS: Final = "transactions"
_SUBSCRIBE: Final = "but no consumer subscribes during the load: --workload queue with --sub-via subscribe"
# What a load can use, and the end of the message if it does not.
USES: Final[Mapping[str, str]] = {
    CONSUMER_GROUP: f"a consumer group, {_SUBSCRIBE}",
    GROUP: f"a consumer or share group, {_SUBSCRIBE}, or --workload share",
    SHARE_GROUP: "a share group: --workload share",
    TRANSACTIONS: "transactions, but no client uses any: add --txn",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, with everything that a run needs to apply it and to heal it.

    name         the canonical name, such as "kill:leader"
    nemesis      applies the fault
    rounds       the fault's ops and their schedule
    final        ops that heal the fault at the end of the run
    needs        capability protocols that the cluster must offer
    takes_turns  whether the fault is never active at the same time as another one that takes turns
    settings     fields of harness.model.check_options.Settings -> their values with this fault, for faults that weaken
                 Kafka's guarantees
    acts_on      what the load must use, so that the fault has something to act on: see USES
    """

    name: str
    nemesis: Nemesis
    rounds: Rounds
    final: Generator
    needs: tuple[type, ...] = ()
    takes_turns: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    acts_on: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: the ops of the clients, and the checks of their history.

    generator        the ops of the load phase
    before           the ops before the load and the faults, or None; if one of them fails, the run ends
    final            the ops after healing, or None
    client           name of the client logic that the workers run, such as "queue"
    checks           names of the checks that are applied to the workload's histories
    client_options   options of the client, as plain data
    consumer_config  consumer properties that the workload needs, named as in the client library; the user's properties
                     take precedence
    hit              the slots that faults on clients may hit; None: all
    drives_faults    whether the generator also emits the ops of faults, and itself decides which ops go to clients and
                     which to the nemesis
    """

    name: str
    generator: Generator
    final: Generator | None
    client: str
    checks: tuple[str, ...] = ("queue",)
    client_options: Mapping[str, Any] = field(default_factory=dict)
    consumer_config: Mapping[str, str] = field(default_factory=dict)
    drives_faults: bool = False
    before: Generator | None = None
    hit: Sequence[int] | None = None
