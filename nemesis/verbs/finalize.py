"""finalize: makes an upgrade final, once every server runs the new version.

With KRaft, one UpdateFeatures request raises each feature to the level that it has in a new cluster of the new version
(metadata.version, transaction.version, group.version and so on, as the version has them). With ZooKeeper, the pin of
inter.broker.protocol.version is lifted in a second roll, one server per op. `finalize:kraft` raises kraft.version to 1,
which lets the set of controllers change later; a new cluster with a fixed set of controllers does not have it. Source:
KIP-584, KIP-853, KIP-1022; Kafka documentation, 1.5, Upgrading.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing
from nemesis.shared.admin_fault import Requested
from nemesis.shared.effects import hit
from nemesis.shared.feature_levels import above, change, finalized
from nemesis.shared.upgrade_fault import step_fault
from nemesis.shared.upgrade_steps import cluster_of, completed, nothing, on, path_of, state, step
from nemesis.verb import Verb

ALL: Final = "features"
KRAFT: Final = "kraft"
KRAFT_LEVELS: Final = {"kraft.version": 1}


def _finalize(target: str, env: Env) -> dict[str, Any]:
    path = path_of(env)
    waiting = on(env, path.old)
    if waiting:
        return nothing(env, f"{', '.join(waiting)} still run {path.old}")
    if path.pins:
        return _lift(env, path.new)
    return _raise(env, KRAFT_LEVELS if target == KRAFT else cluster_of(env).new_levels(path.new))


def _lift(env: Env, new: str) -> dict[str, Any]:
    """Restarts the next server whose protocol is pinned, without the pin."""
    pinned = state(env).get("pinned", [])
    if not pinned:
        return nothing(env, "no server's protocol is pinned", done=True)
    done = step(env, pinned[0], new, pinned=False)
    return completed(done, not state(env).get("pinned") and not done.get("ended"))


def _raise(env: Env, levels: Mapping[str, int]) -> dict[str, Any]:
    wanted = above(finalized(env), levels)
    if not wanted:
        return nothing(env, "the features have these levels already", done=True, levels=finalized(env))
    done = change(env, wanted, downgrade=False)
    accepted = "refused" not in done
    return completed(hit([], accepted, **done, **state(env)), accepted)


def _fault(target: str, timing: Timing) -> Fault:
    return step_fault("finalize", target, timing, Requested("finalize", partial(_finalize, target)))


VERB: Final = Verb(
    "raise the features to the levels of the new version (UpdateFeatures), or with ZooKeeper lift the pin of "
    "inter.broker.protocol.version, once every server runs the new version",
    _fault,
    nodes=False,
    named={
        ALL: "All features, to the levels of the version.",
        KRAFT: "Only kraft.version, to 1 (KIP-853); from Kafka 4.1 on.",
    },
    short={"finalize": ALL},
)
