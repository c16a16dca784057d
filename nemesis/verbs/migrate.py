"""migrate: takes a cluster of Kafka 3.9 from ZooKeeper to KRaft, one step per op; or back, before it is final.

    migrate:to-kraft   the controllers are provisioned: formatted with the cluster's id and started
                       each broker is restarted with the migration enabled
                       the controllers have copied the metadata, and write every change to both (dual write)
                       each broker is restarted as a KRaft broker
                       each controller is restarted without ZooKeeper, which makes the migration final
                       the ZooKeepers are stopped
    migrate:back       each KRaft broker is restarted as a broker of ZooKeeper, with the migration still enabled
                       the controllers are removed, and the nodes /controller and /migration are deleted in ZooKeeper
                       each broker is restarted without the migration

Source: KIP-866; Kafka 3.9 documentation, 6.10, ZooKeeper to KRaft Migration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.model.capabilities import Brokers, MetadataServers, Migration, ServerLogs
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing
from nemesis.schedule.upgrade_course import HALF, MIGRATE
from nemesis.shared.admin_fault import Requested
from nemesis.shared.effects import EFFECT_TIMEOUT_S, hit, wait_for, wait_healthy
from nemesis.shared.upgrade_fault import step_fault
from nemesis.shared.upgrade_steps import completed, restart
from nemesis.verb import Verb

ZOOKEEPER: Final = "zookeeper"
MIGRATION: Final = "migration"
KRAFT: Final = "kraft"
DUAL_WRITE: Final = re.compile(rb"Completed migration of metadata from Zoo[Kk]eeper to KRaft|to DUAL_WRITE")
NODES: Final = ("/controller", "/migration")
LOG_BYTES_MAX: Final = 32 << 20
OUT_OF_SYNC: Final = "replicas out of sync"  # as harness.run.roles says it


def _cluster(env: Env) -> Migration:
    assert isinstance(env.cluster, Migration)
    return env.cluster


def _controllers(env: Env) -> list[str]:
    """Returns the names of the controllers that are provisioned."""
    assert isinstance(env.cluster, MetadataServers)
    return [name for name in env.cluster.metadata_servers if name.startswith("c")]


def _zookeepers(env: Env) -> list[str]:
    assert isinstance(env.cluster, MetadataServers)
    return [name for name in env.cluster.metadata_servers if name.startswith("z")]


def _state(env: Env) -> dict[str, Any]:
    """Returns the mode of every server, and whether half of the brokers are KRaft brokers."""
    modes = {node: _cluster(env).mode(node) for node in (*_controllers(env), *env.cluster.nodes)}
    new = sum(modes[node] == KRAFT for node in env.cluster.nodes)
    return {"modes": modes, HALF: 2 * new >= len(env.cluster.nodes)}


def _in(env: Env, mode: str, names: list[str]) -> list[str]:
    return [name for name in names if _cluster(env).mode(name) == mode]


def _restart(env: Env, node: str, mode: str) -> dict[str, Any]:
    before = _cluster(env).mode(node)
    done = restart(env, node, lambda: _cluster(env).set_mode(node, mode), "")
    up = "ended" not in done and done["logged"] is not None
    return hit([node], up, **{"mode": mode, "mode_before": before, **done})


def _provision(env: Env) -> dict[str, Any]:
    names = list(_cluster(env).provision())
    leader = wait_for(lambda: list(env.roles.holders("controller")), EFFECT_TIMEOUT_S)
    return hit(names, bool(leader), provisioned=names)


def _dual_write(env: Env) -> str:
    """Waits until a controller logs that it has copied the metadata. Returns the line; empty at the time limit."""
    cluster = env.cluster
    assert isinstance(cluster, ServerLogs)

    def logged() -> str:
        for name in _controllers(env):
            at, before = 0, b""
            while at < LOG_BYTES_MAX:
                chunk, at = cluster.read_log(name, at)
                if not chunk:
                    break
                if match := DUAL_WRITE.search(before + chunk):
                    return f"{name}: {match[0].decode()}"
                before = chunk[-200:]
        return ""

    return wait_for(logged, EFFECT_TIMEOUT_S) or ""


def _forth(env: Env, seen: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Takes the next step. `seen` remembers steps that leave no trace in the cluster. Returns (value, complete)."""
    brokers, controllers = list(env.cluster.nodes), _controllers(env)
    if not controllers:
        return _provision(env), False
    if old := _in(env, ZOOKEEPER, brokers):
        return _restart(env, old[0], MIGRATION), False
    if not seen.get("dual-write"):
        seen["dual-write"] = _dual_write(env)
        return hit([], bool(seen["dual-write"]), dual_write=seen["dual-write"]), False
    if old := [*_in(env, MIGRATION, brokers), *_in(env, MIGRATION, controllers)]:
        return _restart(env, old[0], KRAFT), False
    if gone := _zookeepers(env):
        _cluster(env).retire_zookeepers()
        return hit(gone, True, retired=gone), True
    return hit([], False, why="the migration is complete"), True


def _remove_controllers(env: Env) -> dict[str, Any]:
    """Removes the controllers, and at once the nodes in ZooKeeper that keep a broker from becoming the controller."""
    cluster = _cluster(env)
    gone = _controllers(env)
    cluster.deprovision()
    deleted, failed = list[str](), list[str]()
    for node in NODES:
        done = cluster.zookeeper_shell(["deleteall", node])
        (failed if done.code else deleted).append(node)
    elected = wait_for(lambda: list(env.roles.holders("controller")), EFFECT_TIMEOUT_S)
    fields = {"deprovisioned": gone, "deleted_in_zookeeper": deleted, "controller": elected}
    return hit(gone, bool(elected) and not failed, **fields, **({"not_deleted": failed} if failed else {}))


def _back(env: Env, seen: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    brokers = list(env.cluster.nodes)
    if KRAFT in {_cluster(env).mode(name) for name in _controllers(env)} or not _zookeepers(env):
        return hit([], False, why="the migration is final: there is no way back"), True
    if new := _in(env, KRAFT, brokers):
        return _restart(env, new[-1], MIGRATION), False
    if _controllers(env):
        return _remove_controllers(env), False
    if new := _in(env, MIGRATION, brokers):
        return _restart(env, new[-1], ZOOKEEPER), len(new) == 1
    return hit([], False, why="no broker has migrated"), True


def _roll_mends(env: Env, still: str) -> bool:
    """Returns whether the way back goes on although replicas are out of sync.

    Without the controllers, a broker with the migration enabled may no longer be able to change its ISRs, until its
    restart without the migration (see docs/use/upgrades.md).
    """
    half_way = not _controllers(env) and MIGRATION in {_cluster(env).mode(node) for node in env.cluster.nodes}
    return half_way and OUT_OF_SYNC in still


class Steps:
    """Calls `act` for each op, when the cluster is healthy. What it remembers lasts as long as the run."""

    def __init__(self, act: Callable[[Env, dict[str, Any]], tuple[dict[str, Any], bool]]) -> None:
        self._act = act
        self._seen: dict[str, Any] = {}

    def __call__(self, env: Env) -> dict[str, Any]:
        still = wait_healthy(env)
        if still and not _roll_mends(env, still):
            return completed({**hit([], False, why=f"no step was taken: {still}"), **_state(env)}, False)
        try:
            value, done = self._act(env, self._seen)
        except OSError as error:
            raise ClusterTrouble(str(error)) from None
        went_on = {"went_on_although": still} if still else {}
        return completed({**value, **went_on, **_state(env)}, done and "ended" not in value)


ACTS: Final[Mapping[str, Callable[[Env, dict[str, Any]], tuple[dict[str, Any], bool]]]] = {
    "to-kraft": _forth,
    "back": _back,
}


def _fault(target: str, timing: Timing) -> Fault:
    fault = step_fault(MIGRATE, target, timing, Requested(MIGRATE, Steps(ACTS[target])))
    return Fault(
        fault.name, fault.nemesis, fault.rounds, fault.final, (*fault.needs, Migration, Brokers), takes_turns=True
    )


VERB: Final = Verb(
    "migrate a cluster of Kafka 3.9 from ZooKeeper to KRaft, one step per operation; or back, before it is final",
    _fault,
    nodes=False,
    named={
        "to-kraft": "The next step to KRaft.",
        "back": "The next step back to ZooKeeper.",
    },
    short={"migrate-to-kraft": "to-kraft", "migrate-back": "back"},
)
