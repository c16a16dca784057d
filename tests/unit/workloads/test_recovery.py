"""The recovery workload in simulated time, and its table."""

from __future__ import annotations

import pytest

from harness.cluster.local import file_damage
from harness.generator import Barrier, Then
from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import INVOKE, NEMESIS, Op
from harness.plan import derived
from harness.plan.make_plan import make
from tests.unit.harness.simulated_time import simulate
from workloads.recovery.scenarios import SCENARIOS
from workloads.recovery.step_types import Act, Read, Scenario, Send
from workloads.recovery.workload import acts, generator


def _events(steps: tuple[Send | Read | Act, ...]) -> list[Op]:
    return simulate(Then((Barrier(generator(Scenario("x", "", steps), 2, 200.0)),)), seed=1)


def _step_text(event: Op) -> str:
    return str(event.value["do"]) if event.process == NEMESIS else event.f


def test_a_step_begins_when_the_one_before_has_ended() -> None:
    events = _events((Send(5), Act("kill"), Act("start"), Send(3)))
    begun = [_step_text(event) for event in events if event.type == INVOKE or event.process == NEMESIS]
    assert begun == ["send"] * 5 + ["kill"] * 2 + ["start"] * 2 + ["send"] * 3
    sends = [event.value[0] for event in events if event.type == INVOKE and event.f == "send"]
    assert sends == [["send", n % 2, n // 2] for n in range(8)]


def test_an_action_during_sends_is_concurrent_with_them() -> None:
    events = _events((Send(200, Act("kill"), 0.5),))
    at = next(n for n, event in enumerate(events) if event.process == NEMESIS)
    assert 0 < at < len(events) - 20
    assert 400_000_000 < events[at].time_ns < 700_000_000


def test_one_client_reads() -> None:
    events = _events((Send(1), Read(4)))
    read = [event for event in events if event.type == INVOKE and event.f in ("assign", "poll")]
    assert [event.f for event in read] == ["assign"] + ["poll"] * 4
    assert len({event.process for event in read}) == 1


def test_acts_are_numbered_and_the_first_says_what_the_scenario_allows() -> None:
    events = _events((Act("settle"), Send(2, Act("fill")), Act("start")))
    values = [event.value for event in events if event.process == NEMESIS and "phase" not in event.extra]
    values = values or [event.value for event in events if event.process == NEMESIS][::2]
    assert [value["number"] for value in values] == [0, 1, 2]
    assert all(value["of"] == 3 for value in values)
    assert values[0]["rule"] == {"lost": False, "reported": False}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_row_is_a_plan_of_known_acts(name: str) -> None:
    row = SCENARIOS[name]
    plan = make({"workload": "recovery", "scenario": name})
    assert plan.nodes >= row.nodes_min and derived.settings(plan).damaged_copies == row.damaged
    assert acts(row) == sum(isinstance(step, Act) or getattr(step, "during", None) is not None for step in row.steps)
    done = [step if isinstance(step, Act) else getattr(step, "during", None) for step in row.steps]
    for act in filter(None, done):
        assert act.do != "damage" or act.kind in file_damage.KINDS
    disks = any(act.do in ("power-off", "fill", "free") for act in filter(None, done))
    network = any(act.do in ("cut-off", "join") for act in filter(None, done))
    assert row.needs == {*(["disks"] if disks else []), *(["network"] if network else [])}


def test_the_user_has_the_last_word_over_a_scenario() -> None:
    plan = make(
        {
            "workload": "recovery",
            "scenario": "kill-restart",
            "record_bytes": 500,
            "broker_config": {"log.segment.bytes": "2097152"},
        }
    )
    assert plan.record_bytes == 500 and plan.key_count == 1
    assert plan.broker_config["log.segment.bytes"] == "2097152"
    assert "log.flush.offset.checkpoint.interval.ms" in plan.broker_config


def test_a_scenario_of_older_versions_is_refused_on_later_ones() -> None:
    assert make({"workload": "recovery", "scenario": "format-unsynced"}).kafka_version == "4.1.2"
    with pytest.raises(BadInput, match=r"shows what changed in 4\.4\.0; use an earlier version"):
        make({"workload": "recovery", "scenario": "format-unsynced", "kafka_version": "4.4.0"})
