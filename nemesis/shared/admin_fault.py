"""Faults that are requests to the brokers: done once, or changed and changed back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env
from harness.model.op import Op
from nemesis.shared.effects import facts, wait_healthy
from nemesis.targets import NODE_TARGETS, Facts

WITHIN_S: Final = 15.0

Kept = list[Any]
Change = Callable[[Env, Kept], dict[str, Any]]
Undo = Callable[[Env, Any], Mapping[str, Any] | None]
Look = Callable[[Env], Mapping[str, Any]]


def admin(env: Env, name: str, **arguments: Any) -> Any:
    """The value of an administrator's request. Raises ClusterTrouble."""
    assert env.admin is not None
    return env.admin(name, WITHIN_S, **arguments)


def aimed(env: Env, target: str) -> tuple[Facts, list[str]]:
    """What is known now, and the running nodes that a target means."""
    before = facts(env, target)
    choose = NODE_TARGETS.get(target)
    names = choose(before, env.draw) if choose else [target]
    return before, [name for name in names if name in before.nodes]


class Requested:
    """One request, or a few, that leave nothing to mend. `act` gives the value of the op."""

    def __init__(self, f: str, act: Callable[[Env], dict[str, Any]]) -> None:
        self.fs = frozenset({f})
        self._act = act

    def invoke(self, env: Env, op: Op) -> Op:
        return op.with_(value=self._act(env))

    def teardown(self, env: Env) -> None:
        """Nothing to mend."""


class Changed:
    """`begin` changes something, `end` changes it back and, with `whole`, waits for a healthy cluster.

    `change` gives the value of the op and puts into the list, before each of its steps, what `undo` needs to
    take that step back; `undo` gets these one by one, the last first, and what it gives is in the value of
    the end. What could not be undone is tried again by the next healing. Once the cluster is healthy again at
    the end of the run, `look` says what had come of the change.
    """

    def __init__(
        self, begin: str, end: str, change: Change, undo: Undo, whole: bool = True, look: Look | None = None
    ) -> None:
        self.fs = frozenset({begin, end})
        self._begin, self._change, self._undo, self._whole, self._look = begin, change, undo, whole, look
        self._kept: Kept = []
        self._changed = False

    def invoke(self, env: Env, op: Op) -> Op:
        if op.f == self._begin:
            self._changed = True
            return op.with_(value=self._change(env, self._kept))
        if not self._kept:
            return op.with_(value={"nodes": []})
        undone = self._back(env)
        still = wait_healthy(env) if self._whole else ""
        return op.with_(value={"nodes": [], **undone, **({"unhealthy": still} if still else {})})

    def _back(self, env: Env) -> dict[str, Any]:
        undone: dict[str, Any] = {}
        while self._kept:
            undone |= self._undo(env, self._kept[-1]) or {}
            self._kept.pop()
        return undone

    def healed(self, env: Env) -> Mapping[str, Any]:
        """For the value of the wait for a healthy cluster."""
        return self._look(env) if self._look is not None and self._changed else {}

    def teardown(self, env: Env) -> None:
        self._back(env)
