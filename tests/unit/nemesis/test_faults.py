"""Names of faults, targets, schedules, and what a fault says it hit."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from harness.generator import Clients, Fn, TimeLimit, any_, op
from harness.model.capabilities import CommandResult
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.model.fault_and_generator_protocols import Env
from harness.model.op import NEMESIS, Op
from harness.model.randomness import Draw
from nemesis import table, targets
from nemesis.schedule import timing
from nemesis.schedule.timing import Timing
from nemesis.shared import effects, partition_shapes
from tests.unit.harness.simulated_time import simulate

NODES = ("n1", "n2", "n3")
SECOND = 1_000_000_000


@dataclass
class FakeCluster:
    """Satisfies Cluster, Processes and Network; leadership moves when a leader is gone or cut off."""

    nodes: tuple[str, ...] = NODES
    bootstrap: str = "nowhere:1"
    up_nodes: set[str] = field(default_factory=lambda: set(NODES))
    done: list[tuple[str, ...]] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)

    def up(self, progress: object) -> None: ...
    def down(self) -> None: ...
    def run(self, node: str, argv: object, timeout_s: float) -> CommandResult:
        return CommandResult(0, "", "")

    def kill(self, node: str) -> None:
        self.done.append(("kill", node))
        self.up_nodes.discard(node)

    def start(self, node: str) -> None:
        self.done.append(("start", node))
        self.up_nodes.add(node)

    def stop(self, node: str, within_s: float = 60.0) -> None:
        self.done.append(("stop", node))
        self.up_nodes.discard(node)

    def pause(self, node: str) -> None:
        self.done.append(("pause", node))
        self.cut.add(node)

    def resume(self, node: str) -> None:
        self.done.append(("resume", node))
        self.cut.discard(node)

    def running(self, node: str) -> bool:
        return node in self.up_nodes

    def drop(self, at: str, sources: object) -> None:
        self.done.append(("drop", at, *sources))  # type: ignore[misc]
        if len(list(sources)) > 1:  # type: ignore[call-overload]
            self.cut.add(at)

    def heal(self) -> None:
        self.done.append(("heal",))
        self.cut.clear()

    def dropped(self, at: str) -> int:
        return 3 if any(act[:2] == ("drop", at) for act in self.done) else 0


@dataclass
class FakeRoles:
    cluster: FakeCluster

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        alive = [node for node in NODES if node in self.cluster.up_nodes - self.cluster.cut]
        wanted = {("t", 0): "n2", ("t", 1): "n2", ("t", 2): "n1"}
        return {at: node if node in alive else alive[0] for at, node in wanted.items()}

    def topic_prefix(self) -> str:
        return "r-"

    def holders(self, role: str) -> Sequence[str]:
        return {"controller": ["n3"], "txn-coordinator": ["n1", "n2", "n1"]}.get(role, [])

    def unhealthy(self) -> str:
        return "" if self.cluster.up_nodes == set(NODES) and not self.cluster.cut else "somebody is missing"


@dataclass
class FakeWorkers:
    signalled: list[tuple[str, int]] = field(default_factory=list)

    def names(self) -> tuple[str, ...]:
        return ("w0", "w1")

    def signal(self, name: str, number: int) -> bool:
        self.signalled.append((name, number))
        return True


def env_of(cluster: FakeCluster, workers: FakeWorkers | None = None) -> Env:
    return Env(cluster, FakeRoles(cluster), workers or FakeWorkers(), Draw.of(1, "test", 0))


def test_aliases_and_canonical_names() -> None:
    assert table.canonical("leader-kill, client-crash", NODES) == ("kill:leader", "kill:client")
    assert table.canonical("none", NODES) == ()
    assert table.canonical("pause:n3", NODES) == ("pause:n3",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("leader-kil", "did you mean leader-kill"),
        ("kill:nobody", "no target 'nobody'"),
        ("ring:client", "no target 'client'"),
        ("kill", "no such fault"),
        ("kill:leader,leader-kill", "listed twice"),
    ],
)
def test_bad_names_are_refused_with_a_hint(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        table.canonical(text, NODES)


def test_leader_is_the_node_that_leads_most() -> None:
    facts = targets.Facts(NODES, {("t", 0): "n2", ("t", 1): "n2", ("t", 2): "n1"}, ())
    used = replace(facts, sends={("t", 0): 3, ("t", 2): 4, ("gone", 0): 9})
    assert targets.leader(used, Draw.of(1, "x", 0)) == ["n1"]
    assert targets.leader(replace(facts, sends={("gone", 0): 9}), Draw.of(1, "x", 0)) == ["n2"]
    assert targets.leader(facts, Draw.of(1, "x", 0)) == ["n2"]
    assert targets.follower(facts, Draw.of(1, "x", 0))[0] in ("n1", "n3")


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("kill:leader", ("kill", "n2"), ("start", "n2")), ("pause:leader", ("pause", "n2"), ("resume", "n2"))],
)
def test_a_leader_is_broken_and_mended_and_the_effect_is_the_new_leaders(
    name: str, first: tuple[str, str], last: tuple[str, str]
) -> None:
    cluster = FakeCluster()
    (fault,) = table.faults([name], Timing())
    begin, end = sorted(fault.nemesis.fs, key=lambda f: f in ("restart", "resume"))
    started = fault.nemesis.invoke(env_of(cluster), op(begin))
    assert started.value["nodes"] == ["n2"]
    assert started.value["took_effect"]
    assert started.value["new_leaders"] == {"t-0": "n1", "t-1": "n1"}
    stopped = fault.nemesis.invoke(env_of(cluster), op(end))
    assert stopped.value == {"nodes": ["n2"]}
    assert cluster.done == [first, last]


class NobodyElse(FakeRoles):
    """Partitions stay without a leader when theirs is gone."""

    def leaders(self, timeout_s: float = 5.0) -> Mapping[tuple[str, int], str | None]:
        return dict.fromkeys((("t", 0), ("t", 1)), "n2" if "n2" in self.cluster.up_nodes else None)


def test_where_nobody_else_may_lead_the_effect_is_that_nobody_does() -> None:
    cluster = FakeCluster()
    (fault,) = table.faults(["kill:leader"], Timing())
    env = Env(cluster, NobodyElse(cluster), FakeWorkers(), Draw.of(1, "test", 0), effect_s=0.0)
    started = fault.nemesis.invoke(env, op("kill"))
    assert started.value == {"nodes": ["n2"], "took_effect": True, "new_leaders": {}, "without_leader": 2}


def test_isolate_cuts_both_ways_between_brokers_only() -> None:
    cluster = FakeCluster()
    (fault,) = table.faults(["isolate:leader"], Timing())
    started = fault.nemesis.invoke(env_of(cluster), op("isolate"))
    assert started.value["took_effect"]
    assert cluster.done == [("drop", "n1", "n2"), ("drop", "n2", "n1", "n3"), ("drop", "n3", "n2")]
    stopped = fault.nemesis.invoke(env_of(cluster), op("heal-network"))
    assert stopped.value["dropped_packets"] == {"n1": 3, "n2": 3, "n3": 3}
    assert not cluster.cut


def test_isolating_all_nodes_cuts_every_pair_and_counts_by_its_packets() -> None:
    cluster = FakeCluster()
    (fault,) = table.faults(["isolate:all"], Timing())
    assert not fault.nemesis.invoke(env_of(cluster), op("isolate")).value["took_effect"]
    assert cluster.done == [
        ("drop", "n1", "n2", "n3"),
        ("drop", "n2", "n1", "n3"),
        ("drop", "n3", "n1", "n2"),
    ]
    assert fault.nemesis.invoke(env_of(cluster), op("heal-network")).value["took_effect"]


def test_a_node_that_does_not_run_is_not_hit() -> None:
    cluster = FakeCluster(up_nodes={"n2", "n3"})
    (fault,) = table.faults(["pause:n1"], Timing())
    assert not fault.nemesis.invoke(env_of(cluster), op("pause")).value["took_effect"]
    assert cluster.done == []


def test_what_could_not_be_mended_is_mended_by_the_next_healing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    (fault,) = table.faults(["isolate:leader"], Timing())
    fault.nemesis.invoke(env_of(cluster), op("isolate"))

    def refuse() -> None:
        raise ClusterTrouble("the supervisor does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "heal", refuse)
        with pytest.raises(ClusterTrouble):
            fault.nemesis.invoke(env_of(cluster), op("heal-network"))
    assert fault.nemesis.invoke(env_of(cluster), op("heal-network")).value["nodes"] == ["n2"]
    assert not cluster.cut


def test_faults_on_nodes_take_turns_and_those_on_clients_go_on_beside_them() -> None:
    chosen = table.faults(["kill:leader", "pause:leader", "kill:client"], Timing(first_s=5.0, interval_s=10.0))
    under_load = table.under_load(chosen)
    assert under_load is not None
    load = TimeLimit(any_(under_load, Clients(Fn(lambda ctx, n: op("a")))), 30 * SECOND)
    events = simulate(load, concurrency=1, latency_ns=100_000_000)
    invoked = [event for event in events if event.process == NEMESIS and event.extra["phase"] == "invoke"]
    on_nodes = [event.f for event in invoked if event.extra["fault"] != "kill:client"]
    assert on_nodes == ["kill", "restart", "pause", "resume", "kill"]
    assert [event.extra["fault"] for event in invoked].count("kill:client") == 3


def test_a_kill_that_moves_no_leader_did_not_take_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.shared.effects.EFFECT_TIMEOUT_S", 0.1)
    cluster = FakeCluster()
    monkeypatch.setattr(cluster, "kill", lambda node: None)
    (fault,) = table.faults(["kill:leader"], Timing())
    assert not fault.nemesis.invoke(env_of(cluster), op("kill")).value["took_effect"]


def test_client_kill() -> None:
    workers = FakeWorkers()
    (fault,) = table.faults(["kill:client"], Timing())
    done = fault.nemesis.invoke(env_of(FakeCluster(), workers), op("kill"))
    assert done.value["took_effect"]
    assert workers.signalled == [(done.value["clients"][0], signal.SIGKILL)]


def test_a_fault_that_the_cluster_cannot_do_is_refused() -> None:
    class Bare:
        nodes, bootstrap = NODES, ""

        def up(self, progress: object) -> None: ...
        def down(self) -> None: ...
        def run(self, node: str, argv: object, timeout_s: float) -> CommandResult:
            return CommandResult(0, "", "")

    chosen = table.faults(["isolate:leader"], Timing())
    with pytest.raises(BadInput, match="needs Network, which is not there"):
        table.refuse_unsupported(chosen, Bare(), "is not there", {})


def test_schedule_starts_stops_and_always_heals() -> None:
    chosen = table.faults(["kill:leader"], Timing(first_s=5.0, interval_s=10.0))
    under_load = table.under_load(chosen)
    assert under_load is not None
    load = TimeLimit(any_(under_load, Clients(Fn(lambda ctx, n: op("a")))), 30 * SECOND)
    events = simulate(load, concurrency=1, latency_ns=100_000_000)
    faults = [(event.f, round(event.time_ns / SECOND)) for event in events if event.process == NEMESIS][::2]
    assert faults == [("kill", 5), ("restart", 10), ("kill", 15), ("restart", 20), ("kill", 25)]
    healing = [event.f for event in simulate(table.healing(chosen, 10.0)) if event.process == NEMESIS][::2]
    assert healing == ["restart", "heal"]


def test_heal_says_what_is_still_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.shared.effects.HEALTHY_TIMEOUT_S", 0.1)
    cluster = FakeCluster(cut={"n1"})
    healed: Op = table.invoke((), env_of(cluster), op("heal"))
    assert healed.error == "somebody is missing"


def test_the_wait_for_health_takes_no_longer_than_the_op_says() -> None:
    last = [op for op in simulate(table.healing((), 0.1)) if op.process == NEMESIS][-1]
    began = time.monotonic()
    healed: Op = table.invoke((), env_of(FakeCluster(cut={"n1"})), last)
    assert healed.error == "somebody is missing"
    assert time.monotonic() - began < effects.HEALTHY_TIMEOUT_S / 2


def test_mending_one_partition_leaves_the_other_one_that_is_on() -> None:
    cluster = FakeCluster()
    chosen = table.faults(["isolate-in:n1", "isolate-in:n3"], Timing())
    for fault in chosen:
        table.invoke(chosen, env_of(cluster), fault.rounds.start)
    stop = chosen[0].rounds.stop
    assert stop is not None
    cluster.done.clear()
    table.invoke(chosen, env_of(cluster), timing.patient(stop, healthy_s=0))
    assert cluster.done == [("heal",), ("drop", "n3", "n1", "n2")]
    table.invoke(chosen, env_of(cluster), chosen[0].rounds.start)
    cluster.done.clear()
    table.teardown(chosen, env_of(cluster))
    assert cluster.done == [("heal",), ("heal",)]


def test_heal_starts_what_has_ended_meanwhile() -> None:
    cluster = FakeCluster(up_nodes={"n1"})
    assert table.invoke((), env_of(cluster), op("heal")).value == {"started": ["n2", "n3"]}
    assert cluster.up_nodes == set(NODES)


@pytest.mark.parametrize(
    ("name", "hits"),
    [("kill:controller", ["n3"]), ("kill:txn-coordinator", ["n1"]), ("kill:group-coordinator", [])],
)
def test_holders_of_a_role_are_asked_for(name: str, hits: list[str]) -> None:
    (fault,) = table.faults([name], Timing())
    value = fault.nemesis.invoke(env_of(FakeCluster()), op("kill")).value
    assert value["nodes"] == hits
    assert value["took_effect"] == bool(hits)


def test_minority_and_majority_hold_the_leader() -> None:
    facts = targets.Facts(("n1", "n2", "n3", "n4", "n5"), {("t", 0): "n4"}, ())
    for seed in range(20):
        few = targets.minority(facts, Draw.of(seed, "x", 0))
        many = targets.majority(facts, Draw.of(seed, "x", 0))
        assert few[0] == many[0] == "n4"
        assert (len(set(few)), len(set(many))) == (2, 3)


def _cuts(name: str, nodes: Sequence[str], hit: Sequence[str]) -> dict[str, set[str]]:
    return {at: set(silent) for at, silent in partition_shapes.ALL[name](nodes, hit, ("w0", "w1"))}


def test_shapes_of_partitions() -> None:
    five = ("n1", "n2", "n3", "n4", "n5")
    assert _cuts("isolate-in", NODES, ["n2"]) == {"n2": {"n1", "n3"}}
    assert _cuts("isolate-out", NODES, ["n2"]) == {"n1": {"n2"}, "n3": {"n2"}}
    assert _cuts("split", five, ["n1", "n2"]) == {
        **{at: {"n3", "n4", "n5"} for at in ("n1", "n2")},
        **{at: {"n1", "n2"} for at in ("n3", "n4", "n5")},
    }
    assert _cuts("cut-clients", NODES, ["n1"]) == {"n1": {"w0", "w1"}, "w0": {"n1"}, "w1": {"n1"}}


@pytest.mark.parametrize("count", range(3, 8))
def test_in_a_ring_every_node_hears_another_majority(count: int) -> None:
    nodes = tuple(f"n{i}" for i in range(1, count + 1))
    silent = _cuts("ring", nodes, nodes)
    heard = {at: frozenset(nodes) - silent[at] for at in nodes}
    assert all(at in heard[at] and len(heard[at]) == count // 2 + 1 for at in nodes)
    assert len(set(heard.values())) == count


def test_a_client_is_cut_off_from_every_server() -> None:
    cluster = FakeCluster()
    (fault,) = table.faults(["isolate:client"], Timing())
    started = fault.nemesis.invoke(env_of(cluster), op("isolate"))
    (name,) = started.value["nodes"]
    assert started.value["took_effect"]
    assert cluster.done == [("drop", name, *NODES), *(("drop", node, name) for node in NODES)]


def test_a_rolling_restart_takes_one_after_another() -> None:
    cluster = FakeCluster()
    (fault,) = table.faults(["rolling-restart:all"], Timing())
    value = fault.nemesis.invoke(env_of(cluster), op("rolling-restart")).value
    assert value == {"nodes": list(NODES), "took_effect": True}
    assert cluster.done == [(act, node) for node in NODES for act in ("stop", "start")]


def test_a_clean_restart_moves_leaders() -> None:
    cluster = FakeCluster()
    (fault,) = table.faults(["restart:leader"], Timing())
    assert fault.nemesis.invoke(env_of(cluster), op("shutdown")).value["took_effect"]
    fault.nemesis.invoke(env_of(cluster), op("start"))
    assert cluster.done == [("stop", "n2"), ("start", "n2")]


def test_older_halves_of_logs_are_deleted_and_recorded() -> None:
    requests: list[tuple[str, Mapping[str, object]]] = []

    def admin(name: str, within_s: float, **arguments: object) -> object:
        requests.append((name, arguments))
        answers = {"keys": [1, 2, 3], "list_offsets": [[1, 0, 9], [2, 4, 4], [3, 10, 12]]}
        return answers.get(name, [[1, 5], [3, 11]])

    env = replace(env_of(FakeCluster()), admin=admin)
    (fault,) = table.faults(["delete-records:all"], Timing())
    value = fault.nemesis.invoke(env, op("delete-records")).value
    assert value == {"nodes": [], "took_effect": True, "deleted": [[1, 5], [3, 11]]}
    assert requests[-1] == ("delete_records", {"before": [[1, 5], [3, 11]]})
    assert table.canonical("delete-records", NODES) == ("delete-records:some",)


def test_lost_acknowledgements_are_of_one_direction() -> None:
    assert _cuts("lose-acks", NODES, ["n1"]) == {"w0": {"n1"}, "w1": {"n1"}}


class Slow(FakeCluster):
    """A cluster whose servers do not end of SIGTERM."""

    def stop(self, node: str, within_s: float = 60.0) -> None:
        self.done.append(("stop", node))
        raise ClusterTrouble(f"{node} did not end in {within_s:.0f} s")


def test_who_does_not_end_in_order_is_killed_and_that_is_told() -> None:
    cluster = Slow()
    (fault,) = table.faults(["rolling-restart:n2"], Timing())
    value = fault.nemesis.invoke(env_of(cluster), op("rolling-restart")).value
    assert value["nodes"] == ["n2"] and value["took_effect"] and value["killed"] == ["n2"]
    assert cluster.done == [("stop", "n2"), ("kill", "n2"), ("start", "n2")]


def test_waits_end_with_the_time_that_is_left() -> None:
    env = replace(env_of(FakeCluster()), until_s=time.monotonic() - 1)
    assert effects.health_s(env) == 0.0
    assert effects.stop_s(env) == effects.STOP_LEAST_S
    patient = timing.patience(env, timing.patient(op("heal"), healthy_s=12.0))
    assert effects.health_s(patient) == 12.0
