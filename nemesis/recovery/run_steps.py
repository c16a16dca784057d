"""Executes the steps of a recovery scenario, each of which is a nemesis op, and records their outcome.

The workload emits the ops. The value of an op says what to do:

    do      stop, kill, start, start-kill, damage, power-off, fill, free, cut-off, join, elect, settle,
            append, again (an idempotent producer's appends: harness.clients.log_model.send_old_sequences)
    who     which servers, as a role: leader, follower, other, two (leader and follower), followers, all
    kind    for damage: the kind of damage (harness.cluster.local.file_damage)
            for start-kill: a regular expression; the server is killed when a line of its log matches it
    ends    for fill: whether to wait until the servers have exited
    unwell  for start: do not wait for a healthy cluster
    ...     all other fields say which outcome checker.checks.recovery shall expect; they are not used here

Roles are assigned at the first step and then stay fixed. "leader" is the server that led the first partition of the
run's first topic at that time, even if another server leads the partition now. The value of the completed op has
`nodes`, `took_effect` and, for a start, the observations of `nemesis.recovery.start_server`.
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


def roles(cluster_facts: Facts, prefix: str) -> dict[str, list[str]]:
    """Returns the nodes of each role: leader, follower, other, two (leader and follower), followers, all.

    `prefix` is the common prefix of the run's topic names. Raises ClusterTrouble if the first partition has no leader.
    """
    leader = cluster_facts.leaders.get((f"{prefix}0", 0))
    if leader is None:
        raise ClusterTrouble(f"the partition {prefix}0-0 has no leader, but the scenario's roles depend on its leader")
    others = [node for node in cluster_facts.nodes if node != leader]
    return {
        "leader": [leader],
        "follower": others[:1],
        "other": others[1:2],
        "two": [leader, *others[:1]],
        "followers": others,
        "all": [leader, *others],
    }


class Steps:
    """The nemesis that executes the ops named `step`. Implements Nemesis."""

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
            done = hit([], False, why=f"no node has the role {value.get('who')}: the cluster has too few nodes")
        else:
            done = self._verbs[value["do"]](env, nodes, value)
        return op.with_(value={**value, **done})

    def teardown(self, env: Env) -> None:
        """Frees the disks and reconnects the network.

        Servers that are still down are not started here, but by the general healing at the end of the run.
        """
        if self._full:
            self._free(env, self._full, {})
        if self._cut:
            self._join(env, [], {})

    def _fill(self, env: Env, nodes: Sequence[str], value: Value) -> Done:
        """Fills the disks. If the value has the field `ends`, waits until the servers have exited."""
        cluster = env.cluster
        assert isinstance(cluster, Disks) and isinstance(cluster, Processes)
        self._full = list(nodes)
        filled = dict(cluster.fill(nodes))
        ended: list[str] = []
        if value.get("ends"):
            all_exited = wait_for(lambda: not any(cluster.running(node) for node in nodes), SETTLE_S)
            ended = list(nodes) if all_exited else []
        effect = any(filled.values()) and (bool(ended) or not value.get("ends"))
        return hit(nodes, effect, filled_bytes=filled, ended=ended)

    def _free(self, env: Env, nodes: Sequence[str], value: Value) -> Done:
        assert isinstance(env.cluster, Disks)
        env.cluster.free(nodes)
        self._full = []
        return hit(nodes, True)

    def _cut_off(self, env: Env, nodes: Sequence[str], value: Value) -> Done:
        """Cuts these brokers off from the other brokers, in both directions. Clients still reach all brokers."""
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
    """Sends SIGTERM to the servers, one after another."""
    assert isinstance(env.cluster, Processes)
    for node in nodes:
        env.cluster.stop(node)
    return _down(env, nodes)


def kill(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Kills the servers at almost the same time.

    Pauses all of them first, so that none of them can react when another one is killed.
    """
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
    """Damages files of servers that are down."""
    assert isinstance(env.cluster, Files)
    kind, prefix = str(value["kind"]), env.roles.topic_prefix()
    done = {node: dict(env.cluster.damage(node, kind, prefix, env.draw.below(1 << 32))) for node in nodes}
    return hit(nodes, all(done.values()), damage=done)


def power_off(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Cuts the power of all these servers at the same moment."""
    assert isinstance(env.cluster, Disks)
    lost = dict(env.cluster.power_off(nodes))
    return {**_down(env, nodes), "lost_bytes": lost}


def elect(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Makes the first of `nodes` the leader of all partitions of the run.

    First makes it the preferred leader of each partition by a reassignment, and then elects the preferred leaders.
    """
    node = nodes[0]
    ids = {name: number for number, name in enumerate(env.cluster.nodes, start=1)}
    order = [ids[node], *(number for name, number in ids.items() if name != node)]

    def others() -> list[list[Any]]:
        return [list(at) for at, leads in env.roles.leaders().items() if leads != node]

    def elected() -> bool:
        not_yet = others()
        if not_yet:
            admin(env, "elect", partitions=not_yet)
        return not not_yet

    to_move = others()
    if to_move:
        admin(env, "reassign", replicas=[[*at, order] for at in to_move])
    return hit([node], bool(wait_for(elected, SETTLE_S)))


def settle(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Waits until the recovery checkpoint on disk shows that every segment but the active one has been flushed."""
    seen: dict[str, Any] = {}

    def settled() -> bool:
        seen.update({node: look(env, node) for node in nodes})
        logs = [log for disk in seen.values() for log in disk["logs"].values()]
        return all((log["point"] or 0) >= log["segments"][-1][0] for log in logs if log["segments"])

    return hit(nodes, bool(wait_for(settled, SETTLE_S)), disk=seen)


def append(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Lets an idempotent producer append to the run's last topic, which is used only for this purpose."""
    assert env.admin is not None
    prefix = env.roles.topic_prefix()
    last = max(int(topic.removeprefix(prefix)) for topic, _ in env.roles.leaders())
    offsets = env.admin("sequences_append", ASK_S, topic=f"{prefix}{last}")
    return hit(nodes, bool(offsets), offsets=offsets)


def again(env: Env, nodes: Sequence[str], value: Value) -> Done:
    """Makes the producer of `append` send its last batch again, and then a batch whose sequence numbers skip some."""
    assert env.admin is not None
    return hit(nodes, True, sequences=env.admin("sequences_again", ASK_S))


class Never:
    """The schedule of a fault that starts no rounds, because the workload emits the fault's ops. Implements Rounds."""

    start: Final = fault_op(STEP, NAME, "all", "")
    stop: Final = None

    def __call__(self, n: int) -> Generator:
        return NOTHING


def fault(disks: bool = False, network: bool = False) -> Fault:
    """Returns the fault whose ops are the steps of recovery scenarios.

    `disks` and `network` say whether the scenario needs the capabilities Disks and Network.
    """
    needs: tuple[type, ...] = (Processes, Files, LogFolders, ServerLogs)
    needs += (Disks,) if disks else ()
    needs += (Network,) if network else ()
    return Fault(NAME, Steps(), Never(), NOTHING, needs)
