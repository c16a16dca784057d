"""Stops instances of an application cleanly, and starts them again.

The instances are children of the worker processes of the app workload. This module sends requests to these workers: see
`harness.clients.app.client`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env, Instances
from harness.model.op import Op
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.targets import CLIENT_TARGETS, Facts

ANSWER_S: Final = 10.0
STOP_S: Final = 60.0  # until an instance has ended: longer than most of the graces in app.yaml
START_S: Final = 60.0  # until an instance is ready again


def _ask(env: Env, name: str, what: str, by: str = "") -> Mapping[str, Any]:
    """Returns the state of an instance; an empty mapping if its client does not answer."""
    workers = env.workers
    return (workers.ask(name, what, by, ANSWER_S) or {}) if isinstance(workers, Instances) else {}


def _within_s(env: Env, most_s: float) -> float:
    """Returns the maximum number of seconds to wait for an instance: `most_s` or less; 0 once the load has ended.

    Clients are idle after the load, and start their instances only in the final phase.
    """
    return 0.0 if env.healthy_s <= 0 else min(most_s, max(0.0, env.until_s - time.monotonic()))


def _order_stop(env: Env, name: str, by: str) -> Mapping[str, Any]:
    """Orders an instance to stop. If another fault has stopped the instance, waits until that fault has started it.

    Returns the state of the instance before the order; an empty mapping if its client does not answer in time, or if
    the other fault takes too long.
    """

    def state() -> Mapping[str, Any] | None:
        now = _ask(env, name, "stop", by)
        return now if now and not now["refused"] else None

    return wait_for(state, _within_s(env, effect_s(env))) or {}


def _wait(env: Env, name: str, reached: Callable[[Mapping[str, Any]], bool], within_s: float) -> Mapping[str, Any]:
    """Waits until `reached` returns true for the state of an instance; returns the state, or {} after `within_s`."""

    def state() -> Mapping[str, Any] | None:
        now = _ask(env, name, "report")
        return now if now and reached(now) else None

    return wait_for(state, _within_s(env, within_s)) or {}


def stop(env: Env, names: Sequence[str], by: str) -> dict[str, Any]:
    """Stops the instances of these workers for the fault `by`. Returns the value of the op, with these fields:

    clients  workers whose instance was running and has ended
    members  [number of members of the group before, after]; only if the brokers reported both
    killed   those of `clients` whose instance did not end within its grace, and was killed; only if there are any
    """
    before = {name: _order_stop(env, name, by) for name in names}
    after = {name: _wait(env, name, lambda now: not now["running"], STOP_S) if before[name] else {} for name in names}
    ended = [name for name in names if before[name].get("running") and after[name]]
    killed = [name for name in ended if after[name]["killed"]]
    counts = [state["members"] for state in (before[names[0]], after[names[-1]]) if "members" in state]
    more = {"members": counts} if len(counts) == 2 else {}
    return hit([], bool(ended), clients=ended, **more, **({"killed": killed} if killed else {}))


def start(env: Env, names: Sequence[str], by: str) -> dict[str, Any]:
    """Starts the instances of these workers that the fault `by` has stopped, and waits until they are ready.

    Returns {"clients": workers with a ready instance}. If instances were not ready in time, "not_ready" lists them.
    """
    started = [name for name in names if not _ask(env, name, "start", by).get("refused")]
    ready = [name for name in started if _wait(env, name, lambda now: bool(now["ready"]), START_S)]
    late = [name for name in started if name not in ready] if _within_s(env, START_S) else []
    return {"clients": ready, **({"not_ready": late} if late else {})}


class StoppedInstances:
    """A fault whose op `begin` stops the instances of the target's workers; the op `end` starts them again.

    Without `end`, the op `begin` restarts the instances one after another: it stops the next instance only when the
    previous one is ready again.
    """

    def __init__(self, name: str, target: str, begin: str, end: str = "") -> None:
        self.fs = frozenset({begin, end} - {""})
        self._name, self._target, self._begin, self._end = name, target, begin, end
        self._stopped: list[str] = []

    def invoke(self, env: Env, op: Op) -> Op:
        if op.f != self._begin:
            names, self._stopped = self._stopped, []
            return op.with_(value={"nodes": [], **(start(env, names, self._name) if names else {"clients": []})})
        names = list(CLIENT_TARGETS[self._target](Facts((), {}, env.workers.names()), env.draw))
        if not names:
            return op.with_(value=hit([], False, why=f"nothing to hit: there is no {self._target} at the moment"))
        if not self._end:
            return op.with_(value=self._one_by_one(env, names))
        self._stopped += names
        return op.with_(value=stop(env, names, self._name))

    def _one_by_one(self, env: Env, names: Sequence[str]) -> dict[str, Any]:
        done, killed = list[str](), list[str]()
        for name in names:
            self._stopped = [name]
            stopped, started = stop(env, [name], self._name), start(env, [name], self._name)
            self._stopped = []
            done += stopped["clients"]
            killed += stopped.get("killed", [])
            if "not_ready" in started:
                return hit([], bool(done), clients=done, not_ready=started["not_ready"])
        return hit([], bool(done), clients=done, **({"killed": killed} if killed else {}))

    def teardown(self, env: Env) -> None:
        for name in self._stopped:
            _ask(env, name, "start", self._name)
        self._stopped = []
