"""Faults that stop and start the instances of an application in order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.model.errors_and_exit_codes import BadInput
from harness.model.fault_and_generator_protocols import Instances
from harness.plan.make_plan import make
from nemesis import table
from nemesis.schedule.timing import Timing
from tests.unit.nemesis.test_faults import FakeCluster, FakeWorkers, env_of, op


class FakeInstances(FakeWorkers):
    """Two instances, which end as soon as they are asked. Those in `stubborn` do not; `silent` ones never answer."""

    def __init__(self, stubborn: tuple[str, ...] = (), silent: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.stubborn, self.silent = stubborn, silent
        self.running = {"w0": True, "w1": True}
        self.stopped_by: dict[str, str] = {}
        self.idle = False  # the clients get no ops, so nothing starts
        self.orders: list[tuple[str, str]] = []

    def ask(self, name: str, what: str, by: str, within_s: float) -> Mapping[str, Any] | None:
        if name in self.silent:
            return None
        refused = what != "report" and self.stopped_by.get(name, by) != by
        running = self.running[name]
        members = sum(self.running.values())
        if what != "report" and not refused:
            self.orders.append((name, what))
            self.running[name] = (what == "start" and not self.idle) or name in self.stubborn
            self.stopped_by = {**self.stopped_by, name: by} if what == "stop" else {}
        return {"refused": refused, "running": running, "ready": running, "killed": False, "members": members}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.shared.instances.STOP_S", 0.1)
    monkeypatch.setattr("nemesis.shared.instances.START_S", 0.1)
    monkeypatch.setattr("nemesis.shared.effects.EFFECT_TIMEOUT_S", 0.1)


def test_an_instance_is_stopped_and_started_later() -> None:
    workers = FakeInstances()
    assert isinstance(workers, Instances)
    (fault,) = table.faults(["restart:client"], Timing())
    env = env_of(FakeCluster(), workers)
    value = fault.nemesis.invoke(env, op("shutdown")).value
    (name,) = value["clients"]
    assert value["took_effect"]
    assert value["members"] == [2, 1]
    assert not workers.running[name]
    assert fault.nemesis.invoke(env, op("start")).value["clients"] == [name]
    assert workers.orders == [(name, "stop"), (name, "start")]


def test_instances_are_restarted_one_after_another() -> None:
    workers = FakeInstances()
    (fault,) = table.faults(["rolling-restart:clients"], Timing())
    value = fault.nemesis.invoke(env_of(FakeCluster(), workers), op("rolling-restart")).value
    assert value["clients"] == ["w0", "w1"]
    assert value["took_effect"]
    assert workers.orders == [("w0", "stop"), ("w0", "start"), ("w1", "stop"), ("w1", "start")]


@pytest.mark.parametrize("workers", [FakeInstances(("w0", "w1")), FakeInstances(silent=("w0", "w1"))])
def test_an_instance_that_does_not_end_is_no_effect(workers: FakeInstances) -> None:
    (fault,) = table.faults(["restart:clients"], Timing())
    value = fault.nemesis.invoke(env_of(FakeCluster(), workers), op("shutdown")).value
    assert not value["took_effect"]
    assert value["clients"] == []


def test_what_is_stopped_at_the_end_is_started() -> None:
    workers = FakeInstances()
    (fault,) = table.faults(["restart:clients"], Timing())
    env = env_of(FakeCluster(), workers)
    fault.nemesis.invoke(env, op("shutdown"))
    fault.nemesis.teardown(env)
    assert all(workers.running.values())


def test_nothing_waits_for_an_instance_once_the_load_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.shared.instances.START_S", 60.0)
    workers = FakeInstances()
    workers.idle = True
    env = replace(env_of(FakeCluster(), workers), until_s=time.monotonic() + 0.1)
    (fault,) = table.faults(["rolling-restart:clients"], Timing())
    began = time.monotonic()
    assert "not_ready" not in fault.nemesis.invoke(env, op("rolling-restart")).value
    assert time.monotonic() - began < 5


def test_a_fault_does_not_start_what_another_has_stopped() -> None:
    workers = FakeInstances()
    restart, rolling = table.faults(["restart:clients", "rolling-restart:clients"], Timing())
    env = env_of(FakeCluster(), workers)
    assert restart.nemesis.invoke(env, op("shutdown")).value["clients"] == ["w0", "w1"]
    workers.orders.clear()
    assert not rolling.nemesis.invoke(env, op("rolling-restart")).value["took_effect"]
    assert not workers.orders


def test_only_applications_have_instances() -> None:
    with pytest.raises(BadInput, match="restart:client restarts instances of an application: use --workload app"):
        make({"nemesis": ["restart:client"]})
