"""A history: ops in index order, with invocations and completions joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.model.op import INVOKE, NEMESIS, Op, Process


@dataclass(frozen=True, slots=True)
class History(Sequence[Op]):
    """Ops in index order, small enough for memory. `partner[i]` is the position of the other half of op i."""

    ops: tuple[Op, ...]
    partner: tuple[int, ...]

    def __getitem__(self, position: int) -> Op:  # type: ignore[override]
        return self.ops[position]

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def completion(self, position: int) -> Op | None:
        """The op that completed the invocation at `position`, or None if it never completed."""
        other = self.partner[position]
        return self.ops[other] if other >= 0 else None

    def invocation(self, position: int) -> Op | None:
        """The op that invoked the completion at `position`."""
        other = self.partner[position]
        return self.ops[other] if other >= 0 else None


def history(ops: Iterable[Op]) -> History:
    """Join ops, given in index order. The nemesis's ops, of type info, stand alone and have no partner."""
    listed = tuple(ops)
    partner = [-1] * len(listed)
    open_at: dict[Process, int] = {}
    for position, op in enumerate(listed):
        if op.process == NEMESIS:
            continue
        if op.type == INVOKE:
            open_at[op.process] = position
        else:
            began = open_at.pop(op.process, None)
            if began is not None:
                partner[position] = began
                partner[began] = position
    return History(listed, tuple(partner))
