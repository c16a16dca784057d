"""Defaults and rules of the options of share groups."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster.distribution import versions
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import share
from harness.plan.make_plan import make
from harness.plan.resolve import workload_of


def plan(**options: Any) -> Any:
    return make({"workload": "share", **options})


def test_the_default_version_has_share_groups() -> None:
    assert versions.parse_version(plan().kafka_version) >= share.SINCE


def test_brokers_allow_the_times_of_the_plan_and_know_the_limit() -> None:
    config = plan(share_session_s=4, share_delivery_limit=3).broker_config
    assert config["group.share.session.timeout.ms"] == "4000"
    assert config["group.share.delivery.count.limit"] == "3"


def test_the_groups_settings_follow_the_plan() -> None:
    found = plan(auto_offset_reset="latest", isolation_level="read_uncommitted", share_lock_s=2)
    assert share.group_config(found) == {
        "share.isolation.level": "read_uncommitted",
        "share.auto.offset.reset": "latest",
        "share.record.lock.duration.ms": "2000",
    }


def test_the_java_client_has_the_version_of_the_brokers() -> None:
    assert plan(client=("confluent", "java"), kafka_version="4.4.0").client_version == "java=4.4.0"


def test_the_workload_has_the_options_of_the_plan() -> None:
    found = workload_of(plan(share_topics=3, share_acknowledgement="implicit"))
    assert found.client_options == {"topics": 3, "acknowledgement": "implicit"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kafka_version": "3.9.2"}, "Kafka has share groups since 4.1"),
        ({"kafka_version": "4.1.2"}, "do not enable the feature share.version"),
        ({"cluster": "mock"}, "has no share groups"),
        ({"client": ("aiokafka",)}, "supports confluent and java"),
        ({"client": ("java",), "client_version": "4.1.1"}, "stable since 4.2"),
        ({"concurrency": 2}, "need a member each"),
        ({"broker_config": {"group.share.delivery.count.limit": "7"}}, "use --share-delivery-limit 7"),
        ({"share_dead_letters": True, "kafka_version": "4.3.1"}, "Kafka 4.3.1 has no dead letter queues"),
        ({"share_dead_letters": True, "bootstrap": "b:9092"}, "a cluster that the harness starts"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        plan(**options)


def test_the_share_coordinator_needs_share_groups() -> None:
    with pytest.raises(BadInput, match="needs --workload share"):
        make({"nemesis": ("kill:share-coordinator",)})


def test_dead_letter_queues_need_a_version_that_has_them() -> None:
    assert versions.parse_version(plan(share_dead_letters=True).kafka_version) >= share.DEAD_LETTERS


def test_dead_letter_queues_need_share_groups() -> None:
    with pytest.raises(BadInput, match="--share-dead-letters needs --workload share"):
        make({"share_dead_letters": True})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"nemesis": ("add-partitions:all",)}, "cannot be combined"),
        ({"auto_offset_reset": "latest"}, "needs --auto-offset-reset earliest"),
        ({"partitions": 101}, "supports up to 100 partitions"),
    ],
)
def test_topics_are_created_again_only_where_the_check_can_judge_it(options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        plan(share_recreate=True, **options)
    assert workload_of(plan(share_recreate=True, time_limit_s=20)).client_options["partitions_max"] == 100
