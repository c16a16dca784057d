"""Faults that consist of admin requests: what they request, how they observe their effect, what they undo."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.generator import op
from harness.model.check_options import Settings
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.model.fault_and_generator_protocols import CONSUMER_GROUP, GROUP, SHARE_GROUP, TRANSACTIONS, USES, Env
from harness.model.op import Op
from harness.model.randomness import Draw
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.shared import partition_shapes
from nemesis.shared.placement import Placed, chosen
from nemesis.targets import EVERY_NODE
from nemesis.verbs import elect, elect_unclean, reassign, remove_broker
from nemesis.verbs.config_change import begun_later
from tests.unit.nemesis.test_faults import NODES, FakeCluster, env_of

DRAW = Draw.of(1, "test", 0)


@dataclass
class FakeBrokers:
    """Brokers with a topic "t" of two partitions on three brokers; requests take effect at once."""

    rows: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    configs_now: dict[str, str] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    refuse: set[str] = field(default_factory=set)
    visits: int = 2
    default: str = "2"
    transactions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, replicas in enumerate([(1, 2, 3), (2, 3, 1)]):
            self.rows["t", number] = {"leader": replicas[0], "replicas": replicas, "isr": replicas}

    def __call__(self, name: str, within_s: float, **arguments: Any) -> Any:
        self.requests.append(name)
        if name in self.refuse:
            raise ClusterTrouble(f"{name} was refused")
        return getattr(self, name)(**arguments)

    def partitions(self, everything: bool = False) -> list[dict[str, Any]]:
        return [{"topic": at[0], "partition": at[1], **row} for at, row in self.rows.items()]

    def reassign(self, replicas: list[list[Any]]) -> None:
        for topic, number, ids in replicas:
            row = self.rows[topic, number]
            leader = row["leader"] if row["leader"] in ids else ids[0]
            self.rows[topic, number] = {"leader": leader, "replicas": tuple(ids), "isr": tuple(ids)}

    def elect(self, partitions: list[list[Any]], unclean: bool = False) -> list[list[Any]]:
        for topic, number in partitions:
            row = self.rows[topic, number]
            row["leader"] = row["replicas"][0]
        return [[*at, ""] for at in partitions]

    def add_partitions(self, totals: dict[str, int]) -> None:
        for topic, total in totals.items():
            for number in range(total):
                self.rows.setdefault((topic, number), {"leader": 1, "replicas": (1, 2, 3), "isr": (1, 2, 3)})

    def keys(self) -> list[int]:
        return list(self.starts)

    def places(self) -> list[list[Any]]:
        return [[key, "t", key] for key in self.starts]

    def list_offsets(self, keys: list[int], isolation_level: str) -> list[list[int]]:
        return [[key, self.starts[key], 100] for key in keys]

    def change_configs(self, topics: list[str], changes: dict[str, str | None]) -> None:
        for name, value in changes.items():
            if value is None:
                self.configs_now.pop(name, None)
            else:
                self.configs_now[name] = value
        if self.configs_now.get("retention.ms"):
            self.starts[0] = 7

    def configs(self, topics: list[str], names: list[str]) -> dict[str, dict[str, str]]:
        return {topic: {name: self.configs_now.get(name, self.default) for name in names} for topic in topics}

    def storm_start(self, period_s: float) -> None: ...

    def storm_seen(self) -> dict[str, Any]:
        return {"joined": self.visits, "shared": self.visits}

    storm_stop = storm_seen

    def transactional_ids(self) -> dict[str, str]:
        return self.transactions

    def fence(self, names: list[str]) -> dict[str, int]:
        return {name: 1 for name in names if name != "r-gone"}


def env_with(brokers: FakeBrokers, cluster: FakeCluster | None = None) -> Env:
    return replace(env_of(cluster or FakeCluster()), admin=brokers)


def invoke(name: str, env: Env, begin: str, end: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    (fault,) = table.faults([name], Timing())
    started = fault.nemesis.invoke(env, op(begin)).value
    return started, fault.nemesis.invoke(env, op(end)).value if end else {}


def test_an_election_makes_the_next_replica_in_sync_lead() -> None:
    brokers = FakeBrokers()
    started, _ = invoke("elect:all", env_with(brokers), "elect")
    assert started == {"nodes": [], "took_effect": True, "new_leaders": {"t-0": "n2", "t-1": "n3"}}
    assert brokers.rows["t", 0]["replicas"] == (2, 1, 3)
    row = Placed("t", 0, 3, (1, 2, 3), frozenset({3, 1}))
    assert elect.successor(row) == 1, "the preferred one, which does not lead"
    assert elect.successor(replace(row, leader=1)) == 3, "2 is not in sync"
    assert elect.successor(replace(row, leader=None)) is None


def test_producers_with_an_open_transaction_are_fenced() -> None:
    brokers = FakeBrokers(transactions={"r-1": "Ongoing", "r-2": "CompleteCommit", "r-3": "Ongoing"})
    started, _ = invoke("fence:all", env_with(brokers), "fence")
    assert started == {"nodes": [], "took_effect": True, "fenced": {"r-1": ["Ongoing", 1], "r-3": ["Ongoing", 1]}}
    started, _ = invoke("fence:one", env_with(brokers), "fence")
    assert len(started["fenced"]) == 1 and set(started["fenced"]) < {"r-1", "r-3"}
    started, _ = invoke("fence:one", env_with(FakeBrokers(transactions={"r-2": "Empty"})), "fence")
    assert started["fenced"] == {"r-2": ["Empty", 1]}
    started, _ = invoke("fence:all", env_with(FakeBrokers(transactions={"r-gone": "Ongoing"})), "fence")
    assert not started["took_effect"]
    started, _ = invoke("fence:all", env_with(FakeBrokers()), "fence")
    assert not started["took_effect"] and started["errors"] == ["no client has a transactional id"]


def test_an_election_without_a_candidate_has_no_effect() -> None:
    brokers = FakeBrokers()
    for row in brokers.rows.values():
        row["isr"] = (row["leader"],)
    started, _ = invoke("elect:all", env_with(brokers), "elect")
    assert not started["took_effect"]


@pytest.mark.parametrize(
    ("replicas", "brokers", "new"),
    [
        ((1, 2, 3), (1, 2, 3), (2, 3)),
        ((1, 2, 3), (1, 2, 3, 4), (4, 2, 3)),
        ((1, 2), (1, 2), (2, 1)),
        ((1,), (1,), (1,)),
    ],
)
def test_where_partitions_are_moved(replicas: tuple[int, ...], brokers: tuple[int, ...], new: tuple[int, ...]) -> None:
    row = Placed("t", 0, 1, replicas, frozenset(replicas))
    assert reassign.elsewhere(row, brokers, DRAW) == new


def test_partitions_are_moved_and_put_back() -> None:
    brokers = FakeBrokers()
    before = {at: row["replicas"] for at, row in brokers.rows.items()}
    started, ended = invoke("reassign:all", env_with(brokers), "reassign", "reassign-back")
    assert started["took_effect"] and started["moved"] == 2
    assert started["reassigned"]["t-0"] == [["n1", "n2", "n3"], ["n2", "n3"]]
    assert ended == {"nodes": []}
    assert {at: row["replicas"] for at, row in brokers.rows.items()} == before


def test_a_partition_keeps_only_the_replica_of_its_leader_and_gets_the_others_back() -> None:
    brokers = FakeBrokers()
    started, _ = invoke("reassign:shrink", env_with(brokers), "reassign", "reassign-back")
    assert started["reassigned"] == {"t-0": [["n1", "n2", "n3"], ["n1"]], "t-1": [["n2", "n3", "n1"], ["n2"]]}
    assert brokers.rows["t", 0]["replicas"] == (1, 2, 3)
    settings = table.weakened(Settings(replication=3, min_insync_replicas=2), ["reassign:shrink"])
    assert settings.min_insync_replicas == 1


def test_what_could_not_be_put_back_is_put_back_by_the_next_healing() -> None:
    brokers = FakeBrokers()
    (fault,) = table.faults(["reassign:all"], Timing())
    env = env_with(brokers)
    fault.nemesis.invoke(env, op("reassign"))
    brokers.refuse = {"reassign"}
    with pytest.raises(ClusterTrouble):
        fault.nemesis.invoke(env, op("reassign-back"))
    brokers.refuse = set()
    fault.nemesis.teardown(env)
    assert brokers.rows["t", 0]["replicas"] == (1, 2, 3)
    count = len(brokers.requests)
    fault.nemesis.teardown(env)
    assert len(brokers.requests) == count, "nothing is left to undo"


def test_topics_grow_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = FakeBrokers()
    started, _ = invoke("add-partitions:all", env_with(brokers), "add-partitions")
    assert started == {"nodes": [], "took_effect": True, "partitions": {"t": 3}}
    monkeypatch.setattr("nemesis.verbs.add_partitions.MOST", 2)
    monkeypatch.setattr("nemesis.shared.effects.EFFECT_TIMEOUT_S", 0.1)
    started, _ = invoke("add-partitions:all", env_with(brokers), "add-partitions")
    assert not started["took_effect"]


def test_settings_are_changed_and_taken_back() -> None:
    brokers = FakeBrokers()
    started, ended = invoke("config-change:min-isr-up", env_with(brokers), "config-change", "config-back")
    assert started["took_effect"] and started["settings"] == {"min.insync.replicas": "3"}
    assert ended == {"nodes": []}
    assert brokers.configs_now == {}


def test_a_setting_that_no_broker_confirms_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.shared.effects.EFFECT_TIMEOUT_S", 0.1)
    brokers = FakeBrokers()
    monkeypatch.setattr(brokers, "change_configs", lambda topics, changes: None)
    started, _ = invoke("config-change:min-isr-up", env_with(brokers), "config-change", "config-back")
    assert not started["took_effect"]


def test_what_retention_deletes_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.verbs.config_change.SETTLED_S", 0.0)
    brokers = FakeBrokers()
    started, ended = invoke("config-change:retention", env_with(brokers), "config-change", "config-back")
    assert started["took_effect"]
    assert ended == {"nodes": [], "took_effect": True, "deleted": [[0, 7]]}
    assert begun_later([(1, 5), (2, 5)], [(1, 5), (2, 6), (3, 0)]) == [[2, 6]]


class Checkpointed(FakeCluster):
    """Satisfies Checkpoints: how far each node's log cleaner went, while topics compact."""

    brokers: FakeBrokers
    cleaned: dict[str, str]
    later: dict[str, str]

    def checkpoint(self, node: str, name: str) -> str:
        assert name == "cleaner-offset-checkpoint"
        text = (self.cleaned if self.brokers.configs_now.get("cleanup.policy") else self.later).get(node)
        if text is None:
            raise ClusterTrouble(f"{node} is down")
        return text


def _compacted(cleaned: dict[str, str], later: dict[str, str]) -> Any:
    brokers, cluster = FakeBrokers(), Checkpointed()
    cluster.brokers, cluster.cleaned, cluster.later = brokers, cleaned, later
    _, ended = invoke("config-change:compact", env_with(brokers, cluster), "config-change", "config-back")
    assert brokers.configs_now == {}
    return ended["cleaned"]


NOTHING = dict.fromkeys(NODES, "")


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.verbs.config_change.SETTLED_S", 0.0)


@pytest.mark.usefixtures("_settled")
def test_how_far_the_cleaner_went_is_recorded() -> None:
    """The furthest of all replicas; each of several log directories has a checkpoint."""
    cleaned = {"n1": "0\n1\nt 0 5\n", "n2": "0\n2\nother 1 9\nt 0 7\n0\n1\nt-1 1 3\n", "n3": "0\n0\n"}
    assert _compacted(cleaned, NOTHING) == [[0, 7], [1, 0]]
    assert _compacted(cleaned, {**NOTHING, "n3": "0\n1\nt 1 4\n"}) == [[0, 7], [1, 4]]
    assert _compacted(cleaned, {}) == [], "who cannot be asked then may have cleaned more"


@pytest.mark.usefixtures("_settled")
def test_of_a_node_that_cannot_be_asked_nothing_is_known() -> None:
    brokers = {"n1": "", "n2": ""}
    assert _compacted(brokers, NOTHING) == []
    started, ended = invoke("config-change:compact", env_with(FakeBrokers()), "config-change", "config-back")
    assert started["took_effect"] and ended["cleaned"] == []


@pytest.mark.usefixtures("_settled")
def test_brokers_that_were_cut_off_are_looked_at_when_they_are_back() -> None:
    """A broker continues to compact until it learns that the policy was restored."""
    brokers, cluster = FakeBrokers(), Checkpointed()
    cluster.brokers, cluster.cleaned, cluster.later = brokers, NOTHING, {**NOTHING, "n3": "0\n1\nt 0 9\n"}
    (fault,) = table.faults(["config-change:compact"], Timing())
    env = env_with(brokers, cluster)
    heal = Op(1, 1, "nemesis", "info", "heal", None, None, {"span": ""})
    assert table.invoke([fault], env, heal).value == {}
    fault.nemesis.invoke(env, op("config-change"))
    brokers.rows["t", 0]["isr"] = (1, 2)
    assert fault.nemesis.invoke(env, op("config-back")).value["cleaned"] == [[1, 0]]
    brokers.rows["t", 0]["isr"] = (1, 2, 3)
    assert table.invoke([fault], env, heal).value == {"cleaned": [[0, 9], [1, 0]]}


@pytest.mark.usefixtures("_settled")
def test_a_cleaning_that_is_under_way_may_end_before_the_look() -> None:
    brokers, held = FakeBrokers(), []
    cluster = Checkpointed()
    cluster.brokers, cluster.cleaned, cluster.later = brokers, NOTHING, NOTHING
    cluster.checkpoint = lambda node, name: held.append(dict(brokers.configs_now)) or ""  # type: ignore[method-assign,func-returns-value]
    invoke("config-change:compact", env_with(brokers, cluster), "config-change", "config-back")
    assert held[0] == {"cleanup.policy": "compact", "min.compaction.lag.ms": "604800000"}
    assert held[-1] == {} == brokers.configs_now


@pytest.mark.usefixtures("_settled")
def test_a_look_at_the_cleaner_that_fails_does_not_keep_the_policy() -> None:
    brokers, cluster = FakeBrokers(refuse={"places"}), Checkpointed()
    cluster.brokers, cluster.cleaned, cluster.later = brokers, NOTHING, NOTHING
    _, ended = invoke("config-change:compact", env_with(brokers, cluster), "config-change", "config-back")
    assert ended["cleaned"] == [] and brokers.configs_now == {}


@pytest.mark.parametrize(("visits", "took"), [(2, True), (1, False)])
def test_one_visit_is_no_storm(monkeypatch: pytest.MonkeyPatch, visits: int, took: bool) -> None:
    monkeypatch.setattr("nemesis.shared.effects.EFFECT_TIMEOUT_S", 0.1)
    started, ended = invoke("rebalance:group", env_with(FakeBrokers(visits=visits)), "rebalance", "calm")
    assert started["took_effect"] == ended["took_effect"] == took


@pytest.mark.parametrize(("nodes", "down"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (7, 2)])
def test_how_many_servers_may_be_down(nodes: int, down: int) -> None:
    assert elect_unclean.tolerated(nodes) == down


def test_partitions_that_share_their_replicas_go_together() -> None:
    rows = [
        Placed("t", 0, 1, (1, 2, 3), frozenset({1, 2, 3})),
        Placed("t", 1, 1, (1, 2, 3), frozenset({1, 2})),
        Placed("t", 2, 1, (1, 3, 2), frozenset({1, 2, 3})),
        Placed("t", 3, 1, (1, 4, 2), frozenset({1, 2, 4})),
        Placed("t", 4, 2, (2, 1, 3), frozenset({1, 2, 3})),
    ]
    assert [row.number for row in elect_unclean.together(rows, 1)] == [0, 2]
    assert elect_unclean.together(rows, 3) == []


class Falling(FakeBrokers):
    """Brokers whose ISRs and leaders depend on which brokers are up."""

    cluster: FakeCluster

    def partitions(self, everything: bool = False) -> list[dict[str, Any]]:
        alive = [number for number, node in enumerate(NODES, 1) if node in self.cluster.up_nodes]
        for row in self.rows.values():
            left = tuple(broker for broker in row["isr"] if broker in alive)
            row["isr"] = left or row["isr"]
            if row["leader"] not in alive:
                row["leader"] = left[0] if left else None
        return super().partitions()

    def elect(self, partitions: list[list[Any]], unclean: bool = False) -> list[list[Any]]:
        assert unclean
        for topic, number in partitions:
            row = self.rows[topic, number]
            row["leader"] = next(broker for broker in row["replicas"] if NODES[broker - 1] in self.cluster.up_nodes)
        return []


def test_one_that_was_behind_leads_after_the_others_were_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.verbs.elect_unclean.BEHIND_S", 0.0)
    monkeypatch.setattr("nemesis.targets._busiest", lambda nodes, facts, draw: ["n1"])
    brokers, cluster = Falling(), FakeCluster()
    brokers.cluster = cluster
    started, ended = invoke("elect-unclean:leader", env_with(brokers, cluster), "elect-unclean", "bring-back")
    (late,) = started["nodes"]
    assert started["took_effect"] and started["new_leaders"] == {"t-0": late}
    assert started["killed"] == [late, "n1"]
    assert cluster.done[:3] == [("kill", late), ("kill", "n1"), ("start", late)]
    assert cluster.up_nodes == set(NODES)
    assert brokers.rows["t", 0]["replicas"] == (1, 2, 3)
    assert "unhealthy" not in ended


@pytest.mark.parametrize(
    ("replicas", "brokers", "new"),
    [((1, 2, 3), [1, 2], (1, 2)), ((1, 3), [1, 2, 4], (1, 2)), ((3,), [], (3,))],
)
def test_replicas_without_a_broker(replicas: tuple[int, ...], brokers: list[int], new: tuple[int, ...]) -> None:
    assert remove_broker.without(Placed("t", 0, 3, replicas, frozenset(replicas)), 3, brokers) == new


def test_a_broker_is_drained_stopped_erased_and_filled_again() -> None:
    brokers, cluster = FakeBrokers(), FakeCluster()
    cluster.damage = lambda node, kind, prefix, seed: cluster.done.append((kind, node)) or {"erased": 3}  # type: ignore[attr-defined]
    brokers.brokers = lambda: [[number, ""] for number in (1, 2, 3)]  # type: ignore[attr-defined]
    started, ended = invoke("remove-broker:n3", env_with(brokers, cluster), "remove-broker", "add-broker")
    assert started == {
        "nodes": ["n3"],
        "took_effect": True,
        "moved": 2,
        "unregistered": False,
        "erased": {"erased": 3},
    }
    assert cluster.done == [("stop", "n3"), ("erase", "n3"), ("start", "n3")]
    assert ended == {"nodes": []}
    assert brokers.rows["t", 1]["replicas"] == (2, 3, 1)


def test_a_server_is_cut_off_from_the_controller_alone() -> None:
    assert partition_shapes.from_controller(NODES, ["n2"], ["n3"]) == [("n2", ["n3"]), ("n3", ["n2"])]
    assert partition_shapes.from_controller(NODES, ["n3"], ["n3"]) == [("n1", ["n3"]), ("n3", ["n1"])]
    assert partition_shapes.from_controller(NODES, ["n2"], []) == []


def test_half_of_the_partitions() -> None:
    rows = [Placed("t", number, 1, (1,), frozenset({1})) for number in range(5)]
    assert len(chosen(rows, "some", DRAW)) == 3
    assert chosen(rows, "all", DRAW) == rows


def test_faults_weaken_what_the_settings_promise() -> None:
    safe = Settings(min_insync_replicas=2, unclean_election=False, broker={"a": "b"}, cleanup_policy="delete")
    names = ["elect-unclean:leader", "config-change:min-isr-down", "config-change:retention", "gone:away"]
    weak = table.weakened(safe, names)
    assert weak.unclean_election is True
    assert weak.min_insync_replicas == 1
    assert weak.broker == {"a": "b"}, "what retention deleted is in the history"
    assert table.weakened(safe, ["config-change:compact"]).cleanup_policy == "compact"
    assert table.weakened(safe, ["kill:leader", "config-change:min-isr-up"]) == safe


@pytest.mark.parametrize(
    ("fault", "needed", "how"),
    [
        ("rebalance:group", CONSUMER_GROUP, "with --sub-via subscribe"),
        ("wire:drop-joins", CONSUMER_GROUP, "with --sub-via subscribe"),
        ("kill:group-coordinator", GROUP, "with --sub-via subscribe"),
        ("isolate:share-coordinator", SHARE_GROUP, "--workload share"),
        ("pause:txn-coordinator", TRANSACTIONS, "add --txn"),
        ("wire:cut-after-endtxn", TRANSACTIONS, "add --txn"),
        ("wire:action=delay;api=EndTxn|TxnOffsetCommit;for_s=1", TRANSACTIONS, "add --txn"),
        ("fence:one", TRANSACTIONS, "add --txn"),
    ],
)
def test_a_fault_that_has_nothing_to_act_on_is_refused(fault: str, needed: str, how: str) -> None:
    chosen_faults = table.faults([fault], Timing())
    with pytest.raises(BadInput, match=how):
        table.refuse_pointless(chosen_faults, set(USES) - {needed})
    table.refuse_pointless(chosen_faults, {needed})


@pytest.mark.parametrize("fault", ["wire:refuse-coordinator", "wire:delay-all", "wire:lose-acks", "kill:leader"])
def test_other_faults_act_on_any_load(fault: str) -> None:
    table.refuse_pointless(table.faults([fault], Timing()), ())


def test_faults_that_destroy_copies_say_how_many() -> None:
    safe = Settings(replication=3, min_insync_replicas=2)
    assert table.weakened(safe, ["power-loss:leader"]).unsynced_copies == 1
    assert table.weakened(safe, ["power-loss:leader", "power-loss:all"]).unsynced_copies == EVERY_NODE
    assert table.weakened(safe, ["truncate-tail:n1"]).damaged_copies == 1
    scheduled = table.weakened(safe, ["truncate-tail:n1"], ["truncate-tail:n1"])
    assert scheduled.damaged_copies == EVERY_NODE
