"""The rules of --upgrade-to, and of the faults that upgrade the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.cluster.distribution import migration_config, upgrade_pairs, versions
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived
from harness.plan.test_plan import TestPlan
from nemesis import table as nemeses
from nemesis.schedule.upgrade_course import DOWNGRADE, MIGRATE, UPGRADE, VERBS


def verbs(plan: TestPlan) -> list[str]:
    """Returns the verbs of an upgrade that the plan's faults use, in the order of an upgrade."""
    short = nemeses.aliases()
    named = [short.get(name, name).partition(":")[0] for name in (*plan.nemesis, *derived.scheduled(plan))]
    return [verb for verb in VERBS if verb in named]


def migrates(plan: TestPlan) -> bool:
    """Returns whether the plan's faults take the cluster from ZooKeeper to KRaft."""
    return MIGRATE in verbs(plan)


def defaults(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds the defaults of a migration: Kafka 3.9 with ZooKeeper, and three controllers."""
    named = values.get("nemesis") or ()
    names = named.split(",") if isinstance(named, str) else named
    short = nemeses.aliases()
    if not any(short.get(str(name).strip(), str(name).strip()).startswith(f"{MIGRATE}:") for name in names):
        return values
    return {"kafka_version": migration_config.SERIES, "metadata": versions.ZOOKEEPER, "controllers": 3, **values}


def _migration(plan: TestPlan) -> None:
    """Checks that a cluster can migrate from ZooKeeper to KRaft, and does nothing else at the same time."""
    if plan.upgrade_to:
        raise ValueError("--upgrade-to cannot be combined with --nemesis migrate-to-kraft: upgrade in another run")
    if plan.cluster != "local" or plan.cluster_name:
        raise ValueError("--nemesis migrate-to-kraft needs --cluster local, without a name")
    if derived.metadata_mode(plan) != versions.ZOOKEEPER or not plan.controllers:
        raise ValueError("--nemesis migrate-to-kraft needs --metadata zookeeper, and --controllers 1 or more")
    try:
        migration_config.check(plan.kafka_version)
    except BadInput as error:
        raise ValueError(str(error)) from None


def rule(plan: TestPlan) -> None:
    """Checks that versions, mode and faults of an upgrade fit together, and that the cluster can be upgraded."""
    used = verbs(plan)
    if MIGRATE in used:
        _migration(plan)
    elif plan.upgrade_to:
        _upgrade(plan, used)
    elif used:
        raise ValueError(f"--nemesis {used[0]} needs --upgrade-to VERSION, the version to upgrade to")


def _upgrade(plan: TestPlan, used: Sequence[str]) -> None:
    """Checks a plan with --upgrade-to; `used`: the verbs of an upgrade in its faults."""
    if plan.cluster != "local" or plan.cluster_name:
        kind = f"{plan.cluster}:{plan.cluster_name}".rstrip(":")
        raise ValueError(f"--upgrade-to cannot be used with --cluster {kind}: use --cluster local, without a name")
    try:
        upgrade_pairs.check(plan.kafka_version, plan.upgrade_to, derived.metadata_mode(plan))
    except BadInput as error:
        raise ValueError(str(error)) from None
    if UPGRADE not in used:
        raise ValueError(f"--upgrade-to {plan.upgrade_to} needs the fault upgrade: add --nemesis upgrade")
    if DOWNGRADE in used and derived.metadata_mode(plan) == versions.ZOOKEEPER:
        raise ValueError(
            "--nemesis downgrade: with ZooKeeper, Kafka documents no way back once the protocol version is raised; use "
            "--nemesis roll-back"
        )
