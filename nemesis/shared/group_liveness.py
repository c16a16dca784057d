"""At the end of the run, looks whether the consumer group settles: whether it serves a new member that polls.

By then no client of the run is subscribed any more: the final polls assign partitions, after each client has crashed on
purpose. So the coordinator has to remove the members of the run, whose sessions expire, and to give the partitions to
the new member. The group has settled once two looks in a row find it stable with partitions assigned to this member.
It is stuck if no look did so, although a member of a new group, which joined at the same time, was assigned partitions
within half of the time. Nothing is judged if that member was not, if a broker is missing, or if a member with the name
of one of the run's own clients is still there: then the machine or the harness may be to blame.

A member that the run does not know can keep a group from settling for as long as it likes, so Kafka promises nothing
then (`excuse`). Source: Kafka protocol guide (group membership); session.timeout.ms; KIP-848.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from harness.model.errors_and_exit_codes import ClusterTrouble, HarnessError
from harness.model.fault_and_generator_protocols import Env
from nemesis.shared.admin_fault import admin
from nemesis.shared.liveness import LOOK_S, STUCK_S, logged

SETTLE_GROUP: Final = "settle-group"  # the nemesis op
EVICTION_S: Final = 20.0  # from the timeout of a session until the rebalance that removes the member, generously
# Of a state that is unknown, for example because the client may not ask, the new member's partitions are proof enough.
SETTLED: Final = ("STABLE", "UNKNOWN")
Value = dict[str, Any]


def group_within_s(session_timeout_s: float) -> float:
    """Returns how long to wait: by then, the coordinator has removed all members of the run."""
    return max(STUCK_S, session_timeout_s + EVICTION_S)


def settle_group(env: Env, at_most_s: float) -> Value:
    """Waits until the group has settled, for at most `at_most_s` seconds. Returns the value of the op.

    This is {"settled_s": seconds} if it has; else {"waited_s", "stuck": [{"kind", "where", "state", "excuse",
    "logged"}]}. `why` says what kept the looks from judging.
    """
    began = time.monotonic()
    states: Counter[str] = Counter()
    seen: Value = {}
    stable, failed = 0, "no look"
    try:
        admin(env, "probe_start")
        while (waited_s := time.monotonic() - began) < at_most_s:
            try:
                seen, failed = admin(env, "probe_look"), ""
            except HarnessError as error:
                failed, stable = str(error), 0
            else:
                states[seen["state"]] += 1
                stable = stable + 1 if _served(seen) else 0
            if stable > 1:
                return {"settled_s": round(waited_s, 1)}
            time.sleep(LOOK_S)
        if failed:
            raise ClusterTrouble(failed)
        _require_a_fit_cluster(env, seen, at_most_s)
        lines = logged(env, seen["group"])  # before the new member leaves
    except HarnessError as error:
        return {"waited_s": round(time.monotonic() - began, 1), "stuck": [], "count": 0, "why": str(error)}
    finally:
        with contextlib.suppress(HarnessError):
            admin(env, "probe_stop")
    row = {"kind": "group", "where": f"group {seen['group']}", "state": _said(seen, states), **_excuse(seen)}
    return {"waited_s": round(waited_s, 1), "stuck": [{**row, "logged": lines}], "count": 1}


def _served(seen: Mapping[str, Any]) -> bool:
    """Returns whether the new member has partitions, and the group is stable as far as its coordinator tells."""
    return seen["assigned_s"] is not None and seen["state"].partition(" ")[0] in SETTLED


def _require_a_fit_cluster(env: Env, seen: Mapping[str, Any], at_most_s: float) -> None:
    """Raises ClusterTrouble if something else than the group may have kept the member from being served."""
    missing = len(env.cluster.nodes) - len(admin(env, "brokers"))
    if missing > 0:
        raise ClusterTrouble(f"{missing} brokers are not registered")
    new_s = seen["new_assigned_s"]
    if new_s is None or new_s > at_most_s / 2:
        late = "not within the time" if new_s is None else f"only after {new_s:.1f} s"
        raise ClusterTrouble(f"a member of a new group was assigned partitions {late}, either")
    run = env.roles.topic_prefix()
    own = [name for name, _ in seen["others"] if name.startswith(run)]
    if own:
        raise ClusterTrouble(f"members of the run are still in the group: {', '.join(own)}")


def _said(seen: Mapping[str, Any], states: Mapping[str, int]) -> str:
    counts = ", ".join(f"{state} in {count} looks" for state, count in sorted(states.items()))
    errors = f", and {seen['errors'][-1]}" if seen["errors"] else ""
    return (
        f"a member of a new group was assigned partitions after {seen['new_assigned_s']:.1f} s, "
        f"but a member of this one not for good ({counts}{errors})"
    )


def _excuse(seen: Mapping[str, Any]) -> Value:
    others = ", ".join(f"{name} at {host}" for name, host in seen["others"])
    return {"excuse": f"it has members that are not of the run: {others}"} if others else {}
