"""delete-records: the older half of some logs is deleted with DeleteRecords. This is never undone.

Administrators and stream processing applications delete records in this way. The history records the new log start
offsets as [key, offset], so that the checker does not regard the deleted records as lost. Source: KIP-107.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.generator import NOTHING
from harness.model.capabilities import Brokers
from harness.model.fault_and_generator_protocols import Env, Fault
from harness.model.op import Op
from harness.model.randomness import Draw
from nemesis.schedule.timing import Timing, fault_op, repeated
from nemesis.shared.effects import hit
from nemesis.verb import Verb

_WITHIN_S: Final = 15.0
SOME: Final = "some"
ALL: Final = "all"


def chosen(logs: Sequence[Sequence[int]], target: str, draw: Draw) -> list[list[int]]:
    """Returns [key, offset] for each log that the target selects. The older half of the log is below the offset.

    logs    [key, log start offset, log end offset] of each log
    target  `some`: a random half of the non-empty logs; `all`: all non-empty logs
    """
    full = [(key, start, end) for key, start, end in logs if end > start]
    if target == SOME:
        full = draw.shuffled(full)[: -(-len(full) // 2)]
    return sorted([key, start + (end - start + 1) // 2] for key, start, end in full)


class DeleteRecords:
    """The nemesis that deletes records. Implements Nemesis."""

    def __init__(self, target: str) -> None:
        self.fs = frozenset({"delete-records"})
        self._target = target

    def invoke(self, env: Env, op: Op) -> Op:
        assert env.admin is not None
        keys = env.admin("keys", _WITHIN_S)
        logs = env.admin("list_offsets", _WITHIN_S, keys=keys)
        before = chosen(logs, self._target, env.draw)
        done: list[Any] = env.admin("delete_records", _WITHIN_S, before=before) if before else []
        return op.with_(value={**hit([], bool(done)), "deleted": done})

    def teardown(self, env: Env) -> None:
        """Does nothing, because deleted records cannot be restored."""


def _fault(target: str, timing: Timing) -> Fault:
    name = f"delete-records:{target}"
    once = fault_op("delete-records", name, target, "")
    return Fault(name, DeleteRecords(target), repeated(once, timing), NOTHING, (Brokers,), settings={"deletes": True})


VERB: Final = Verb(
    "delete the older half of the records of some logs (DeleteRecords); not undone",
    _fault,
    nodes=False,
    named={SOME: "The logs of a random half of the keys", ALL: "The log of every key"},
    short={"delete-records": "some"},
)
