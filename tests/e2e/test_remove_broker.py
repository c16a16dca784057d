"""Removing a broker whose replicas fit on the others: it is unregistered, and returns empty."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.clients.table import admin_opener
from harness.cluster.local import namespaces
from harness.cluster.local.namespaced_cluster import LocalCluster
from harness.cluster.spec import ClusterSpec
from harness.generator import op
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env
from harness.model.randomness import Draw
from harness.protocol.error_codes import ClientError
from harness.run.roles import ViewRoles
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.shared.effects import wait_healthy
from tests.conftest import absent
from tests.e2e.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Nobody:
    """No clients. Satisfies Workers."""

    def names(self) -> tuple[str, ...]:
        return ()

    def signal(self, name: str, number: int) -> bool:
        return False


def test_a_broker_is_forgotten_and_comes_back_empty(tmp_path: Path) -> None:
    allowed, reason = namespaces.available()
    if not allowed:
        absent(f"namespaces are refused: {reason}")
    cluster = LocalCluster(ClusterSpec(nodes=4, work_dir=tmp_path / "cluster", outside=True))
    try:
        cluster.up(print)
        config = {"bootstrap": cluster.outside_bootstrap, "run": "r", "partitions_per_topic": 8}
        admin = admin_opener("confluent")(config)
        admin.create_topics(["r-0"])

        def replicas() -> dict[tuple[str, int], list[int]]:
            return {(row["topic"], row["partition"]): row["replicas"] for row in admin.partitions()}

        def ask(name: str, within_s: float, **arguments: Any) -> Any:
            try:
                return getattr(admin, name)(**arguments)
            except ClientError as error:
                raise ClusterTrouble(f"{name}: {error}") from None

        env = Env(cluster, ViewRoles(cluster, "r", "r-group", 1, 3), Nobody(), Draw.of(1, "test", 0), ask)
        assert wait_healthy(env) == ""
        (fault,) = table.faults(["remove-broker:n4"], Timing())
        before = replicas()
        assert any(4 in each for each in before.values())

        started = fault.nemesis.invoke(env, op("remove-broker")).value
        assert started["took_effect"] and started["unregistered"], started
        # Any broker may answer, and some learn of changes late.
        assert eventually(lambda: {number for number, _ in admin.brokers()} == {1, 2, 3})
        assert eventually(lambda: all({*row["replicas"]} == {1, 2, 3} for row in admin.partitions()))

        ended = fault.nemesis.invoke(env, op("add-broker")).value
        assert ended == {"nodes": []}
        assert eventually(lambda: replicas() == before)
        assert eventually(lambda: all(len(row["isr"]) == 3 for row in admin.partitions()))
    finally:
        cluster.down()
