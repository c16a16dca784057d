"""Plans of upgrades and of migrations: what is refused before anything starts, and what follows from a plan."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.errors_and_exit_codes import BadInput
from harness.plan.make_plan import make
from harness.plan.resolve import judged_by, resolve

UP = {"kafka_version": "4.3", "upgrade_to": "4.4", "nemesis": ("upgrade", "finalize")}
FORTH = {"nemesis": ("migrate-to-kraft",)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"upgrade_to": ""}, "--nemesis upgrade needs --upgrade-to VERSION"),
        ({"nemesis": ("leader-kill",)}, "needs the fault upgrade"),
        ({"nemesis": ()}, "needs the fault upgrade"),
        ({"upgrade_to": "4.2"}, "must be newer than --kafka-version 4.3.1"),
        ({"upgrade_to": "4.3.1"}, "must be newer"),
        ({"upgrade_to": "four"}, "--upgrade-to"),
        ({"kafka_version": "2.8"}, "migrate to KRaft there"),
        ({"kafka_version": "3.9", "metadata": "zookeeper"}, "migrate to KRaft there"),
        ({"cluster": "docker"}, "--upgrade-to cannot be used with --cluster docker"),
        ({"cluster": "local:mine"}, "--upgrade-to cannot be used with --cluster local:mine"),
        ({"cluster": "mock", "nodes": 3}, "--upgrade-to cannot be used with --cluster mock"),
    ],
)
def test_plans_that_cannot_be_carried_out(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make({**UP, **changes})


def test_with_zookeeper_there_is_no_downgrade() -> None:
    plan = {"kafka_version": "2.8", "upgrade_to": "3.4", "nemesis": ("upgrade", "finalize", "downgrade")}
    with pytest.raises(BadInput, match="use --nemesis roll-back"):
        make(plan)


def test_a_series_stands_for_its_patch() -> None:
    assert (make(UP).kafka_version, make(UP).upgrade_to) == ("4.3.1", "4.4.0")


def test_the_faults_of_a_schedule_count() -> None:
    line = {"fault": "upgrade:next", "at": 5}
    assert make({**UP, "nemesis": (), "schedule": (line,)}).upgrade_to == "4.4.0"


def test_an_upgrade_is_checked_as_an_upgrade_and_promises_no_new_feature() -> None:
    plan = resolve(make(UP), ["n1", "n2", "n3"]).plan
    options = judged_by(plan, {"features": {"eligible.leader.replicas.version": 1}})
    assert {"queue", "upgrade"} <= set(options.checks)
    assert options.expected_faults == ("upgrade:next", "finalize:features")
    assert options.settings.eligible_leader_replicas is False
    assert "upgrade" not in judged_by(make({"kafka_version": "4.3"})).checks


def test_a_migration_has_the_version_and_the_controllers_that_it_needs() -> None:
    plan = make(FORTH)
    assert (plan.kafka_version, plan.metadata, plan.controllers) == ("3.9.2", "zookeeper", 3)
    assert {"queue", "upgrade"} <= set(judged_by(plan).checks)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka_version": "3.8"}, r"with 3\.9"),
        ({"kafka_version": "4.0", "metadata": "kraft"}, "needs --metadata zookeeper"),
        ({"controllers": 0}, "--controllers 1 or more"),
        ({"upgrade_to": "3.9.2", "kafka_version": "3.9.1"}, "upgrade in another run"),
        ({"cluster": "local:mine"}, "needs --cluster local"),
    ],
)
def test_migrations_that_cannot_be_carried_out(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make({**FORTH, **changes})
