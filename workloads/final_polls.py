"""The final polls: every client reads every log of the run from the beginning to the end.

With `send_first`, every client first sends records (workloads.final_sends).

Each client is first crashed on purpose, so that its replacement has no leftover state. The replacement assigns itself
every key, seeks to the beginning, and polls. It is done when its positions equal the log end offsets, and these have
not changed for a while. A client that makes no progress for ten seconds starts over. Modelled on jepsen.tests.kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from harness.generator import EachSlot, op, then
from harness.model.fault_and_generator_protocols import PENDING, Context, Generator, Pending
from harness.model.op import FAIL, INVOKE, OK, Op
from workloads.final_sends import final_sends

Answer = tuple[Op | Pending, Generator] | None

STABLE_S: Final = 2.0
RESTART_NS: Final = 10_000_000_000
REMOVES_TOPICS: Final = ("share-recreate",)  # ops that delete all topics used so far


def keys_of(event: Op) -> list[int]:
    """Returns the keys that an op sends to. Keys from which it polls do not count."""
    return [mop[1] for mop in event.value if mop[0] == "send"] if isinstance(event.value, list) else []


@dataclass(frozen=True, slots=True)
class Drain:
    """The final polls of one slot.

    settle_ns  how long the log end offsets must be stable
    stage      crash -> debug -> assign -> poll -> done
    waiting    whether the op of the current stage has been emitted, but has not completed
    ends       the log end offsets of the last poll after which the positions had reached them
    since_ns   the time since which `ends` has not changed; None while the positions have not reached the log ends
    moved_ns   when the positions last changed
    """

    keys: tuple[int, ...]
    debug: bool
    settle_ns: int
    stage: str = "crash"
    waiting: bool = False
    positions: tuple[tuple[int, int], ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    since_ns: int | None = None
    moved_ns: int = 0

    def op(self, ctx: Context) -> Answer:
        if self.stage == "done":
            return None
        if self.waiting:
            return PENDING, self
        made = {
            "crash": lambda: op("crash", None, final=True),
            "debug": lambda: op("debug-topic-partitions", list(self.keys), final=True),
            "assign": lambda: op("assign", list(self.keys), seek_to_beginning=True, final=True),
            "poll": lambda: op("poll", [["poll"]], final=True),
        }[self.stage]()
        return made, replace(self, waiting=True)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == INVOKE or not self.waiting or event.process not in ctx.all:
            return self
        rested = replace(self, waiting=False)
        if self.stage == "crash":
            return replace(rested, stage="debug" if self.debug else "assign")
        if self.stage == "debug":
            return replace(rested, stage="assign")
        if event.type not in (OK, FAIL):  # the process was replaced and lost its assignment
            return replace(rested, stage="assign", since_ns=None)
        if self.stage == "assign":
            began = replace(rested, since_ns=None, moved_ns=event.time_ns)
            return replace(began, stage="poll") if event.type == OK else began
        return rested._polled(event)

    def _polled(self, event: Op) -> Drain:
        positions = tuple(sorted((key, at) for key, at in event.extra.get("positions", ())))
        ends = tuple(sorted((row[0], row[2]) for row in event.extra.get("ends", ())))
        moved = event.type == OK and positions != self.positions
        now = replace(self, moved_ns=event.time_ns, positions=positions) if moved else self
        if event.type == OK and ends and positions == ends and len(ends) == len(self.keys):
            if now.since_ns is None or ends != now.ends:
                return replace(now, ends=ends, since_ns=event.time_ns)
            return replace(now, stage="done") if event.time_ns - now.since_ns >= self.settle_ns else now
        if event.time_ns - now.moved_ns > RESTART_NS:
            return replace(now, stage="crash", since_ns=None)
        return replace(now, since_ns=None)


@dataclass(frozen=True, slots=True)
class FinalPolls:
    """The final polls of all slots.

    During the load, this generator only notes which keys are used. Afterwards, every slot reads all of these keys.
    """

    settle_ns: int = int(STABLE_S * 1e9)
    send_first: bool = False
    keys: frozenset[int] = frozenset()
    begun: Generator | None = None

    def op(self, ctx: Context) -> Answer:
        if not self.keys:
            return None
        keys = tuple(sorted(self.keys))
        begun = self.begun or EachSlot(lambda slot: self._of_slot(slot, len(ctx.all), keys))
        answer = begun.op(ctx)
        return None if answer is None else (answer[0], replace(self, begun=answer[1]))

    def _of_slot(self, slot: int, slots: int, keys: tuple[int, ...]) -> Generator:
        drain = Drain(keys, slot == 0, self.settle_ns)
        return then(final_sends(slot, slots, keys), drain) if self.send_first else drain

    def update(self, ctx: Context, event: Op) -> Generator:
        if self.begun is not None:
            begun = self.begun.update(ctx, event)
            return self if begun is self.begun else replace(self, begun=begun)
        if event.f in REMOVES_TOPICS and event.type not in (INVOKE, FAIL):
            return replace(self, keys=frozenset())
        if event.type != INVOKE:
            return self
        fresh = [key for key in keys_of(event) if key not in self.keys] if event.f in ("send", "txn") else []
        return replace(self, keys=self.keys.union(fresh)) if fresh else self
