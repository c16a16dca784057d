"""finalize: makes an upgrade final, once every server runs the new version.

With KRaft, one UpdateFeatures request raises each feature to the level that it has in a new cluster of the new version
(metadata.version, transaction.version, group.version and so on, as the version has them). With ZooKeeper, the pin of
inter.broker.protocol.version is lifted in a second roll, one server per op. Source: KIP-584, KIP-1022; Kafka
documentation, 1.5, Upgrading.
"""

from __future__ import annotations

from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env
from nemesis.shared.admin_fault import Requested
from nemesis.shared.effects import hit
from nemesis.upgrade.fault import step_fault
from nemesis.upgrade.levels import above, change, finalized
from nemesis.upgrade.servers import cluster_of, completed, nothing, on, state, step
from nemesis.verb import Verb

ALL: Final = "features"


def _finalize(env: Env) -> dict[str, Any]:
    cluster = cluster_of(env)
    old, new = cluster.releases[0], cluster.releases[-1]
    waiting = on(env, old)
    if waiting:
        return nothing(env, f"{', '.join(waiting)} still run {old}")
    return _lift(env, new) if cluster.pins else _raise(env, new)


def _lift(env: Env, new: str) -> dict[str, Any]:
    """Restarts the next server whose protocol is pinned, without the pin."""
    pinned = state(env).get("pinned", [])
    if not pinned:
        return nothing(env, "no server's protocol is pinned", done=True)
    done = step(env, pinned[0], new, pinned=False)
    return completed(done, not state(env).get("pinned") and not done.get("ended"))


def _raise(env: Env, new: str) -> dict[str, Any]:
    wanted = above(finalized(env), cluster_of(env).new_levels(new))
    if not wanted:
        return nothing(env, f"the features have the levels of {new} already", done=True, levels=finalized(env))
    done = change(env, wanted, downgrade=False)
    accepted = "refused" not in done
    return completed(hit([], accepted, **done, **state(env)), accepted)


VERB: Final = Verb(
    "raise the features to the levels of the new version (UpdateFeatures), or with ZooKeeper lift the pin of "
    "inter.broker.protocol.version, once every server runs the new version",
    lambda target, timing: step_fault("finalize", target, timing, Requested("finalize", _finalize)),
    nodes=False,
    named={ALL: "All features of the version."},
    short={"finalize": ALL},
)
