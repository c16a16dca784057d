"""Plans: validation, YAML, and the command line's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import parameters
from harness.cli.app import invoke
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived, from_options, make_plan, plan_file
from harness.plan.test_plan import TestPlan
from harness.run import attached_cluster


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"txn": True, "acks": "1"}, "--txn needs --acks all"),
        ({"idempotence": True, "acks": "0"}, "--idempotence needs --acks all"),
        ({"acks": "2"}, "--acks 2"),
        ({"rate_hz": -1}, "--rate -1"),
        ({"time_limit_s": 0}, "--time-limit 0"),
        ({"concurrency": 0}, "--concurrency 0"),
        ({"min_txn_length": 5, "max_txn_length": 2}, "--min-txn-length 5"),
        ({"delivery_timeout_s": 60}, "would outlive its op"),
        ({"reuse_producers": True, "txn": True}, "cannot be combined with --txn"),
        ({"reuse_producers": True, "workload": "share"}, "cannot be combined with --workload share"),
        ({"replication": 5}, "needs at least 5 nodes, but --nodes is"),
        ({"nodes": 1, "min_insync_replicas": 2}, "no acks=all send could succeed"),
        ({"txn": True, "retries": 0}, "rely on retries"),
        ({"txn": True, "idempotence": False}, "transactional producers are idempotent"),
        ({"log_dirs": 2, "kafka_version": "3.4"}, "only one log directory per broker with KRaft"),
        ({"log_dirs": 2, "cluster": "mock"}, "--log-dirs 2 requires --cluster local"),
        ({"nonsense": 1}, "--nonsense: no such option"),
        ({"rate_hz": float("inf")}, "--rate inf"),
        ({"nemesis_interval_s": float("inf")}, "--nemesis-interval inf"),
        ({"time_limit_s": float("nan")}, "--time-limit nan"),
        ({"producer_config": {"retries": "many"}}, "--producer-config retries=many: must be a whole number"),
        ({"nodes": 16}, "--nodes 16"),
        ({"abort_p": 2}, "--abort-p 2"),
        ({"seed": -1}, "--seed -1"),
        ({"cluster": "sim", "nemesis": ("kill:leader",)}, "no processes to inject faults into"),
        ({"sim_bugs": ("phantom",)}, "requires --cluster sim"),
        ({"cluster": "sim", "sim_bugs": ("fantom",)}, "no such bug"),
        ({"sub_via": ("phone",)}, "--sub-via phone"),
        ({"kafka_version": "latest"}, "--kafka-version latest: must be three numbers"),
        ({"kafka_version": "2.3.1"}, "2.3.1: must be 2.4.0 or newer"),
        ({"kafka_version": "4.1", "metadata": "zookeeper"}, "--metadata zookeeper with Kafka 4.1.2"),
        ({"kafka_version": "2.8", "metadata": "kraft"}, "use --metadata zookeeper"),
        ({"metadata": "etcd"}, "--metadata etcd"),
        ({"kafka_version": "2.8", "controllers": 3}, "--controllers 3 requires KRaft"),
        ({"controllers": 6}, "--controllers 6"),
        ({"cluster": "mock", "controllers": 3}, "--controllers 3 requires --cluster local"),
    ],
)
def test_invalid_plans_are_refused_by_option_name(values: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_plan.make(values)


def test_defaults_adapt_to_fewer_nodes() -> None:
    one = make_plan.make({"nodes": 1})
    assert (derived.replication_factor(one), derived.min_isr(one)) == (1, 1)


def test_a_series_is_written_as_its_last_patch_and_has_its_metadata() -> None:
    old = make_plan.make({"kafka_version": "2.4"})
    assert (old.kafka_version, derived.metadata_mode(old)) == ("2.4.1", "zookeeper")
    assert derived.metadata_mode(make_plan.make({"kafka_version": "3.9.2"})) == "kraft"
    assert derived.metadata_mode(make_plan.make({"kafka_version": "3.9.2", "metadata": "zookeeper"})) == "zookeeper"


def test_idempotence_is_on_where_a_retry_would_make_duplicates() -> None:
    assert derived.idempotent(make_plan.make({}))
    assert not derived.idempotent(make_plan.make({"idempotence": False}))
    assert not derived.idempotent(make_plan.make({"acks": "1"}))
    assert not derived.idempotent(make_plan.make({"retries": 0}))
    assert derived.settings(make_plan.make({"txn": True})).idempotence


def test_yaml_round_trip(tmp_path: Path) -> None:
    first = make_plan.make({"txn": True, "nemesis": ("kill:leader",), "producer_config": {"linger.ms": "5"}})
    (tmp_path / "plan.yaml").write_text(plan_file.dump(first))
    assert plan_file.load(tmp_path / "plan.yaml") == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acks: [", "plan.yaml:"),
        ("acks: 1\nacks: all\n", "duplicate key"),
        ("!!python/object:os.system {}", "not a plan"),
        ("- 1\n", "a mapping of options"),
        ("schema: 99\n", "newer harness"),
        ("acks: all\nnemsis: []\n", "plan.yaml:2:1: nemsis: no such key; did you mean nemesis?"),
        ("\x00", "plan.yaml: not a plan"),
        ("nemesis_interval_s: fast\n", "plan.yaml:1:21: nemesis_interval_s fast: "),
        ("txn: true\nacks: '1'\n", "plan.yaml: --txn needs --acks all"),
    ],
)
def test_a_bad_plan_file_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        plan_file.load(path)


def test_every_option_is_a_field_of_the_plan() -> None:
    assert {field for field, _, _ in parameters.options()} <= set(TestPlan.model_fields)


def test_options_override_a_plan_file() -> None:
    base = {"acks": "1", "broker_config": {"a": "1"}}
    values = from_options.plan_values(
        {"acks": "all", "broker_config": ["b=2"], "nemesis": "none", "sub_via": "assign,subscribe"}, base
    )
    assert values["acks"] == "all"
    assert values["broker_config"] == {"a": "1", "b": "2"}
    assert values["nemesis"] == ()
    assert values["sub_via"] == ("assign", "subscribe")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--nope"], "No such option"),
        (["run", "--rate", "x"], "--rate"),
        (["run", "--acks", "7"], "--acks 7"),
        (["run", "--txn", "--acks", "1"], "--txn needs --acks all"),
        (["run", "--nemesis", "leader-kil"], "did you mean leader-kill"),
        (["run", "--workload", "knapsack"], "--workload knapsack"),
        (["run", "--kafka-version", "four"], "four"),
        (["run", "--kafka-version", "2.3.1"], "must be 2.4.0 or newer"),
        (["run", "--nodes", "99"], "--nodes 99"),
        (["run", "--cluster", "cloud"], "--cluster cloud"),
        (["run", "--client", "no-such-client"], "--client no-such-client"),
        (["run", "--nemesis", "kill:moon"], "no target 'moon'"),
        (["run", "--nemesis", "leader-kill,leader-kill"], "listed twice"),
        (["run", "--broker-config", "listeners=x"], "this setting is reserved for the harness"),
        (["run", "extra"], "unexpected extra argument"),
        (["list", "--limit", "-1"], "--limit"),
        (["show", "--witnesses", "-1"], "--witnesses"),
        (["check"], "Missing argument"),
        (["check", "--sub-via", "phone", "x"], "--sub-via phone"),
        (["run", "--cluster", "mock", "--nemesis", "leader-kill"], "needs Processes"),
        (["run", "--network", "loopback", "--nemesis", "leader-isolate"], "needs Network"),
        (["run", "--broker-config", "novalue"], "key=value"),
        (["run", "--plan", "no-such-file.yaml"], "no-such-file.yaml"),
        (["frobnicate"], "No such command"),
        (["show", "no-such-run"], "no-such-run"),
        (["check", "no-such-run"], "no-such-run"),
    ],
)
def test_bad_arguments_are_one_message_and_254(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke(arguments) == 254
    heard = capsys.readouterr()
    assert message in heard.err
    assert "Traceback" not in heard.err + heard.out


def test_help_exits_zero(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["run"], ["check"], ["list"], ["show"], ["doctor"]):
        assert invoke([*command, "--help"]) == 0
    assert "leader-isolate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "queue"),
        ({"nemesis": ["kill:leader", "wire:late-endtxn"]}, "kill-leader-wire-late-endtxn"),
        ({"nemesis": ["wire:action=hold;api=EndTxn|Produce;for_s=3"]}, "wire-rule"),
        ({"schedule": [{"fault": "kill:leader", "at": 1}]}, "schedule"),
    ],
)
def test_a_run_is_named_as_topics_may_be(values: dict[str, object], name: str) -> None:
    assert attached_cluster.run_name(make_plan.make(values)) == name
