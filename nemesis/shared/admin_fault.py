"""Faults that consist of admin requests to the brokers: with nothing to undo, or changes that are undone later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.model.fault_and_generator_protocols import Env
from harness.model.op import Op
from nemesis.shared.effects import facts, wait_healthy
from nemesis.targets import NODE_TARGETS, Facts

WITHIN_S: Final = 15.0

UndoSteps = list[Any]
Change = Callable[[Env, UndoSteps], dict[str, Any]]
Undo = Callable[[Env, Any], Mapping[str, Any] | None]
Look = Callable[[Env], Mapping[str, Any]]


def admin(env: Env, name: str, **arguments: Any) -> Any:
    """Sends an admin request to the brokers, and returns its result. Raises ClusterTrouble."""
    assert env.admin is not None
    return env.admin(name, WITHIN_S, **arguments)


def aimed(env: Env, target: str) -> tuple[Facts, list[str]]:
    """Returns the current facts about the cluster, and the names of the running nodes that the target selects."""
    before = facts(env, target)
    choose = NODE_TARGETS.get(target)
    names = choose(before, env.draw) if choose else [target]
    return before, [name for name in names if name in before.nodes]


class Requested:
    """A fault that sends requests and has nothing to undo. The function `act` returns the value of the op."""

    def __init__(self, f: str, act: Callable[[Env], dict[str, Any]]) -> None:
        self.fs = frozenset({f})
        self._act = act

    def invoke(self, env: Env, op: Op) -> Op:
        return op.with_(value=self._act(env))

    def teardown(self, env: Env) -> None:
        """Does nothing, because there is nothing to undo."""


class Changed:
    """A fault with two ops: `begin` changes something, and `end` undoes the change.

    change        function that makes the change, and returns the value of the op `begin`. Its second argument is a
                  list. Before each step of the change, the function appends to the list what `undo` needs for the step.
    undo          function that is called with each entry of that list, the last entry first. The fields that it returns
                  are added to the value of the op `end`. If it fails, the entry stays in the list, and the next healing
                  calls the function again.
    await_health  whether `end` waits for a healthy cluster
    look          function that is called once the cluster is healthy again at the end of the run. It returns fields
                  that describe the lasting effect of the change. None: no such fields
    """

    def __init__(
        self, begin: str, end: str, change: Change, undo: Undo, await_health: bool = True, look: Look | None = None
    ) -> None:
        self.fs = frozenset({begin, end})
        self._begin, self._change, self._undo, self._await_health, self._look = begin, change, undo, await_health, look
        self._undo_steps: UndoSteps = []
        self._changed = False

    def invoke(self, env: Env, op: Op) -> Op:
        if op.f == self._begin:
            self._changed = True
            return op.with_(value=self._change(env, self._undo_steps))
        if not self._undo_steps:
            return op.with_(value={"nodes": []})
        undone = self._back(env)
        still = wait_healthy(env) if self._await_health else ""
        return op.with_(value={"nodes": [], **undone, **({"unhealthy": still} if still else {})})

    def _back(self, env: Env) -> dict[str, Any]:
        undone: dict[str, Any] = {}
        while self._undo_steps:
            undone |= self._undo(env, self._undo_steps[-1]) or {}
            self._undo_steps.pop()
        return undone

    def healed(self, env: Env) -> Mapping[str, Any]:
        """Returns the fields from `look`; no fields if the run never made the change.

        The caller adds the fields to the value of the op that waits for a healthy cluster at the end of the run.
        """
        return self._look(env) if self._look is not None and self._changed else {}

    def teardown(self, env: Env) -> None:
        self._back(env)
