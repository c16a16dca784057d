"""The group protocol of the queue workload: defaults, rules, and which process uses which protocol."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived, groups
from harness.plan.make_plan import make
from harness.run import start_workers, worker

CONSUMER = {"group.protocol": "consumer"}


def test_the_new_protocol_subscribes_and_has_short_sessions() -> None:
    plan = make({"group_protocol": "both"})
    assert plan.sub_via == ("subscribe",)
    assert plan.broker_config["group.consumer.session.timeout.ms"] == "6000"
    assert derived.settings(plan).group_protocol == "consumer"
    assert make({"group_protocol": "consumer", "sub_via": ("assign", "subscribe")}).sub_via == ("assign", "subscribe")
    own = {"group.consumer.session.timeout.ms": "9000"}
    assert make({"group_protocol": "consumer", "broker_config": own}).broker_config.items() >= own.items()
    plain = make({})
    assert plain.sub_via == ("assign",) and not plain.broker_config and groups.properties(plain) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workload": "pipeline"}, "requires --workload queue or delivery; a pipeline has --assignor"),
        ({"sub_via": ("assign",)}, "has no effect with --sub-via assign"),
        ({"kafka_version": "3.9"}, "needs brokers of Kafka 4.0"),
        ({"cluster": "mock"}, "needs brokers of Kafka 4.0"),
        ({"client": "aiokafka"}, "--client aiokafka has no such protocol"),
        ({"client": "exec:./x", "group_protocol": "both"}, "a client program gets one protocol"),
        ({"sub_pattern": True, "workload": "share", "kafka_version": "4.3"}, "--sub-pattern requires --workload queue"),
        ({"sub_pattern": True, "client": "exec:./x"}, "--sub-pattern: --client exec:./x cannot do this"),
        ({"static_members": True, "sub_via": ("assign",)}, "--static-members has no effect with --sub-via assign"),
        ({"consumer_config": CONSUMER}, "cannot be combined with --consumer-config group.protocol"),
        ({"group_protocol": "classic", "remote_assignor": "range"}, "--remote-assignor range has no effect with"),
        (
            {"group_protocol": "classic", "remote_assignor": "range", "sub_via": ("subscribe",)},
            "--remote-assignor range requires --group-protocol consumer or both",
        ),
    ],
)
def test_what_does_not_go_together(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make({"group_protocol": "consumer", **given})


def protocols(plan_values: dict[str, Any], processes: list[int]) -> list[str]:
    config = start_workers.client_config(make(plan_values), "127.0.0.1:1")
    made = [worker.of_process(config, process)["consumer_config"] for process in processes]
    return [each.get("group.protocol", "") for each in made]


def test_slots_take_turns_and_a_new_process_changes_the_protocol() -> None:
    both: dict[str, Any] = {"group_protocol": "both", "concurrency": 4}
    assert protocols(both, [0, 1, 2, 3]) == ["classic", "consumer"] * 2
    assert protocols(both, [4, 5]) == ["consumer", "classic"]
    assert protocols({"group_protocol": "consumer"}, [0, 1]) == ["consumer"] * 2
    assert protocols({}, [0, 1]) == ["", ""]


def test_all_processes_of_a_slot_are_one_static_member() -> None:
    config = {"concurrency": 3, "libraries": ["confluent"], "static_members": True, "consumer_config": {"a": "b"}}
    named = {process: worker.of_process(config, process)["consumer_config"] for process in (1, 4, 5)}
    assert named[1] == named[4] == {"group.instance.id": "slot-1", "a": "b"}
    assert named[5]["group.instance.id"] == "slot-2"


def test_a_plan_with_static_members_and_a_pattern() -> None:
    plan = make({"group_protocol": "consumer", "static_members": True, "sub_pattern": True})
    assert groups.static(plan)
    assert not groups.static(make({"workload": "pipeline", "static_members": True}))
