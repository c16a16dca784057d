"""An in-memory log, group and producers for the real instances: enough to observe what an instance does.

Rebalances are eager: all partitions are revoked, and assigned in the same poll or the next. Only one instance runs at
a time; a killed one loses its buffer, and a frozen one resumes after others have got its partitions.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.model.randomness import Draw
from harness.pipeline_app import mistakes
from harness.pipeline_app.instance import Instance
from harness.pipeline_app.ports import Failed, Mark, Options, Output, Partition, Rebalances, Record, Source

TURN_NS = 50_000_000


@dataclass
class World:
    """Everything outside the instances."""

    options: Options
    partitions: int
    slots: int
    draw: Draw
    now: int = 0
    generation: int = 0
    logs: dict[Partition, list[Record]] = field(default_factory=dict)
    marks: dict[Partition, Mark] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)  # by process
    epochs: dict[str, int] = field(default_factory=dict)  # by transactional id
    out: list[Output] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    next_id: int = 0
    processes: int = 0
    frozen: set[int] = field(default_factory=set)

    def write(self, count: int) -> None:
        for _ in range(count):
            at = ("in-0", self.next_id % self.partitions)
            log = self.logs.setdefault(at, [])
            log.append((len(log), self.next_id, self.next_id % self.partitions))
            self.next_id += 1

    def join(self, slot: int) -> Member:
        process = slot + self.slots * self.processes
        self.processes += 1
        self.members[process] = member = Member(self, slot, process)
        self.rebalance()
        return member

    def rebalance(self) -> None:
        """Starts a new generation, which members learn of in their next polls."""
        self.generation += 1
        live = sorted(set(self.members) - self.frozen)
        for process in live:
            self.members[process].due = True

    def share(self, process: int) -> list[Partition]:
        live = sorted(set(self.members) - self.frozen)
        return [("in-0", p) for p in range(self.partitions) if live[p % len(live)] == process]


class Member:
    """An instance with its ports."""

    def __init__(self, world: World, slot: int, process: int) -> None:
        self.world, self.slot, self.process = world, slot, process
        self.due, self.revoked = False, False
        self.lost, self.loss_reported = False, False  # its partitions may have other owners; it learns of it in a poll
        self.positions: dict[Partition, int] = {}
        self.known = world.generation
        mistake = world.options.mistake
        shared = "all" if mistake == mistakes.SHARED_ID else f"slot-{slot}"
        self.txn_id = f"process-{process}" if mistake == mistakes.NOT_FENCED else shared
        self.epoch = -1
        self.sent: list[Output] = []
        self.pending: Mapping[Partition, Mark] = {}
        self.init()
        self.instance = Instance(
            world.options, slot, process, self, _Sink(self), lambda: world.now, world.events.append
        )

    # --- source ---

    def poll(self, timeout_s: float, records_max: int, on: Rebalances) -> Mapping[Partition, list[Record]]:
        world = self.world
        if self.lost and not self.loss_reported:
            self.loss_reported = True  # a process that resumes learns of it only later
            return {}
        if self.lost:
            self.lost = self.loss_reported = False
            gone, self.positions = list(self.positions), {}
            on.revoked(gone, True)
            world.rebalance()
        if self.due:
            if not self.revoked and self.positions:
                on.revoked(list(self.positions), False)
                self.positions, self.revoked = {}, True
                if world.draw.random() < 0.5:
                    return {}  # the assignment follows in a later poll
            if any(member.positions and member.due for member in world.members.values() if not member.lost):
                return {}  # others have not revoked theirs yet
            self.due, self.revoked, self.known = False, False, world.generation
            self.positions = dict(on.assigned({at: world.marks.get(at) for at in world.share(self.process)}))
        found = {}
        for at, position in self.positions.items():
            records = world.logs.get(at, [])[position : position + 4]
            if records:
                found[at] = records
                self.positions[at] = position + len(records)
        return found

    def seek(self, positions: Mapping[Partition, int]) -> None:
        self.positions |= positions

    def pause(self, partitions: Sequence[Partition]) -> None: ...
    def resume(self, partitions: Sequence[Partition]) -> None: ...

    def _check(self) -> None:
        fenced = self.world.options.mistake != mistakes.NOT_FENCED
        if self.lost and fenced:
            raise Failed("abort", "ILLEGAL_GENERATION")

    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        self._check()
        self.world.marks |= marks

    def generation(self) -> int | None:
        return self.known

    def close(self, leave: bool, on: Rebalances) -> None:
        if leave:
            on.revoked(list(self.positions), False)
        self.positions = {}

    # --- transactions ---

    def init(self) -> None:
        self.epoch = self.world.epochs[self.txn_id] = self.world.epochs.get(self.txn_id, -1) + 1

    def check_epoch(self) -> None:
        if self.world.epochs[self.txn_id] != self.epoch:
            raise Failed("fatal", "_FENCED")


class _Sink:
    def __init__(self, member: Member) -> None:
        self._member = member

    def begin(self) -> None:
        self._member.check_epoch()
        self._member.sent, self._member.pending = [], {}

    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        if self._member.world.options.transactional:
            self._member.check_epoch()
            self._member.sent += outputs
        else:
            self._member.world.out += outputs

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        self._member._check()
        self._member.pending = marks

    def commit(self) -> None:
        self._member.check_epoch()
        self._member.world.out += self._member.sent
        self._member.world.marks |= self._member.pending

    def abort(self) -> None:
        self._member.check_epoch()

    def reopen(self) -> None:
        self._member.init()

    def close(self) -> None: ...


def run(options: Options, seed: int, turns: int = 400) -> tuple[World, Counter[int]]:
    """A run with joins, leaves, kills and zombies, then a quiet end. Returns the world, and the number of outputs
    per id."""
    draw = Draw.of(seed, "world", 0)
    world = World(replace(options, seed=seed), partitions=6, slots=3, draw=draw)
    for slot in range(3):
        world.join(slot)
    for turn in range(turns):
        world.now += TURN_NS
        quiet = turn > turns - 100
        if not quiet:
            world.write(draw.below(12))
        if not quiet and draw.random() < 0.06:
            _disturb(world, draw)
        if quiet:
            world.frozen.clear()
        for process in sorted(world.members):
            if process not in world.frozen:
                _step(world, process)
    return world, Counter(id for id, _, _ in world.out)


def _disturb(world: World, draw: Draw) -> None:
    """Lets an instance join, leave, be killed and replaced, or freeze (perhaps replaced); or resumes a frozen one."""
    awake = sorted(set(world.members) - world.frozen)
    member = world.members[draw.choice(awake)]
    kind = draw.choice(("leave", "kill", "freeze", "join"))
    vacant = sorted(set(range(world.slots)) - {one.slot for one in world.members.values()})
    if world.frozen and kind != "join":
        world.frozen.clear()
    elif kind == "join" and vacant:
        world.join(draw.choice(vacant))
    elif kind == "leave" and len(awake) > 1:
        with contextlib.suppress(Failed):
            member.instance.close(leave=True)
        del world.members[member.process]
        world.rebalance()
    elif kind == "kill":
        del world.members[member.process]
        world.join(member.slot)
    elif kind == "freeze" and len(awake) > 1 and member.positions:
        world.frozen.add(member.process)
        member.lost, member.due = True, False
        world.rebalance()
        if draw.random() < 0.5:
            world.join(member.slot)


def _step(world: World, process: int) -> None:
    member = world.members[process]
    try:
        member.instance.step()
    except Failed:
        del world.members[process]
        if all(other.slot != member.slot for other in world.members.values()):
            world.join(member.slot)
        else:
            world.rebalance()
