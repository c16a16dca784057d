"""The two common kinds of faults: those that break nodes and mend them later, and those that send signals to clients.

A verb supplies the functions that break and mend. This module chooses the nodes or clients to hit, remembers them, and
observes the effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from harness.model.errors_and_exit_codes import HarnessError
from harness.model.fault_and_generator_protocols import Env
from harness.model.op import Op
from nemesis.shared.effects import (
    after_point,
    effect_s,
    facts,
    hit,
    leaderless,
    wait_for,
    wait_healthy,
    wait_new_leaders,
)
from nemesis.targets import CLIENT_TARGETS, NODE_TARGETS, Facts

Act = Callable[[Env, Sequence[str]], Mapping[str, Any] | None]
Evidence = Callable[[Env, Sequence[str]], Mapping[str, Any]]
Effect = Callable[[Env, Facts, Sequence[str]], dict[str, Any]]


def nothing_more(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    """Returns no evidence, for faults whose only evidence is that leaders have moved."""
    return {}


def moved_leaders(env: Env, before: Facts, nodes: Sequence[str]) -> dict[str, Any]:
    """Returns the effect of making nodes unavailable: new leaders of their partitions, and partitions without leader.

    The fault also counts as having taken effect if the nodes led no partition, or if all nodes were hit, because then
    no node can become leader or answer a query. For servers that are not brokers, the effect is that another server
    becomes the controller.

    before  the facts about the cluster before the fault
    nodes   the nodes that the fault has hit
    """
    if any(name in before.non_brokers for name in nodes):
        return moved_controller(env, nodes)
    if set(nodes) >= set(before.nodes):
        return hit(nodes, True)
    moved = wait_new_leaders(env, before, nodes)
    led = sum(1 for leader in before.leaders.values() if leader in nodes)
    orphans = leaderless(env, before, nodes) if len(moved) < led else 0
    effect = bool(moved or orphans) if led else True
    return hit(nodes, effect, new_leaders=moved, **({"without_leader": orphans} if orphans else {}))


def unseen(env: Env, before: Facts, nodes: Sequence[str]) -> dict[str, Any]:
    """Returns the value of the op without an effect, for faults that do not move leaders.

    The function `break_` of such a fault reports `took_effect` itself. The parameters are those of `moved_leaders`.
    """
    return hit(nodes, False)


def moved_controller(env: Env, names: Sequence[str]) -> dict[str, Any]:
    """Returns the effect of making controller servers unavailable: whether another server became the controller."""
    others = wait_for(lambda: [name for name in env.roles.holders("controller") if name not in names], effect_s(env))
    return hit(names, bool(others), **({"controller": others[0]} if others else {}))


class BrokenNodes:
    """A fault with two ops: `begin` breaks the target's nodes (or clients), and `end` mends them.

    The other parameters are functions:

    break_    breaks the nodes; the fields that it returns are added to the value of the op `begin`, and replace fields
              of the same name that `effect` returns
    mend      mends the nodes; then the op `end` waits for a healthy cluster
    effect    waits for the effect, and returns the value of the op `begin`
    evidence  returns evidence of the effect, just before the nodes are mended; if all nodes were hit, this evidence
              alone decides whether the fault took effect
    """

    def __init__(
        self,
        target: str,
        begin: str,
        end: str,
        break_: Act,
        mend: Act,
        evidence: Evidence = nothing_more,
        effect: Effect = moved_leaders,
    ) -> None:
        self.fs = frozenset({begin, end})
        self._target, self._begin = target, begin
        self._break, self._mend, self._evidence, self._effect = break_, mend, evidence, effect
        self._broken: list[str] = []
        self._acts: list[tuple[Env, list[str]]] = []  # the arguments of each call of `break_`
        self._lock = threading.Lock()  # another fault's thread calls `again`

    def invoke(self, env: Env, op: Op) -> Op:
        return op.with_(value=self._start(env) if op.f == self._begin else self._stop(env))

    def _start(self, env: Env) -> dict[str, Any]:
        before = facts(env, self._target)
        choose = {**NODE_TARGETS, **CLIENT_TARGETS}.get(self._target)
        aimed = choose(before, env.draw) if choose else [self._target]
        names = [name for name in aimed if name in (*before.nodes, *before.non_brokers, *before.clients)]
        if not names:
            return hit([], False, why=f"nothing to hit: there is no {self._target} at the moment")
        with self._lock:
            self._broken += [name for name in names if name not in self._broken]
            self._acts.append((replace(env, draw=copy(env.draw), effect_s=0.0), names))
            done = dict(self._break(env, names) or {}) | after_point(env)
        return {**self._effect(env, before, names), **done}

    def _stop(self, env: Env) -> dict[str, Any]:
        nodes = list(self._broken)
        if not nodes:
            return {"nodes": []}
        seen = self._seen(env, nodes)
        with self._lock:
            self._mend(env, nodes)
            self._forget()  # only now: if mending fails, the next healing tries again
        still = wait_healthy(env)
        return {"nodes": nodes, **seen, **({"unhealthy": still} if still else {})}

    def again(self) -> None:
        """Breaks the same nodes again if this fault is still on.

        Called when mending another fault has also mended these nodes.
        """
        with self._lock:
            for env, names in self._acts:
                self._break(replace(env, draw=copy(env.draw)), names)

    def _forget(self) -> None:
        self._broken, self._acts = [], []

    def _seen(self, env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
        """Returns the evidence, or an error message if it cannot be collected: the nodes must be mended anyway."""
        try:
            seen = dict(self._evidence(env, nodes))
        except (HarnessError, OSError) as error:
            return {"evidence": f"could not be collected: {error}"}
        if self._evidence is not nothing_more and set(nodes) >= set(env.cluster.nodes):
            seen["took_effect"] = any(bool(evidence) for evidence in seen.values())
        return seen

    def teardown(self, env: Env) -> None:
        if self._broken:
            self._mend(env, list(self._broken))
            self._forget()


class BrokenClients:
    """A fault whose op `begin` sends a signal to the worker processes that the target selects.

    number      the signal
    end         name of the op that ends the fault; empty: there is no such op
    end_number  the signal that the op `end` sends to the same processes; 0: none
    """

    def __init__(self, target: str, begin: str, number: int, end: str = "", end_number: int = 0) -> None:
        self.fs = frozenset({begin, end} - {""})
        self._target, self._begin = target, begin
        self._number, self._end_number = number, end_number
        self._hit: list[str] = []

    def invoke(self, env: Env, op: Op) -> Op:
        if op.f != self._begin:
            return op.with_(value={"nodes": [], "clients": self._stop(env)})
        aimed = Facts((), {}, env.workers.names())
        names = CLIENT_TARGETS[self._target](aimed, env.draw)
        signalled = [name for name in names if env.workers.signal(name, self._number)]
        self._hit += signalled
        return op.with_(value=hit([], bool(signalled), clients=signalled) | after_point(env))

    def _stop(self, env: Env) -> list[str]:
        names, self._hit = self._hit, []
        if self._end_number:
            for name in names:
                env.workers.signal(name, self._end_number)
        return names

    def teardown(self, env: Env) -> None:
        self._stop(env)
