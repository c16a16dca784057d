"""downgrade: takes a finalized upgrade back, where Kafka allows it; only with KRaft.

One UpdateFeatures request lowers each feature to the level that it has in a new cluster of the old version, without
loss of metadata (a safe downgrade). If the controller accepts, the servers are restarted with the old version, one per
op. If it refuses, its reason is in the history, and the cluster stays at the new version: Kafka refuses to lower
metadata.version if this might delete metadata. Source: KIP-584, KIP-778; Kafka documentation, 1.5, Upgrading.
"""

from __future__ import annotations

from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env
from nemesis.shared.admin_fault import Requested
from nemesis.shared.effects import hit
from nemesis.shared.feature_levels import below, change, finalized
from nemesis.shared.upgrade_fault import step_fault
from nemesis.shared.upgrade_steps import cluster_of, completed, nothing, on, path_of, state, step
from nemesis.verb import Verb

ALL: Final = "features"


def _downgrade(env: Env) -> dict[str, Any]:
    path = path_of(env)
    old, new = path.old, path.new
    upgraded = on(env, new)
    if not upgraded:
        return nothing(env, f"every server runs {old}", done=True)
    wanted = below(finalized(env), cluster_of(env).new_levels(old))
    if wanted:
        done = change(env, wanted, downgrade=True)
        # A refusal is Kafka's answer, and what this fault is there to see.
        return completed(hit([], True, **done, **state(env)), "refused" in done)
    value = step(env, upgraded[-1], old, pinned=False)
    return completed(value, not on(env, new) and not value.get("ended"))


VERB: Final = Verb(
    "lower the features to the levels of the old version (UpdateFeatures), and if Kafka allows this, restart the "
    "servers with the old version",
    lambda target, timing: step_fault("downgrade", target, timing, Requested("downgrade", _downgrade)),
    nodes=False,
    named={ALL: "All features above the levels of the old version."},
    short={"downgrade": ALL},
)
