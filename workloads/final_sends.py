"""The final sends: once the cluster is healthy, every client must be able to send with the producer that it has.

They come before the final polls if producers are reused (`--reuse-producers`). Each client sends one record to each of
the latest `KEYS_MAX` keys, in one operation, and repeats this with new records until one operation succeeds as a whole.
If none does within `PATIENCE_NS`, the client is crashed on purpose, and sends with a new producer. If that one is
served, the cluster was healthy, and the old producer was stuck (checker.kernels.stuck_producers).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from harness.generator import op
from harness.model.fault_and_generator_protocols import PENDING, Context, Generator, Pending
from harness.model.op import INVOKE, OK, Op

PATIENCE_NS: Final = 31_000_000_000
KEYS_MAX: Final = 8
PAUSE_NS: Final = 500_000_000  # between a failed send and the next one
OLD_TRIES: Final = 3  # sends with the old producer, at least
NEW_TRIES: Final = 5  # sends with the new producer
# The values of the final sends go down from here. Those of the load are not negative, and the primer's is -1.
FIRST_VALUE: Final = -2


@dataclass(frozen=True, slots=True)
class FinalSends:
    """The final sends of one slot.

    keys      the keys to which it sends
    value     the value of the next records
    step      difference between the values of two sends, so that no two slots send the same value
    stage     old (sends with the producer of the load) -> crash -> new -> done
    waiting   whether the op of the current stage has been emitted, but has not completed
    since_ns  when the first send completed; None before
    next_ns   when the next op may begin
    tried     how many sends with the producer of this stage have completed
    """

    keys: tuple[int, ...]
    value: int
    step: int
    stage: Literal["old", "crash", "new", "done"] = "old"
    waiting: bool = False
    since_ns: int | None = None
    next_ns: int = 0
    tried: int = 0

    def op(self, ctx: Context) -> tuple[Op | Pending, Generator] | None:
        if self.stage == "done":
            return None
        if self.waiting or ctx.time_ns < self.next_ns:
            return PENDING, self
        if self.stage == "crash":
            return op("crash", None, final=True, sends=True), replace(self, waiting=True)
        return op("send", [["send", key, self.value] for key in self.keys], final=True), replace(self, waiting=True)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == INVOKE or not self.waiting or event.process not in ctx.all:
            return self
        rested = replace(self, waiting=False)
        if self.stage == "crash":
            return replace(rested, stage="new", tried=0)
        if event.type == OK:
            return replace(rested, stage="done")
        tried, next_ns = self.tried + 1, event.time_ns + PAUSE_NS
        sent = replace(rested, value=self.value - self.step, next_ns=next_ns, tried=tried)
        if self.stage == "new":
            return replace(sent, stage="done") if tried >= NEW_TRIES else sent
        since_ns = event.time_ns if self.since_ns is None else self.since_ns
        late = event.time_ns - since_ns >= PATIENCE_NS and tried >= OLD_TRIES
        return replace(sent, since_ns=since_ns, stage="crash" if late else "old")


def final_sends(slot: int, slots: int, keys: tuple[int, ...]) -> Generator:
    """Returns the final sends of a slot. `keys`: the keys of the load, in ascending order."""
    return FinalSends(keys[-KEYS_MAX:], FIRST_VALUE - slot, slots)
