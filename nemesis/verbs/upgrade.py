"""upgrade: restarts servers with the version of --upgrade-to, one server per op; dedicated controllers come first.

A server is stopped in order, as in a rolling restart, and started with the jars and the configuration of the new
version. The step waits for a healthy cluster before and after. With ZooKeeper, inter.broker.protocol.version is pinned
to the old version; `finalize` lifts the pin. Source: Kafka documentation, 1.5, Upgrading.
"""

from __future__ import annotations

from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env
from nemesis.shared.admin_fault import Requested
from nemesis.shared.upgrade_fault import step_fault
from nemesis.shared.upgrade_steps import completed, nothing, on, path_of, step
from nemesis.verb import Verb

NEXT: Final = "next"


def _upgrade(env: Env) -> dict[str, Any]:
    path = path_of(env)
    waiting = on(env, path.old)
    if not waiting:
        return nothing(env, f"every server runs {path.new} already", done=True)
    done = step(env, waiting[0], path.new, pinned=path.pins)
    return completed(done, not on(env, path.old) and not done.get("ended"))


VERB: Final = Verb(
    "restart a server with the version of `--upgrade-to`; each time the next one, dedicated controllers first",
    lambda target, timing: step_fault("upgrade", target, timing, Requested("upgrade", _upgrade)),
    nodes=False,
    named={NEXT: "The next server that still runs the old version: dedicated controllers first, then brokers."},
    short={"upgrade": NEXT},
)
