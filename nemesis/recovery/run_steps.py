"""The steps of a recovery scenario: what is done to which server, one op after another, and what came of it.

A step is an op of the nemesis, emitted by the workload, whose value says what to do:

    do      stop, kill, start, start-kill, damage, power-off, fill, free, cut-off, join, elect, settle,
            append, again (an idempotent producer's appends: harness.clients.log_model.send_old_sequences)
    who     a role: leader, follower, other, two (leader and follower), followers, all
    kind    damage: what (harness.cluster.local.file_damage); start-kill: a regular expression, searched in the server's
            log: at the first line with it the server is killed
    ...     whatever else is there is expectation, for the check (checker.checks.recovery), and passed on

Roles are given out at the first step, as they then are for the first partition of the run's first topic, and
kept: "leader" is the server that led in the beginning, whatever it does now. The completed value holds
`nodes`, `took_effect`, and for a start what `nemesis.recovery.start_server` has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.generator import NOTHING
from harness.model.capabilities import Disks, Files, LogFolders, Network, Processes, ServerLogs
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env, Fault, Generator
from harness.model.op import Op
from nemesis.recovery.start_server import Done, Value, look, start, start_kill
from nemesis.schedule.timing import fault_op
from nemesis.shared.admin_fault import admin
from nemesis.shared.effects import facts, hit, wait_for
from nemesis.targets import Facts

NAME: Final = "recovery"
STEP: Final = "step"
SETTLE_S: Final = 30.0
ASK_S: Final = 60.0


def roles(known: Facts, prefix: str) -> dict[str, list[str]]:
    """Who is who: see the module. Raises ClusterTrouble where the first partition has no leader."""
    leader = known.leaders.get((f"{prefix}0", 0))
    if leader is None:
        raise ClusterTrouble(f"the partition {prefix}0-0 has no leader: the steps of a scenario go by its roles")
    others = [node for node in known.nodes if node != leader]
    return {
        "leader": [leader],
        "follower": others[:1],
        "other": others[1:2],
        "two": [leader, *others[:1]],
        "followers": others,
        "all": [leader, *others],
    }


class Steps:
    """Carries out the ops `step`. Satisfies Nemesis."""

    def __init__(self) -> None:
        self.fs = frozenset({STEP})
        self._roles: dict[str, list[str]] = {}
        self._full: list[str] = []
        self._cut = False
        self._verbs: Mapping[str, Callable[[Env, Sequence[str], Value], Done]] = {
            "stop": stop,
            "kill": kill,
            "start": start,
            "start-kill": start_kill,
            "damage": damage,
            "power-off": power_off,
            "fill": self._fill,
            "free": self._free,
            "cut-off": self._cut_off,
            "join": self._join,
            "elect": elect,
            "settle": settle,
            "append": append,
            "again": again,
        }

    def invoke(self, env: Env, op: Op) -> Op:
        value = dict(op.value)
        if not self._roles:
            self._roles = roles(facts(env), env.roles.topic_prefix())
        nodes = self._roles.get(str(value.get("who", "all")), [])
        if not nodes:
            done = hit([], False, why=f"nobody is {value.get('who')}: the cluster has too few nodes")
        else:
            done = self._verbs[value["do"]](env, nodes, value)
        return op.with_(value={**value, **done})

    def teardown(self, env: Env) -> None:
        """Room on every disk, every link whole; servers that are down are started by the run's healing."""
        if self._full:
            self._free(env, self._full, {})
        if self._cut:
            self._join(env, [], {})

    def _fill(self, env: Env, nodes: Sequence[str], value: Value) -> Done:
        """With `ends`, wait until the servers have found out, and ended."""
        cluster = env.cluster
        assert isinstance(cluster, Disks) and isinstance(cluster, Processes)
        self._full = list(nodes)
        filled = dict(cluster.fill(nodes))
        ended: list[str] = []
        if value.get("ends"):
            gone = wait_for(lambda: not any(cluster.running(node) for node in nodes), SETTLE_S)
            ended = list(nodes) if gone else []
        effect = any(filled.values()) and (bool(ended) or not value.get("ends"))
        return hit(nodes, effect, filled_bytes=filled, ended=ended)

    def _free(self, env: Env, nodes: Sequence[str], value: Value) -> Done:
        assert isinstance(env.cluster, Disks)
        env.cluster.free(nodes)
        self._full = []
        return hit(nodes, True)

    def _cut_off(self, env: Env, nodes: Sequence[str], value: Value) -> Done:
        """The other brokers and these do not hear each other; clients hear all."""
        cluster = env.cluster
        assert isinstance(cluster, Network)
        rest = [node for node in cluster.nodes if node not in nodes]
        self._cut = True
        for node in nodes:
            cluster.drop(node, rest)
        for node in rest:
            cluster.drop(node, list(nodes))
        seen = wait_for(lambda: any(cluster.dropped(node) for node in (*nodes, *rest)), SETTLE_S)
        return hit(nodes, bool(seen))

    def _join(self, env: Env, nodes: Sequence[str], value: Value) -> Done:
        assert isinstance(env.cluster, Network)
        env.cluster.heal()
        self._cut = False
        return hit(nodes, True)


def stop(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """SIGTERM, one after another."""
    assert isinstance(env.cluster, Processes)
    for node in nodes:
        env.cluster.stop(node)
    return _down(env, nodes)


def kill(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """All in as short a time as can be: paused first, so that none acts on another's end."""
    assert isinstance(env.cluster, Processes)
    for node in nodes:
        env.cluster.pause(node)
    for node in nodes:
        env.cluster.kill(node)
    return _down(env, nodes)


def _down(env: Env, nodes: Sequence[str]) -> Done:
    assert isinstance(env.cluster, Processes)
    still = [node for node in nodes if env.cluster.running(node)]
    return hit(nodes, not still, disk={node: look(env, node) for node in nodes})


def damage(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Of servers that are down."""
    assert isinstance(env.cluster, Files)
    kind, prefix = str(value["kind"]), env.roles.topic_prefix()
    done = {node: dict(env.cluster.damage(node, kind, prefix, env.draw.below(1 << 32))) for node in nodes}
    return hit(nodes, all(done.values()), damage=done)


def power_off(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """In one moment."""
    assert isinstance(env.cluster, Disks)
    lost = dict(env.cluster.power_off(nodes))
    return {**_down(env, nodes), "lost_bytes": lost}


def elect(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Have the first of `nodes` lead all of the run's partitions: it becomes preferred, and is elected."""
    node = nodes[0]
    ids = {name: number for number, name in enumerate(env.cluster.nodes, start=1)}
    order = [ids[node], *(number for name, number in ids.items() if name != node)]

    def others() -> list[list[Any]]:
        return [list(at) for at, leads in env.roles.leaders().items() if leads != node]

    def elected() -> bool:
        left = others()
        if left:
            admin(env, "elect", partitions=left)
        return not left

    left = others()
    if left:
        admin(env, "reassign", replicas=[[*at, order] for at in left])
    return hit([node], bool(wait_for(elected, SETTLE_S)))


def settle(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Wait until every segment but the last is on disk, and the checkpoint on disk says so."""
    seen: dict[str, Any] = {}

    def settled() -> bool:
        seen.update({node: look(env, node) for node in nodes})
        logs = [log for disk in seen.values() for log in disk["logs"].values()]
        return all((log["point"] or 0) >= log["segments"][-1][0] for log in logs if log["segments"])

    return hit(nodes, bool(wait_for(settled, SETTLE_S)), disk=seen)


def append(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """An idempotent producer appends to the run's last topic, made ahead, which no client writes to."""
    assert env.admin is not None
    prefix = env.roles.topic_prefix()
    last = max(int(topic.removeprefix(prefix)) for topic, _ in env.roles.leaders())
    offsets = env.admin("sequences_append", ASK_S, topic=f"{prefix}{last}")
    return hit(nodes, bool(offsets), offsets=offsets)


def again(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """The same producer sends its last batch again, and one that leaves a gap."""
    assert env.admin is not None
    return hit(nodes, True, sequences=env.admin("sequences_again", ASK_S))


class Never:
    """No rhythm: the ops come from the workload. Satisfies Rounds."""

    start: Final = fault_op(STEP, NAME, "all", "")
    stop: Final = None

    def __call__(self, n: int) -> Generator:
        return NOTHING


def fault(disks: bool = False, network: bool = False) -> Fault:
    """The steps as a fault. What a scenario needs beyond processes and files is said."""
    needs: tuple[type, ...] = (Processes, Files, LogFolders, ServerLogs)
    needs += (Disks,) if disks else ()
    needs += (Network,) if network else ()
    return Fault(NAME, Steps(), Never(), NOTHING, needs)
