"""The interfaces between packages: generators, clients, faults and workloads.

Everything is a narrow Protocol; nothing is inherited. Clusters are in harness.model.capabilities.
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
    nemesis_free  whether no op of the nemesis is open
    seed          the run's seed: all randomness comes from `draw`
    busy_faults   the faults that have an op open; "" for an op that is no fault's
    """

    time_ns: int
    free: Sequence[Process]
    all: Sequence[Process]
    nemesis_free: bool
    seed: int
    busy_faults: frozenset[str] = frozenset()

    def draw(self, stream: str, n: int) -> Draw:
        """The n-th independent source of randomness of a named stream: the same one at every call."""
        return Draw.of(self.seed, stream, n)


class Generator(Protocol):
    """Pure source of ops. Asking twice gives the same answer; the state is in the generator returned."""

    def op(self, ctx: Context) -> tuple[Op | Pending, Generator] | None:
        """The next op (process -1: any free one), PENDING, or None when exhausted."""

    def update(self, ctx: Context, event: Op) -> Generator:
        """The generator after it has seen an invocation or a completion."""


# --- clusters -----------------------------------------------------------------------------------------


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
    sends  (topic, partition) -> how many of the last sends went there
    effect_s, healthy_s  the most that may be spent on waiting for an effect, and for a healthy cluster
    until_s  when that is over in any case, as time.monotonic() has it
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
    """Applies faults of one verb. `fs`: the op names it answers to."""

    fs: frozenset[str]

    def invoke(self, env: Env, op: Op) -> Op:
        """Apply the fault and say in the value what was hit: see `nemesis` for the fields."""

    def teardown(self, env: Env) -> None:
        """Heal whatever is still broken. Safe to repeat."""


class Rounds(Protocol):
    """The ops of a fault, and its plain rhythm.

    start  the op that begins it
    stop   the op that ends it; None for a fault that is over at once
    """

    @property
    def start(self) -> Op: ...
    @property
    def stop(self) -> Op | None: ...
    def __call__(self, n: int) -> Generator:
        """The n-th round: when it starts and stops."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as a composable package.

    name         "kill:leader"
    nemesis      what carries it out
    rounds       its ops, and when they come
    final        heals it at the end
    needs        capability protocols that the cluster must satisfy
    takes_turns  not on together with others that take turns
    settings     what it makes of fields of harness.model.check_options.Settings, so that less is promised
    subscribed   of use only where consumers subscribe
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
    """What the clients do.

    generator  ops under load
    final      ops after healing, or None
    client     name of the client logic in a worker ("queue")
    checks     names of the checks that judge it
    client_options  plain data for the client
    consumer_config properties that its consumers need, in the library's words; the user's own win
    drives_faults   its generator has ops for the nemesis too, and so says itself which are for clients
    """

    name: str
    generator: Generator
    final: Generator | None
    client: str
    checks: tuple[str, ...] = ("queue",)
    client_options: Mapping[str, Any] = field(default_factory=dict)
    consumer_config: Mapping[str, str] = field(default_factory=dict)
    drives_faults: bool = False
