"""A complete simulated run: returns the history that a real run would record. The seed determines the history.

    simulate(seed=1)                              a correct log: a checker must find nothing
    simulate(seed=1, bugs=frozenset({"phantom"})) a log with a bug: a checker must find the bug's anomalies (`BUGS`)

Processes run concurrently: each op is a coroutine (`client.SimClient.steps`), and the seed decides which one runs the
next step. Ops can fail or be indeterminate. After an indeterminate op the process is replaced: process p by process p +
`processes`. Consumers are assigned, subscribed and rebalanced, and clients crash. After the load, open transactions
end. Then each slot does the final polls of the queue workload, until its positions have been at the log ends for two
seconds.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from harness.model.op import EMPTY, INFO, INVOKE, OK, Op
from harness.model.randomness import Draw
from harness.sim.queue.attempt import Steps
from harness.sim.queue.client import SimClient
from harness.sim.queue.world import SimSettings, Trouble, World

STABLE_NS: Final = 2_000_000_000
FINAL_PAUSE_NS: Final = 200_000_000
TRANSACTION_TIMEOUT_NS: Final = 50_000_000
Script = Generator[tuple[str, Any, dict[str, Any]], Op, None]


@dataclass(slots=True)
class Slot:
    """A client slot: its current process, the client of this process, and the op in progress."""

    process: int
    client: SimClient
    steps: Steps | None = None
    op: Op | None = None
    fresh: bool = True  # no keys are assigned or subscribed yet


class Run:
    """One simulated run in progress; `ops` is its history so far."""

    def __init__(self, settings: SimSettings, processes: int) -> None:
        self.ops: list[Op] = []
        self._draw = Draw.of(settings.seed, "sim-run", 0)
        self._now_ns = 0
        self._count = processes
        self._world = World(settings, lambda: self._now_ns, TRANSACTION_TIMEOUT_NS)
        self.slots = [Slot(at, SimClient(self._world, at)) for at in range(processes)]

    @property
    def draw(self) -> Draw:
        return self._draw

    def wait(self, time_ns: int) -> None:
        self._now_ns += time_ns

    def settle(self) -> None:
        self._world.settle()

    def _record(self, op: Op) -> Op:
        stamped = op.with_(index=len(self.ops), time_ns=self._now_ns)
        self.ops.append(stamped)
        return stamped

    def invoke(self, slot: Slot, f: str, value: Any, extra: dict[str, Any]) -> None:
        op = self._record(Op(-1, -1, slot.process, INVOKE, f, value, None, extra or EMPTY))
        slot.op, slot.steps = op, slot.client.steps(op)

    def step(self, slot: Slot) -> Op | None:
        """Runs one step of the slot's op. After the last step returns the completion; otherwise returns None."""
        self._now_ns += self._draw.between(20_000, 800_000)
        self._world.expire()
        assert slot.steps is not None
        try:
            next(slot.steps)
            return None
        except StopIteration as ended:
            done = self._record(ended.value)
        slot.steps, slot.op = None, None
        if done.f in ("assign", "subscribe"):
            slot.fresh = False
        if done.type == INFO:
            slot.client.crash()
            slot.process += self._count
            slot.client, slot.fresh = SimClient(self._world, slot.process), True
        return done


class Load:
    """A generator of random ops on a few keys. Each value is sent only once."""

    def __init__(
        self, run: Run, keys: int, txn: bool, sub_via: tuple[str, ...], length_max: int, crash_p: float
    ) -> None:
        self._run, self._keys, self._txn = run, keys, txn
        self._sub_via, self._length_max, self._crash_p = sub_via, length_max, crash_p
        self._values = [0] * keys

    def next(self, fresh: bool) -> tuple[str, Any, dict[str, Any]]:
        """Returns (f, value, extra) of a slot's next op.

        `fresh`: the slot's client has not assigned or subscribed any keys yet.
        """
        draw = self._run.draw
        if draw.random() < self._crash_p:
            return "crash", None, {}
        if draw.random() < (0.7 if fresh else 0.05):
            chosen = draw.shuffled(range(self._keys))[: draw.between((self._keys + 1) // 2, self._keys)]
            return draw.choice(self._sub_via), sorted(chosen), {}
        length = draw.between(1, self._length_max)
        polls = [draw.random() < 0.5 for _ in range(length)]
        if not self._txn:
            # Without a transaction an op is not atomic: it may correctly poll its own record, and only one of two
            # sends may be in the log. So an op has one send, or only polls.
            polls = [True] * length if polls[0] else [False]
        mops = [["poll"] if poll else self._send() for poll in polls]
        kinds = {mop[0] for mop in mops}
        abort = self._txn and draw.random() < 0.05
        return (kinds.pop() if len(kinds) == 1 else "txn"), mops, {"abort": True} if abort else {}

    def _send(self) -> list[Any]:
        key = self._run.draw.below(self._keys)
        value = self._values[key]
        self._values[key] += 1
        return ["send", key, value]

    def touched(self) -> list[int]:
        return [key for key, sent in enumerate(self._values) if sent]


def _final_polls(keys: list[int], debug: bool) -> Script:
    """Yields the invocations of one slot's final polls. `debug`: first ask for leaders and log ends.

    The caller must send each op's completion into this Python generator.
    """
    yield "crash", None, {"final": True}
    if debug:
        yield "debug-topic-partitions", keys, {"final": True}
    yield "assign", keys, {"seek_to_beginning": True, "final": True}
    since_ns: int | None = None
    while True:
        done = yield "poll", [["poll"]], {"final": True}
        ends = [[key, end] for key, _, end in done.extra.get("ends", [])]
        if done.type != OK or done.extra["positions"] != ends:
            since_ns = None
        elif since_ns is None:
            since_ns = done.time_ns
        elif done.time_ns - since_ns >= STABLE_NS:
            return


def _drain(run: Run, keys: list[int]) -> None:
    """Runs the final polls of all slots concurrently."""
    scripts: dict[int, Script] = {at: _final_polls(keys, at == 0) for at in range(len(run.slots))}
    upcoming = {at: next(script) for at, script in scripts.items()}
    while scripts:
        at = run.draw.choice(sorted(scripts))
        slot = run.slots[at]
        if slot.steps is None:
            run.wait(FINAL_PAUSE_NS // len(run.slots))
            run.invoke(slot, *upcoming[at])
            continue
        done = run.step(slot)
        if done is not None:
            try:
                upcoming[at] = scripts[at].send(done)
            except StopIteration:
                del scripts[at]


def simulate(
    seed: int,
    ops: int = 300,
    processes: int = 5,
    keys: int = 4,
    txn: bool = True,
    bugs: frozenset[str] = frozenset(),
    *,
    sub_via: tuple[str, ...] = ("assign", "subscribe"),
    isolation_level: str = "read_committed",
    length_max: int = 4,
    crash_p: float = 0.02,
    trouble: Trouble | None = None,
    final: bool = True,
) -> list[Op]:
    """Returns the history of a run: `ops` ops of `processes` clients on `keys` keys, and final polls.

    Equal arguments give equal histories.

    txn      ops are transactions; otherwise each op is one send, or consists only of polls
    bugs     names from `bugs.BUGS`; if empty, the log is correct
    sub_via  how consumers get their keys: assign, subscribe, or both
    trouble  the probabilities that a response is lost, and that a send is refused
    final    whether the run ends with final polls

    Raises BadInput if a bug is unknown.
    """
    settings = SimSettings(seed=seed, txn=txn, isolation_level=isolation_level, trouble=trouble or Trouble(), bugs=bugs)
    run = Run(settings, processes)
    load = Load(run, keys, txn, sub_via, length_max, crash_p)
    started = 0
    while True:
        busy = [slot for slot in run.slots if slot.steps is not None]
        ready = busy if started >= ops else run.slots
        if not ready:
            break
        slot = run.draw.choice(ready)
        if slot.steps is None:
            run.invoke(slot, *load.next(slot.fresh))
            started += 1
        else:
            run.step(slot)
    run.settle()
    touched = load.touched()
    if final and touched:
        _drain(run, touched)
    return run.ops
