"""Faults without a stop op: one action on nodes, which is complete when the op completes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.model.fault_and_generator_protocols import Env
from harness.model.op import Op
from nemesis.shared.break_and_mend import Act
from nemesis.shared.effects import facts, hit
from nemesis.targets import NODE_TARGETS, Facts


def _nothing(env: Env, nodes: Sequence[str]) -> None:
    """Does nothing, because there is nothing to mend."""


class OnNodes:
    """A fault that calls `act` with the target's nodes. The return value of `act` is the value of the op.

    At the end of the run, `mend` repairs the nodes, in case `act` failed half-way.
    """

    def __init__(
        self,
        target: str,
        f: str,
        act: Callable[[Env, Facts, Sequence[str]], dict[str, Any]],
        mend: Act = _nothing,
    ) -> None:
        self.fs = frozenset({f})
        self._target, self._act, self._mend = target, act, mend
        self._nodes: list[str] = []

    def invoke(self, env: Env, op: Op) -> Op:
        before = facts(env, self._target)
        choose = NODE_TARGETS.get(self._target)
        aimed = choose(before, env.draw) if choose else [self._target]
        nodes = [node for node in aimed if node in (*before.nodes, *before.non_brokers)]
        if not nodes:
            return op.with_(value=hit([], False, why=f"nothing to hit: there is no {self._target} at the moment"))
        self._nodes = nodes
        return op.with_(value=self._act(env, before, nodes))

    def teardown(self, env: Env) -> None:
        if self._nodes:
            self._mend(env, self._nodes)
            self._nodes = []
