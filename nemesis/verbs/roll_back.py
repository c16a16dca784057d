"""roll-back: restarts servers with the old version again, before the upgrade is finalized; one server per op.

The server that was upgraded last is rolled back first, so that dedicated controllers come last. Once features are
finalized at levels that the old version does not support, nothing is rolled back: see `downgrade`.
"""

from __future__ import annotations

from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env
from nemesis.shared.admin_fault import Requested
from nemesis.shared.feature_levels import supported
from nemesis.shared.upgrade_fault import step_fault
from nemesis.shared.upgrade_steps import completed, nothing, on, path_of, state, step
from nemesis.verb import Verb

LAST: Final = "last"


def _roll_back(env: Env) -> dict[str, Any]:
    path = path_of(env)
    old, new = path.old, path.new
    upgraded = on(env, new)
    if not upgraded:
        return nothing(env, f"every server runs {old}", done=True)
    if path.pins and set(state(env).get("pinned", ())) != set(upgraded):
        return nothing(env, "inter.broker.protocol.version is lifted already", done=True)
    if not path.pins and not supported(env, old):
        return nothing(env, f"the finalized features need a newer version than {old}", done=True)
    done = step(env, upgraded[-1], old, pinned=False)
    return completed(done, not on(env, new) and not done.get("ended"))


VERB: Final = Verb(
    "restart a server with the old version again, before `finalize`; each time the one that was upgraded last",
    lambda target, timing: step_fault("roll-back", target, timing, Requested("roll-back", _roll_back)),
    nodes=False,
    named={LAST: "The server that was upgraded last."},
    short={"roll-back": LAST},
)
