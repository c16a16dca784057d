"""Settings as their owners parse them, and the settings that a cluster reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from harness import history_writer
from harness.model.check_options import InternalTopic, Settings
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.plan import derived
from harness.plan.make_plan import make
from harness.plan.resolve import judged_by
from harness.plan.setting_values import boolean, client_acks, client_boolean, weakest_acks
from harness.plan.settings_in_force import settled
from harness.run import record_cluster_settings


def settings(**values: Any) -> Settings:
    return derived.settings(make(values))


# --- values -------------------------------------------------------------------------------------------


def test_kafka_accepts_true_and_false_in_any_case_and_no_other_words() -> None:
    assert [boolean(text) for text in ("TRUE", " true ", "False", "1", "yes", "")] == [
        True, True, False, None, None, None,
    ]  # fmt: skip


def test_librdkafka_accepts_more_words() -> None:
    words = ("TRUE", "t", "1", "False", "f", "0", "yes")
    assert [client_boolean(word, "confluent") for word in words] == [True, True, True, False, False, False, None]
    assert [client_boolean(word, "java") for word in ("TRUE", "1", "t")] == [True, None, None]


def test_librdkafka_takes_acks_in_capitals_and_java_does_not() -> None:
    assert [client_acks(text, "confluent") for text in ("ALL", "all", "-1", "1", "0", "2")] == [
        "all", "all", "all", "1", "0", None,
    ]  # fmt: skip
    assert [client_acks(text, "java") for text in ("ALL", " all", "-1", "1", "2")] == [None, "all", "all", "1", None]
    assert weakest_acks(["all", "1"]) == "1"
    assert weakest_acks(["all", None]) is None
    assert weakest_acks(["0", None]) == "0"


# --- of a plan ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, {"unclean_election": False, "acks": "all", "idempotence": True, "check_crcs": True}),
        ({"broker_config": {"unclean.leader.election.enable": "TRUE"}}, {"unclean_election": True}),
        ({"broker_config": {"unclean.leader.election.enable": "maybe"}}, {"unclean_election": None}),
        ({"producer_config": {"enable.idempotence": "1"}}, {"idempotence": True}),
        ({"producer_config": {"enable.idempotence": "0"}}, {"idempotence": False}),
        ({"producer_config": {"max.in.flight": "1"}}, {"max_in_flight": 1}),
        ({"producer_config": {"message.send.max.retries": "3"}}, {"retries": 3}),
        ({"client": ("java",), "producer_config": {"acks": "1", "enable.idempotence": "FALSE"}},
         {"acks": "1", "idempotence": False}),
        ({"consumer_config": {"check.crcs": "false"}}, {"check_crcs": False}),
        ({"cluster": "mock"}, {"check_crcs": False}),
        ({"consumer_config": {"group.protocol": "Consumer"}}, {"group_protocol": "consumer"}),
        ({"broker_config": {"min.insync.replicas": "1"}},
         {"min_insync_replicas": 1, "offsets_topic": InternalTopic(3, 1, False)}),
        ({"min_insync_replicas": 1}, {"min_insync_replicas": 1, "offsets_topic": InternalTopic(3, 1, False)}),
        ({"broker_config": {"offsets.topic.replication.factor": "1"}}, {"offsets_topic": InternalTopic(1, 2, False)}),
        ({"broker_config": {"transaction.state.log.min.isr": "1"}},
         {"transactions_topic": InternalTopic(3, 1, False)}),
        ({"cluster_name": "c", "broker_config": {"min.insync.replicas": "1"}},
         {"min_insync_replicas": 2, "offsets_topic": InternalTopic(3, 1, False)}),
        ({"cluster_name": "c"}, {"min_insync_replicas": 2, "offsets_topic": InternalTopic(3, None, False)}),
        ({"cluster": "external", "bootstrap": "b:1"}, {"unclean_election": None, "offsets_topic": InternalTopic()}),
        ({"kafka_version": "3.9", "metadata": "zookeeper"}, {"eligible_leader_replicas": False}),
        ({"kafka_version": "4.1"}, {"eligible_leader_replicas": None}),
        ({"broker_config": {"producer.id.expiration.ms": "5"}}, {"producer_id_expiration_ms": 5}),
    ],
)  # fmt: skip
def test_a_plan_is_read_as_brokers_and_clients_read_it(values: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    made = settings(**values)
    assert {name: getattr(made, name) for name in found} == found


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"producer_config": {"acks": "ALL"}}, "acks=ALL: Kafka's Java client accepts all, -1, 0, 1"),
        (
            {"producer_config": {"enable.idempotence": "1"}},
            "enable.idempotence=1: Kafka's Java client accepts only",
        ),
        ({"consumer_config": {"check.crcs": "no"}}, "check.crcs=no: Kafka's Java client accepts only"),
        ({"producer_config": {"acks": "1"}, "txn": True}, "acks=1 cannot be combined with --txn"),
    ],
)
def test_what_the_java_client_refuses_is_refused_before_anything_starts(
    values: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        make({"client": ("java",), **values})


# --- of a cluster ---------------------------------------------------------------------------------------

TOPIC: Final = {
    "replication": 3,
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "flush.messages": "9223372036854775807",
    "cleanup.policy": "delete",
}
ANSWER: Final[dict[str, Any]] = {
    "run": {"r-0": TOPIC, "r-1": TOPIC},
    "internal": {"__consumer_offsets": TOPIC},
    "brokers": {"1": {"producer.id.expiration.ms": "86400000"}},
    "features": {"metadata.version": 27, "eligible.leader.replicas.version": 1},
}
PLAN: Final = make({})


def answered(**changes: Any) -> Settings:
    return settled(derived.settings(PLAN), {**ANSWER, **changes})


def test_what_the_cluster_says_counts() -> None:
    found = answered()
    assert (found.replication, found.min_insync_replicas, found.unclean_election) == (3, 2, False)
    assert found.eligible_leader_replicas is True
    assert found.offsets_topic == InternalTopic(3, 2, False, (1 << 63) - 1)
    assert found.transactions_topic == derived.settings(PLAN).transactions_topic, "there is none yet"


def test_the_weakest_topic_and_broker_count() -> None:
    weak = {**TOPIC, "replication": 1, "min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    found = answered(run={"r-0": TOPIC, "r-1": {**weak, "cleanup.policy": "compact"}})
    assert (found.replication, found.min_insync_replicas, found.unclean_election) == (1, 1, True)
    assert found.cleanup_policy == "compact"
    brokers = {"1": {"offsets.commit.required.acks": "-1"}, "2": {"offsets.commit.required.acks": "1"}}
    assert answered(brokers=brokers).commit_acks == "1"
    assert answered(brokers={"1": {}, "2": {"producer.id.expiration.ms": "7"}}).producer_id_expiration_ms == 7


def test_a_feature_that_is_not_in_force_is_not_one_that_is_not_known() -> None:
    assert answered(features={"metadata.version": 25}).eligible_leader_replicas is False
    assert answered(features={"eligible.leader.replicas.version": 0}).eligible_leader_replicas is False
    assert settled(derived.settings(PLAN), {"run": {"r-0": TOPIC}}).eligible_leader_replicas is None


@pytest.mark.parametrize("answer", [None, {}, {"run": 7, "internal": [], "brokers": "x", "features": None}])
def test_without_an_answer_the_plan_counts(answer: Any) -> None:
    assert settled(derived.settings(PLAN), answer) == derived.settings(PLAN)


def test_faults_weaken_the_reported_settings() -> None:
    plan = make({"nemesis": ("elect-unclean:leader", "config-change:min-isr-down")})
    found = judged_by(plan, ANSWER).settings
    assert (found.unclean_election, found.min_insync_replicas, found.eligible_leader_replicas) == (True, 1, True)


def test_the_answer_is_noted_in_the_events_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    events = history_writer.Events(tmp_path, 0)
    assert record_cluster_settings.recorded(tmp_path) is None
    events.write("phase", "load")
    record_cluster_settings.record("local", lambda name, within_s, **asked: ANSWER, events)
    found = record_cluster_settings.recorded(tmp_path)
    assert found is not None and found["features"] == ANSWER["features"]
    assert judged_by(PLAN, found).settings == replace(answered(), broker={})


def test_a_cluster_that_does_not_answer_leaves_no_note(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()

    def silent(name: str, within_s: float, **asked: Any) -> Any:
        raise ClusterTrouble("nobody answers")

    record_cluster_settings.record("ssh", silent, history_writer.Events(tmp_path, 0))
    record_cluster_settings.record("mock", lambda name, within_s, **asked: ANSWER, history_writer.Events(tmp_path, 0))
    assert record_cluster_settings.recorded(tmp_path) is None
