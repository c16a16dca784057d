"""A group that does not settle is stuck, unless something else may have kept the new member from being served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.plan import derived
from harness.plan.make_plan import make
from nemesis.shared import group_liveness
from nemesis.shared.group_liveness import group_within_s, settle_group
from tests.unit.nemesis.test_faults import env_of
from tests.unit.nemesis.test_liveness import Logged

Looks = Callable[[int], dict[str, Any]]
STUCK = {
    "group": "r-group",
    "state": "PREPARING_REBALANCING",
    "others": [],
    "assigned_s": None,
    "new_assigned_s": 0.4,
    "errors": [],
}
SERVED = {**STUCK, "state": "STABLE", "assigned_s": 1.0}


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(group_liveness.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(group_liveness.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def _settle(looks: Looks, brokers: int = 3) -> tuple[dict[str, Any], list[str]]:
    """Returns the value of the op, and the names of the requests."""
    asked: list[str] = []

    def admin(name: str, within_s: float, **arguments: Any) -> Any:
        asked.append(name)
        if name == "brokers":
            return [[number, "x:1"] for number in range(1, brokers + 1)]
        return looks(asked.count("probe_look")) if name == "probe_look" else None

    return settle_group(replace(env_of(Logged()), admin=admin), 30.0), asked


@pytest.mark.parametrize("state", ["STABLE", "UNKNOWN (GROUP_AUTHORIZATION_FAILED: no)"])
def test_a_group_that_serves_a_new_member_costs_two_looks(state: str) -> None:
    value, asked = _settle(lambda number: {**SERVED, "state": state})
    assert value == {"settled_s": 0.5} and asked == ["probe_start", "probe_look", "probe_look", "probe_stop"]


def test_a_group_that_never_settles_is_stuck() -> None:
    """Even if it is stable at times: two looks in a row must find it so."""
    value, asked = _settle(lambda number: SERVED if number % 2 else STUCK)
    (row,) = value["stuck"]
    assert (row["kind"], row["where"], value["waited_s"]) == ("group", "group r-group", 30.0)
    assert row["state"] == (
        "a member of a new group was assigned partitions after 0.4 s, but a member of this one not for good "
        "(PREPARING_REBALANCING in 30 looks, STABLE in 30 looks)"
    )
    assert "excuse" not in row
    assert asked[-1] == "probe_stop"


def test_members_that_are_not_of_the_run_are_an_excuse() -> None:
    value, _ = _settle(lambda number: {**STUCK, "others": [["reports", "/10.0.0.7"]], "errors": ["x: y"]})
    (row,) = value["stuck"]
    assert row["excuse"] == "it has members that are not of the run: reports at /10.0.0.7"
    assert row["state"].endswith("60 looks, and x: y)")


@pytest.mark.parametrize(
    ("change", "brokers", "why"),
    [
        ({"new_assigned_s": None}, 3, "a member of a new group was assigned partitions not within the time, either"),
        ({"new_assigned_s": 16.0}, 3, "only after 16.0 s, either"),
        ({"others": [["r-3", "/10.0.0.7"]]}, 3, "members of the run are still in the group: r-3"),
        ({}, 2, "1 brokers are not registered"),
    ],
)
def test_what_may_be_to_blame_instead_is_no_proof(change: dict[str, Any], brokers: int, why: str) -> None:
    value, _ = _settle(lambda number: {**STUCK, **change}, brokers)
    assert value["stuck"] == [] and why in value["why"]


def test_a_look_that_failed_is_no_proof() -> None:
    def fail(number: int) -> dict[str, Any]:
        raise ClusterTrouble("nobody answered")

    value, asked = _settle(fail)
    assert value["stuck"] == [] and value["why"] == "nobody answered" and asked[-1] == "probe_stop"


def test_a_look_that_failed_does_not_end_the_wait() -> None:
    def fail_once(number: int) -> dict[str, Any]:
        if number == 2:
            raise ClusterTrouble("nobody answered")
        return SERVED

    value, _ = _settle(fail_once)
    assert value == {"settled_s": 1.5}


def test_longer_sessions_get_more_time() -> None:
    assert group_within_s(6.0) == 30.0 and group_within_s(45.0) == 65.0
    assert derived.session_timeout_s(make({})) == 6.0
    assert derived.session_timeout_s(make({"consumer_config": {"session.timeout.ms": "20000"}})) == 20.0
    new = {"group_protocol": "consumer", "sub_via": ["subscribe"]}
    assert derived.session_timeout_s(make(new)) == 6.0  # the plan's own value
    longer = {**new, "broker_config": {"group.consumer.session.timeout.ms": "20000"}}
    assert derived.session_timeout_s(make(longer)) == 20.0
    assert derived.session_timeout_s(make({"consumer_config": {"group.protocol": "consumer"}})) == 45.0
