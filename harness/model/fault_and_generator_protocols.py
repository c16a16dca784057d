"""The interfaces between packages: generators, roles, workers, faults and workloads.

Interfaces are narrow Protocols; no class inherits from them. Those of clusters are in harness.model.capabilities.
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
    """Type of PENDING, which a generator returns when it has no op now but may have one later."""

    def __repr__(self) -> str:
        return "PENDING"


PENDING: Final = Pending()


@dataclass(frozen=True, slots=True)
class Context:
    """The state of the run that a generator may depend on.

    time_ns       time since the start of the run
    free          idle client processes, the longest idle first
    all           all client processes, busy ones too; the position is the slot
    nemesis_free  whether no nemesis op is in progress
    seed          the run's seed; all randomness comes from `draw`
    busy_faults   the faults with an op in progress; "" for a nemesis op that belongs to no fault
    """

    time_ns: int
    free: Sequence[Process]
    all: Sequence[Process]
    nemesis_free: bool
    seed: int
    busy_faults: frozenset[str] = frozenset()

    def draw(self, stream: str, n: int) -> Draw:
        """Return the n-th independent source of randomness of a named stream; the same at every call."""
        return Draw.of(self.seed, stream, n)


class Generator(Protocol):
    """A pure source of ops. Equal calls return equal results; the new state is the returned generator."""

    def op(self, ctx: Context) -> tuple[Op | Pending, Generator] | None:
        """Return the next op (process -1: any free one) or PENDING, and the next generator; None when exhausted."""

    def update(self, ctx: Context, event: Op) -> Generator:
        """Return the generator updated by an invocation or a completion."""


# --- clusters -----------------------------------------------------------------------------------------


@runtime_checkable
class Roles(Protocol):
    """The current roles of the nodes (leader, controller, coordinator), as the cluster reports them."""

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        """Return (topic, partition) -> leader's node, for this run's topics; None for no leader."""

    def topic_prefix(self) -> str:
        """Return the common prefix of the names of this run's topics."""

    def holders(self, role: str) -> Sequence[str]:
        """Return the nodes that have a role: "controller" (one), "txn-coordinator" (one for each of the run's
        transactional ids), "group-coordinator". Empty if the cluster does not report it."""

    def unhealthy(self) -> str:
        """Return what is wrong; empty if every node is registered and every replica is in sync."""


@runtime_checkable
class Workers(Protocol):
    """The run's client processes."""

    def names(self) -> tuple[str, ...]:
        """Return the hosts of the workers, in slot order."""

    def signal(self, name: str, number: int) -> bool:
        """Signal a worker process. Returns False if it does not run. The run replaces a killed worker."""


# --- faults -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Env:
    """What a nemesis may use.

    draw   source of randomness for this invocation
    admin  (name, within_s, **arguments) -> value: sends a request of harness.clients.admin to the brokers;
           raises ClusterTrouble
    sends  (topic, partition) -> number of recent sends to it
    effect_s, healthy_s  time limits of the waits for the fault's effect and for a healthy cluster
    until_s  when both waits end at the latest, by time.monotonic()
    """

    cluster: Cluster
    roles: Roles
    workers: Workers
    draw: Draw
    admin: Callable[..., Any] | None = None
    effect_s: float = math.inf
    healthy_s: float = math.inf
    until_s: float = math.inf
    sends: Mapping[tuple[str, int], int] = field(default_factory=dict)


class Nemesis(Protocol):
    """Applies the faults of one verb. `fs`: the names of the ops that it handles."""

    fs: frozenset[str]

    def invoke(self, env: Env, op: Op) -> Op:
        """Apply the fault. The returned op's value describes what was hit: see `nemesis` for its fields."""

    def teardown(self, env: Env) -> None:
        """Heal all faults that are still active. Safe to repeat."""


class Rounds(Protocol):
    """The ops of a fault, and their default schedule.

    start  the op that starts the fault
    stop   the op that ends it; None for a fault without duration
    """

    @property
    def start(self) -> Op: ...
    @property
    def stop(self) -> Op | None: ...
    def __call__(self, n: int) -> Generator:
        """Return the generator of the n-th round, which emits `start` and `stop` at their times."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as a composable package.

    name         "kill:leader"
    nemesis      applies it
    rounds       its ops and their schedule
    final        ops that heal it at the end of the run
    needs        capability protocols that the cluster must offer
    takes_turns  never active at the same time as another fault that takes turns
    settings     new values of fields of harness.model.check_options.Settings, which weaken the guarantees
    subscribed   useful only if consumers subscribe
    """

    name: str
    nemesis: Nemesis
    rounds: Rounds
    final: Generator
    needs: tuple[type, ...] = ()
    takes_turns: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    subscribed: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: the ops of the clients, and the checks of their history.

    generator  ops during the load phase
    final      ops after healing, or None
    client     name of the client logic in a worker ("queue")
    checks     names of the checks for its history
    client_options  plain data for the client
    consumer_config properties that its consumers need, by the library's names; the user's properties win
    drives_faults   its generator also emits ops for the nemesis, and routes ops to clients and nemesis itself
    """

    name: str
    generator: Generator
    final: Generator | None
    client: str
    checks: tuple[str, ...] = ("queue",)
    client_options: Mapping[str, Any] = field(default_factory=dict)
    consumer_config: Mapping[str, str] = field(default_factory=dict)
    drives_faults: bool = False
