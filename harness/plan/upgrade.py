"""The rules of --upgrade-to, and of the faults that upgrade the cluster."""

from __future__ import annotations

from harness.cluster.distribution import upgrade_pairs, versions
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived
from harness.plan.test_plan import TestPlan
from nemesis import table as nemeses
from nemesis.upgrade.course import DOWNGRADE, UPGRADE, VERBS


def verbs(plan: TestPlan) -> list[str]:
    """Returns the verbs of an upgrade that the plan's faults use, in the order of an upgrade."""
    short = nemeses.aliases()
    named = [short.get(name, name).partition(":")[0] for name in (*plan.nemesis, *derived.scheduled(plan))]
    return [verb for verb in VERBS if verb in named]


def rule(plan: TestPlan) -> None:
    """Checks that versions, mode and faults of an upgrade fit together, and that the cluster can be upgraded."""
    used = verbs(plan)
    if not plan.upgrade_to:
        if used:
            raise ValueError(f"--nemesis {used[0]} needs --upgrade-to VERSION, the version to upgrade to")
        return
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
