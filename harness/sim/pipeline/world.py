"""The environment of simulated pipeline instances, in memory: input and output logs, a consumer group, transactions.

The instances are the real ones (harness.pipeline_app). Only one instance runs at a time. Time advances only when the
simulated clock is read. Reading and writing follow KIP-98 and KIP-447: a new producer with a transactional id fences
the previous one and aborts its open transaction; offsets are accepted only from the group's current generation; each
transaction ends with a marker, which takes an offset.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.model.randomness import Draw
from harness.pipeline_app import mistakes
from harness.pipeline_app.instance import Instance
from harness.pipeline_app.ports import Failed, Mark, Options, Output, Partition, Rebalances, Record, Source

INPUT: Final = "in"
OUTPUT: Final = "out"
POLLED: Final = 4  # records of a partition that one poll returns
AUTO_COMMIT: Final = 10  # polls between two commits by the library


class Killed(Exception):
    """Raised in a simulated process when it is killed during a call."""


@dataclass(slots=True)
class OutputRecord:
    """A record of the output log; `committed` is None while its transaction is open."""

    output: Output
    instance: int
    incarnation: int
    generation: int | None
    time_ns: int
    committed: bool | None


@dataclass(slots=True)
class World:
    """Everything outside the instances.

    inputs   partition -> records; missing offsets are markers of the writers' transactions
    ends     input partition -> log end offset
    outputs  partition -> records and markers (None)
    marks    input partition -> the group's committed offset
    members  process -> the process as a member of the group
    epochs   transactional id -> the epoch of its producer
    open     transactional id -> the records of its open transaction
    frozen   paused processes, which the group has removed
    roster   processes in the current generation
    """

    options: Options
    partitions: int
    draw: Draw
    eager: bool = True
    now: int = 0
    generation: int = 0
    inputs: dict[Partition, list[Record]] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    outputs: dict[Partition, list[OutputRecord | None]] = field(default_factory=dict)
    marks: dict[Partition, Mark] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    open: dict[str, list[tuple[Partition, OutputRecord]]] = field(default_factory=dict)
    events: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    sent: list[dict[str, Any]] = field(default_factory=list)
    frozen: set[int] = field(default_factory=set)
    roster: list[int] = field(default_factory=list)

    def clock(self) -> int:
        """Returns the time in ns. Every call returns a later time than the one before."""
        self.now += 1000
        return self.now

    def write(self, keys: int) -> None:
        """Writes one input record, sometimes followed by a marker."""
        id_, key = len(self.sent), self.draw.below(keys)
        at = (INPUT, key % self.partitions)
        offset = self.ends.get(at, 0)
        self.inputs.setdefault(at, []).append((offset, id_, key))
        self.ends[at] = offset + (2 if self.draw.random() < 0.05 else 1)
        place = {"topic": at[0], "partition": at[1], "offset": offset}
        self.sent.append({"id": id_, "key": key, **place, "outcome": "ok", "time_ns": self.clock()})

    # --- the group ---

    def join(self, slot: int) -> None:
        """Starts a new process in a slot of the pipeline. It becomes a member of the group."""
        process = slot + 100 * len(self.events)
        self.members[process] = Member(self, slot, process)
        self.rebalance()

    def leave(self, process: int) -> None:
        """Removes a process. Aborts its open transaction, as brokers do after a timeout, and rebalances the group."""
        member = self.members.pop(process)
        self.end(member.txn_id, False, member.epoch)
        self.frozen.discard(process)
        self.rebalance()

    def rebalance(self) -> None:
        """Starts a new generation of the group. Members notice it at their next poll."""
        self.generation += 1
        self.roster = self.awake()
        for process in self.roster:
            self.members[process].due, self.members[process].revoked = True, False

    def awake(self) -> list[int]:
        return sorted(self.members.keys() - self.frozen)

    def share(self, process: int) -> list[Partition]:
        """Returns the partitions of a process.

        They are assigned round robin to the processes in the current generation; the order is shifted in every second
        generation.
        """
        index, count = self.roster.index(process), len(self.roster)
        return [(INPUT, n) for n in range(self.partitions) if (n + self.generation // 2) % count == index]

    # --- transactions ---

    def append(self, outputs: Sequence[Output], member: Member, txn: bool) -> None:
        for output in outputs:
            at = (OUTPUT, output[1] % self.partitions)
            committed, generation = None if txn else True, member.joined_generation
            record = OutputRecord(output, member.slot, member.process, generation, self.clock(), committed)
            self.outputs.setdefault(at, []).append(record)
            if txn:
                self.open.setdefault(member.txn_id, []).append((at, record))

    def end(self, txn_id: str, committed: bool, epoch: int) -> None:
        """Commits or aborts the open transaction of a transactional id. Does nothing if its producer
        has another epoch.
        """
        if self.epochs.get(txn_id) != epoch:
            return
        outputs = self.open.pop(txn_id, [])
        for _, record in outputs:
            record.committed = committed
        for at in {at for at, _ in outputs}:
            self.outputs[at].append(None)


class Member:
    """A simulated process: a member of the consumer group, and the pipeline instance that runs in it.

    The instance reads from this object, and writes to a `Producer`.
    """

    def __init__(self, world: World, slot: int, process: int) -> None:
        self.world, self.slot, self.process = world, slot, process
        self.due = self.revoked = False
        self.lost_in = 0  # number of polls until it notices that it lost its partitions; 0: it has not lost them
        self.positions: dict[Partition, int] = {}
        self.joined_generation = world.generation
        self.dies_in = 0  # number of calls until it is killed; 0: it is not
        mistake = world.options.mistake
        shared = "all" if mistake == mistakes.SHARED_ID else f"slot-{slot}"
        self.txn_id = f"process-{process}" if mistake == mistakes.NOT_FENCED else shared
        self.epoch = -1
        self.pending: Mapping[Partition, Mark] = {}
        self.init()
        world.events[process] = []
        sink = Producer(self)
        self.instance = Instance(world.options, slot, process, self, sink, world.clock, world.events[process].append)

    def may_die(self) -> None:
        if self.dies_in:
            self.dies_in -= 1
            if not self.dies_in:
                raise Killed

    def init(self) -> None:
        """Simulates initTransactions: aborts the open transaction, and fences the previous producer."""
        world = self.world
        before = world.epochs.get(self.txn_id, -1)
        world.end(self.txn_id, False, before)
        self.epoch = world.epochs[self.txn_id] = before + 1

    def check_epoch(self) -> None:
        if self.world.epochs[self.txn_id] != self.epoch:
            raise Failed("fatal", "_FENCED")

    def check_generation(self) -> None:
        stale = self.process in self.world.frozen or bool(self.lost_in)
        if stale and self.world.options.mistake != mistakes.NOT_FENCED:
            raise Failed("abort", "ILLEGAL_GENERATION")

    # --- source ---

    def poll(self, timeout_s: float, records_max: int, on: Rebalances) -> Mapping[Partition, list[Record]]:
        self.may_die()
        if self.world.options.mode == "auto-commit" and not self.lost_in:
            self._auto_commit()
        if self.lost_in:
            self.lost_in -= 1
            if not self.lost_in:
                revoked, self.positions = list(self.positions), {}
                self.due = False
                on.revoked(revoked, True)
                self.world.rebalance()
        elif self.due and self._rebalanced(on):
            return {}
        found = {}
        for at, position in self.positions.items():
            log = self.world.inputs.get(at, [])
            begin = bisect.bisect_left(log, (position, -1, -1))
            records = log[begin : begin + POLLED]
            if records:
                found[at] = records
                self.positions[at] = records[-1][0] + 1
        return found

    def _auto_commit(self) -> None:
        """Commits the offsets of the records from earlier polls, but only at some of its calls, as a library with
        auto-commit does.
        """
        if self.due or self.world.draw.below(AUTO_COMMIT) == 0:
            self.world.marks |= {at: Mark(offset) for at, offset in self.positions.items()}

    def _rebalanced(self, on: Rebalances) -> bool:
        """Revokes partitions, then assigns the new share. Returns True if the assignment must wait for a later poll."""
        world = self.world
        share = world.share(self.process)
        if not self.revoked:
            revoked = [at for at in self.positions if world.eager or at not in share]
            if revoked:
                on.revoked(revoked, False)
                self.positions = {at: offset for at, offset in self.positions.items() if at not in revoked}
            self.revoked = True
            if world.draw.random() < 0.5:
                return True
        others = [world.members[process] for process in world.roster if process != self.process]
        if any(other.due and not other.revoked for other in others):
            return True  # not all members have joined
        self.due, self.revoked, self.joined_generation = False, False, world.generation
        self.positions |= on.assigned({at: world.marks.get(at) for at in share if at not in self.positions})
        return False

    def seek(self, positions: Mapping[Partition, int]) -> None:
        self.positions |= positions

    def pause(self, partitions: Sequence[Partition]) -> None: ...

    def resume(self, partitions: Sequence[Partition]) -> None: ...

    def commit(self, marks: Mapping[Partition, Mark]) -> None:
        self.may_die()
        self.check_generation()
        self.world.marks |= marks
        self.may_die()

    def generation(self) -> int | None:
        return self.joined_generation

    def close(self, leave: bool, on: Rebalances) -> None:
        if leave and self.positions:
            on.revoked(list(self.positions), False)
        self.positions = {}


class Producer:
    """The object that a member's instance writes to: it writes the outputs and runs the transactions."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def begin(self) -> None:
        self._member.check_epoch()
        self._member.pending = {}

    def send(self, outputs: Sequence[Output], generation: int | None) -> None:
        member, txn = self._member, self._member.world.options.transactional
        if txn:
            member.check_epoch()
        half = len(outputs) // 2
        member.world.append(outputs[:half], member, txn)
        member.may_die()
        member.world.append(outputs[half:], member, txn)

    def offsets(self, marks: Mapping[Partition, Mark], source: Source) -> None:
        self._member.may_die()
        self._member.check_generation()
        self._member.check_epoch()
        self._member.pending = marks

    def commit(self) -> None:
        member = self._member
        member.may_die()
        member.check_epoch()
        member.world.marks |= member.pending
        member.world.end(member.txn_id, True, member.epoch)
        member.may_die()  # after the commit, but before the response

    def abort(self) -> None:
        self._member.check_epoch()
        self._member.world.end(self._member.txn_id, False, self._member.epoch)

    def reopen(self) -> None:
        self._member.init()

    def close(self) -> None: ...
