"""A simulated run: client processes and faults interleave as the seed decides, and are recorded as in a real run.

`simulate(case)` returns the whole history, the recorded part of it, and the truth: every log with the fate of its
records, and the lies that were applied.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from harness.model.op import EMPTY, INFO, INVOKE, NEMESIS, OK, Op
from harness.model.randomness import Draw
from tests.oracle import faults
from tests.oracle.case import Case
from tests.oracle.clients import Client, Group, Steps
from tests.oracle.log import ABORTED, LOST, OPEN, Entry, Logs, Partition

MS = 1_000_000
STABLE_NS = 2_100 * MS
LIE_RATE = 0.25
LIES_MOST = 2  # of one kind


@dataclass(slots=True)
class Slot:
    process: int
    client: Client
    steps: Steps | None = None
    op: Op | None = None


class World:
    """The state that the clients and faults of one run share."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.draw = Draw.of(case.seed, "oracle-run", 0)
        self.now_ns = 0
        self.clock_ahead_ms = 0
        self.ops: list[Op] = []
        self.logs = Logs(
            {
                key: Partition(
                    key,
                    case.replication,
                    case.min_isr,
                    case.records_per_segment,
                    case.broker.get("log.flush.interval.messages") == "1",
                    leader=key % case.replication,
                )
                for key in range(case.keys)
            }
        )
        self.group = Group()
        self.abandoned: list[int] = []
        self.txn_of: dict[int, int] = {}
        self.resets: list[tuple[int, int]] = []
        self.told: dict[str, int] = {}
        self.early: dict[tuple[int, int], Entry] = {}
        self.reserved: dict[int, int] = {}
        self.retention_ms = case.retention_ms
        self.compacting = False
        self.loading = True
        self.values = 0
        self.down: set[int] = set()

    @property
    def now_ms(self) -> int:
        return self.now_ns // MS

    @property
    def committed_only(self) -> bool:
        return self.case.isolation == "read_committed"

    def chance(self, p: float) -> bool:
        """Draws whether something happens that only happens under load."""
        return self.loading and self.draw.random() < p

    def lie(self, name: str, possible: bool = True) -> bool:
        """Draws whether to apply a lie now."""
        if not possible or name not in self.case.lies or not self.loading or self.told.get(name, 0) >= LIES_MOST:
            return False
        if self.draw.random() >= LIE_RATE:
            return False
        self.told[name] = self.told.get(name, 0) + 1
        return True

    def append(self, key: int, value: int | None, txn: int | None) -> Entry:
        partition = self.logs.partitions[key]
        entry = partition.append(value, txn, self.now_ms)
        partition.flush(self.draw)
        return entry

    def lose(self, key: int, entry: Entry) -> None:
        """Removes a record; its offset stays unused."""
        self.logs.partitions[key].remove([entry], LOST)

    def make_visible(self, txn: int) -> None:
        """Makes records of a transaction that will be aborted look non-transactional."""
        for partition in self.logs.partitions.values():
            for entry in partition.entries:
                if entry.txn == txn and entry.value is not None:
                    entry.txn = None
            partition.replicate()

    def value(self, key: int) -> int:
        """The next value to send to a key."""
        reserved = self.reserved.pop(key, None)
        if reserved is not None:
            return reserved
        self.values += 1
        return self.values

    # --- time ---

    def tick(self) -> None:
        """What brokers do on their own between two steps."""
        draw = self.draw
        self.now_ns += draw.between(1, 120) * MS
        for partition in self.logs.partitions.values():
            if partition.available and draw.random() < 0.3:
                partition.replicate()
            partition.flush(draw)
            if self.loading and draw.random() < 0.03:
                partition.behind.add(draw.below(partition.copies))
            partition.behind.discard(partition.leader)
            if draw.random() < 0.15:
                faults.catch_up(self, partition)
            if draw.random() < 0.25:
                self.retain(partition)
            if self.compacting and draw.random() < 0.3:
                partition.clean()
        if self.abandoned and draw.random() < 0.1:
            self.expire()
        if self.lie("phantom"):
            self.append(draw.below(self.case.keys), 900_000 + self.told["phantom"], None)
        key = draw.below(self.case.keys)
        if self.lie("early-read", not self.reserved and not self.case.txn):
            self.values += 1
            self.reserved[key] = self.values
            self.early[key, self.values] = self.append(key, self.values, None)
            self.logs.partitions[key].replicate()

    def retain(self, partition: Partition) -> None:
        """Deletes segments beyond the limits, by the broker's clock."""
        until = partition.start
        if self.retention_ms is not None:
            until = max(until, partition.old_segments(self.retention_ms, self.now_ms + self.clock_ahead_ms))
        if self.case.retention_bytes is not None:
            until = max(until, partition.large_segments(self.case.retention_bytes))
        partition.delete_before(until)

    def expire(self) -> None:
        """The coordinator aborts abandoned transactions."""
        while self.abandoned:
            txn = self.abandoned.pop()
            if self.logs.txns[txn] == OPEN:
                self.logs.finish(txn, ABORTED, self.now_ms)

    def settle(self) -> None:
        """Ends all faults and brings all replicas in sync."""
        self.loading = False
        self.expire()
        for partition in self.logs.partitions.values():
            partition.behind.clear()
            partition.available = True
            partition.replicate()

    # --- recording ---

    def record(self, op: Op) -> Op:
        self.now_ns += 1_000
        stamped = op.with_(index=len(self.ops), time_ns=self.now_ns)
        self.ops.append(stamped)
        return stamped

    def fault(self, f: str, name: str, span: str, phase: str, value: Any) -> None:
        self.record(Op(-1, -1, NEMESIS, INFO, f, value, None, {"fault": name, "span": span, "phase": phase}))


@dataclass(slots=True)
class Truth:
    """What happened.

    world       logs, transactions, lies
    lost_head   keys whose first records were lost without a trace
    """

    world: World
    lost_head: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Run:
    """ops: the whole history; recorded: the part of it that was recorded."""

    case: Case
    ops: list[Op]
    recorded: list[Op]
    truth: Truth


class Load:
    """The operations of the slots, one after another."""

    def __init__(self, world: World) -> None:
        self.world = world

    def next(self, client: Client) -> tuple[str, Any, dict[str, Any]]:
        world, case, draw = self.world, self.world.case, self.world.draw
        keys = range(case.keys)
        idle = not client.consumer.positions and not client.consumer.subscribed
        if draw.random() < (0.5 if idle else 0.06):
            chosen = sorted(draw.shuffled(keys)[: draw.between(1, case.keys)])
            f = draw.choice(case.sub_via)
            return f, chosen, ({"seek_to_beginning": True} if f == "assign" and draw.random() < 0.3 else {})
        if draw.random() < 0.02:
            return "crash", None, {}
        if case.client_deletes and draw.random() < 0.08:
            key = draw.below(case.keys)
            end = world.logs.partitions[key].end
            return "delete-records", [[key, draw.choice((-1, draw.between(0, end)))]], {}
        polls = [draw.random() < 0.45 for _ in range(draw.choice((1, 1, 2, 3)))]
        if not case.txn and not case.mixed:
            polls = [polls[0]] * len(polls)
        mops: list[Any] = []
        for poll in polls:
            key = draw.below(case.keys)
            mops.append(["poll"] if poll else ["send", key, world.value(key)])
        kinds = {mop[0] for mop in mops}
        abort = case.txn and draw.random() < 0.08
        return (kinds.pop() if len(kinds) == 1 else "txn"), mops, {"abort": True} if abort else {}


def _step(world: World, slot: Slot) -> Op | None:
    """One step of a slot's operation. Returns its completion after the last step."""
    world.tick()
    assert slot.steps is not None and slot.op is not None
    try:
        next(slot.steps)
        return None
    except StopIteration as ended:
        kind, value, error, extra = ended.value
    kept = {name: slot.op.extra[name] for name in ("final",) if name in slot.op.extra}
    done = world.record(Op(-1, -1, slot.process, kind, slot.op.f, value, error, {**kept, **extra} or EMPTY))
    slot.steps, slot.op = None, None
    if kind == INFO:
        slot.client.crash()
        slot.process += world.case.processes
        slot.client = Client(world, slot.process)
    return done


def _begin(world: World, slot: Slot, f: str, value: Any, extra: dict[str, Any]) -> None:
    slot.op = world.record(Op(-1, -1, slot.process, INVOKE, f, value, None, extra or EMPTY))
    slot.steps = slot.client.steps(slot.op)


def _whole(world: World, slot: Slot, f: str, value: Any, extra: dict[str, Any]) -> Op:
    _begin(world, slot, f, value, extra)
    while True:
        done = _step(world, slot)
        if done is not None:
            return done


def _final(world: World, slots: list[Slot]) -> None:
    """The final polls: one slot after another reads everything back."""
    keys = sorted(world.logs.partitions)
    if world.case.final == "partial":
        keys = sorted(world.draw.shuffled(keys)[: world.draw.between(1, len(keys))])
    for number, slot in enumerate(slots[: world.draw.between(1, len(slots))]):
        _whole(world, slot, "crash", None, {"final": True})
        if number == 0 and world.draw.random() < 0.5:
            _whole(world, slot, "debug-topic-partitions", keys, {"final": True})
        seek = {} if world.case.final == "without seek" else {"seek_to_beginning": True}
        _whole(world, slot, "assign", keys, {**seek, "final": True})
        since: int | None = None
        polls = 2 if world.case.final == "short" else 60
        for _ in range(polls):
            done = _whole(world, slot, "poll", [["poll"]], {"final": True})
            positions = sorted(slot.client.consumer.positions.items())
            ends = [
                (key, world.logs.partitions[key].start, world.logs.stable(key, world.committed_only)) for key in keys
            ]
            if done.type == OK:
                world.ops[-1] = done.with_(
                    extra={
                        **done.extra,
                        "positions": [list(at) for at in positions],
                        "ends": [list(end) for end in ends],
                    }
                )
            if done.type != OK or positions != [(key, end) for key, _, end in ends]:
                since = None
            elif since is None:
                since = done.time_ns
            elif done.time_ns - since >= STABLE_NS:
                break
            if since is not None:
                world.now_ns += 700 * MS


def _cut(case: Case, ops: list[Op], draw: Draw) -> list[Op]:
    """The recorded part of the history."""
    if case.cut == "named":  # the client of process 0 uses the nemesis's name
        return [op.with_(process=NEMESIS) if op.process == 0 else op for op in ops]
    if case.cut == "tail":
        return ops[: max(1, len(ops) - draw.between(1, len(ops) // 2 + 1))]
    if case.cut == "lines" and len(ops) > 6:
        at = draw.between(1, len(ops) - 4)
        missing = draw.between(1, 4)
        return [op for op in ops if not at <= op.index < at + missing]
    return list(ops)


def simulate(case: Case) -> Run:
    world = World(case)
    truth = Truth(world)
    slots = [Slot(at, Client(world, at)) for at in range(case.processes)]
    load = Load(world)
    nemesis: list[Generator[None, None, None]] = [faults.SCRIPTS[name](world, name) for name in case.faults]
    started = 0
    while True:
        busy = [slot for slot in slots if slot.steps is not None]
        ready = slots if started < case.ops else busy
        if not ready:
            break
        if nemesis and world.draw.random() < 0.25:
            script = nemesis[0] if world.draw.random() < 0.7 else nemesis[-1]
            if next(script, "over") == "over":
                nemesis.remove(script)
        slot = world.draw.choice(ready)
        if slot.steps is None:
            _begin(world, slot, *load.next(slot.client))
            started += 1
        else:
            _step(world, slot)
    for script in nemesis:
        for _ in script:
            world.tick()
    world.settle()
    _late_lies(world, truth)
    if case.final != "absent":
        _final(world, slots)
    return Run(case, world.ops, _cut(case, world.ops, world.draw), truth)


def _late_lies(world: World, truth: Truth) -> None:
    """Lies about whole logs, applied after the load."""
    draw = world.draw
    partition = world.logs.partitions[draw.below(world.case.keys)]
    if "lose-tail" in world.case.lies and partition.end - partition.start > 1:
        world.told["lose-tail"] = 1
        partition.truncate(partition.end - draw.between(1, min(3, partition.end - partition.start)))
    if "lose-head" in world.case.lies and partition.end - partition.start > 1:
        world.told["lose-head"] = 1
        truth.lost_head.add(partition.key)
        to = partition.start + draw.between(1, partition.end - partition.start - 1)
        partition.remove([entry for entry in partition.entries if entry.offset < to], LOST)
        partition.start = to
