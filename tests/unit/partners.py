"""Pairs the invocations and completions of a history."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.op import INVOKE, NEMESIS, Op, Process


def partners(ops: Sequence[Op]) -> list[Op | None]:
    """The completion of each invocation, and the invocation of each completion; None for the nemesis's ops."""
    found: list[Op | None] = [None] * len(ops)
    open_at: dict[Process, int] = {}
    for position, op in enumerate(ops):
        if op.process == NEMESIS:
            continue
        if op.type == INVOKE:
            open_at[op.process] = position
        else:
            began = open_at.pop(op.process, None)
            if began is not None:
                found[position], found[began] = ops[began], op
    return found
