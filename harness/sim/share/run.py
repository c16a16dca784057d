"""A complete simulated run with share groups: returns the history that a real run would record.

    simulate(Shape(seed=1))                                  correct groups: a checker must find nothing
    simulate(Shape(seed=1), bugs=frozenset({"share-lock"}))  a group with a bug: a checker must find `BUGS[...].shows`

Writers, members, an administrator and the nemesis run concurrently in simulated time. Members poll, acknowledge, pause,
crash and close; responses get lost; leaders move. After the load comes a pause longer than the lock. Then new members
poll until nothing is left, and a reader reads the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import EMPTY, FAIL, INFO, INVOKE, NEMESIS, OK, Op
from harness.model.randomness import Draw
from harness.sim.share.bugs import BUGS
from harness.sim.share.partition import ABORTED, COMMITTED, MARKER, OPEN, Log, SharePartition

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
QUIET_NS: Final = 17 * SECOND
ADMIN: Final = 1_000
READER: Final = 1_001
FIRST_OF_FINALS: Final = 2_000
Steps = Generator[int, None, None]  # yields how long to wait, in ns


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run consists of.

    load_s         seconds of load
    lock_ms        the record lock duration
    limit          the delivery limit
    trouble        the probability that a response is lost, and half of that of a crash
    faults         how often leaders move
    implicit       members acknowledge implicitly, by their next poll
    reset_latest   groups start at the end of the logs
    """

    seed: int = 0
    load_s: int = 12
    keys: int = 2
    groups: int = 1
    members: int = 3
    writers: int = 2
    txn: bool = False
    isolation_level: str = "read_committed"
    lock_ms: int = 2_000
    limit: int = 5
    trouble: float = 0.02
    faults: int = 0
    implicit: bool = False
    reset_latest: bool = False


class Run:
    """One simulated run in progress; `ops` is its history so far."""

    def __init__(self, shape: Shape, bugs: frozenset[str]) -> None:
        self.shape, self.bugs, self.now_ns, self.ops = shape, bugs, 0, list[Op]()
        self.draw = Draw.of(shape.seed, "sim-share", 0)
        self.quiet = False  # the final phase has neither trouble nor bugs
        self.logs = {key: Log() for key in range(1, shape.keys + 1)}
        self.down: dict[int, int] = {}  # key -> when it has a leader again, in ns
        self.partitions: dict[tuple[str, int], SharePartition] = {}
        self._values = 0
        self._processes = 100
        self._timers: list[tuple[int, int, Steps]] = []
        self._count = 0
        self.load_end_ns = shape.load_s * SECOND

    # --- time ---

    def spawn(self, steps: Steps, after_ns: int = 0) -> None:
        self._count += 1
        heapq.heappush(self._timers, (self.now_ns + after_ns, self._count, steps))

    def drain(self) -> None:
        """Runs all actors to their ends."""
        while self._timers:
            self.now_ns, _, steps = heapq.heappop(self._timers)
            try:
                wait_ns = next(steps)
            except StopIteration:
                continue
            self.spawn(steps, max(1, wait_ns))

    def latency(self) -> int:
        return self.draw.between(MS, 20 * MS)

    # --- the history ---

    def record(self, process: Any, type_: str, f: str, value: Any, error: Any = None, **extra: Any) -> None:
        self.ops.append(Op(len(self.ops), self.now_ns, process, type_, f, value, error, extra or EMPTY))

    def process(self) -> int:
        self._processes += 1
        return self._processes

    # --- the cluster ---

    def happens(self, p: float) -> bool:
        return not self.quiet and self.draw.random() < p

    def bug(self, name: str) -> bool:
        """Returns whether the bug `name` is enabled and occurs now."""
        return name in self.bugs and self.happens(BUGS[name].rate)

    def value(self) -> int:
        self._values += 1
        return self._values

    def partition(self, group: str, key: int) -> SharePartition:
        """Returns a group's share partition. The first member to ask for it determines where it starts."""
        found = self.partitions.get((group, key))
        if found is None:
            shape = self.shape
            committed_only = shape.isolation_level == "read_committed"
            found = SharePartition(self.logs[key], shape.lock_ms * MS, shape.limit, committed_only, self.bug)
            found.start = len(self.logs[key].entries) if shape.reset_latest else 0
            self.partitions[group, key] = found
        return found

    def has_leader(self, key: int) -> bool:
        return self.down.get(key, 0) <= self.now_ns


def writer(run: Run, process: int) -> Steps:
    """Sends records, in transactions if the run has them."""
    while run.now_ns < run.load_end_ns:
        yield run.draw.between(20 * MS, 120 * MS)
        count = run.draw.between(1, 3) if run.shape.txn else 1
        mops: list[list[Any]] = [["send", run.draw.choice(sorted(run.logs)), run.value()] for _ in range(count)]
        f = "txn" if run.shape.txn else "send"
        run.record(process, INVOKE, f, mops)
        offsets, sent = list[tuple[int, int]](), []
        for _, key, value in mops:
            yield run.latency()
            offset = run.logs[key].append(value, OPEN if run.shape.txn else COMMITTED)
            offsets.append((key, offset))
            sent.append(["send", key, [offset, value]])
        yield run.latency()
        aborts = run.shape.txn and run.draw.random() < 0.25
        if run.shape.txn:
            for key in sorted({key for key, _ in offsets}):
                for where, offset in offsets:
                    if where == key:
                        run.logs[key].entries[offset].state = ABORTED if aborts else COMMITTED
                run.logs[key].append(None, MARKER)
        yield run.latency()
        if aborts:
            run.record(process, FAIL, f, mops, "aborted on purpose")
        elif run.happens(run.shape.trouble):
            run.record(process, INFO, f, mops, "_TIMED_OUT: simulated")
            process = run.process()
        else:
            run.record(process, OK, f, sent)


@dataclass(slots=True)
class Member:
    """A member of a share group. `buffer` has what a fetch brought and no poll has returned yet."""

    group: str
    process: int
    number: int
    buffer: list[list[Any]]
    pending: list[list[Any]]

    @property
    def name(self) -> str:
        return f"{self.process}.{self.number}"


def fetch(run: Run, member: Member, most: int) -> None:
    """Acquires records for a member's next poll."""
    for key in run.draw.shuffled(sorted(run.logs)):
        if run.has_leader(key):
            rows = run.partition(member.group, key).acquire(member.name, most, run.now_ns)
            if len(rows) > 1 and run.bug("shuffled-batch"):
                rows[0], rows[1] = rows[1], rows[0]
            member.buffer += [[key, *row] for row in rows]


def leave(run: Run, member: Member) -> None:
    for key in sorted(run.logs):
        if run.has_leader(key):
            run.partition(member.group, key).end(member.name)
    member.buffer, member.pending = [], []


def replaced(run: Run, member: Member) -> None:
    """Gives the member a new process. Brokers notice the end of the old session, or only that its locks expire."""
    if run.draw.random() < 0.5:
        leave(run, member)
    member.buffer, member.pending = [], []
    member.process, member.number = run.process(), 0


def send_acknowledgements(run: Run, member: Member, rows: list[list[Any]]) -> list[list[Any]]:
    """Applies acknowledgements [key, offset, kind] per key. Returns them with an error or None."""
    found = []
    for key in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == key]
        error: str | None = "NOT_LEADER_OR_FOLLOWER"
        if run.has_leader(key):
            states = [(offset, kind) for _, offset, kind in mine]
            error = run.partition(member.group, key).acknowledge(member.name, states, run.now_ns)
        found += [[*row, error] for row in mine]
    return found


def poll(run: Run, member: Member, final: bool) -> Generator[int, None, list[list[Any]] | None]:
    """Runs one poll. Returns its records, or None if its response was lost and the member has a new process."""
    extra: dict[str, Any] = {"group": member.group, "member": member.name}
    if final:
        extra["final"] = True
    run.record(member.process, INVOKE, "share-poll", None, **extra)
    yield run.latency()
    value: dict[str, Any] = {}
    if run.shape.implicit and member.pending:
        rows = [[key, offset, "accept"] for key, offset, *_ in member.pending]
        value["acknowledged"] = send_acknowledgements(run, member, rows)
        member.pending = []
    if not member.buffer:
        fetch(run, member, run.draw.between(1, 6))
    yield run.latency()
    if run.happens(run.shape.trouble / 2):
        run.record(member.process, INFO, "share-poll", None, "_TIMED_OUT: simulated", **extra)
        replaced(run, member)
        return None
    value["records"], member.buffer = member.buffer, []
    run.record(member.process, OK, "share-poll", value, **extra)
    member.pending = value["records"]
    if run.happens(0.2):
        fetch(run, member, 3)  # in the background, for the next poll
    return member.pending


def acknowledge(run: Run, member: Member, rows: list[list[Any]], final: bool) -> Steps:
    """Runs one share-acknowledge op."""
    extra: dict[str, Any] = {"group": member.group, "member": member.name}
    if final:
        extra["final"] = True
    run.record(member.process, INVOKE, "share-acknowledge", rows, **extra)
    yield run.latency()
    lost = run.happens(run.shape.trouble)
    results = rows if lost and run.draw.random() < 0.5 else send_acknowledgements(run, member, rows)
    yield run.latency()
    if lost:
        run.record(member.process, INFO, "share-acknowledge", rows, "_TIMED_OUT: simulated", **extra)
        replaced(run, member)
    else:
        run.record(member.process, OK, "share-acknowledge", results, **extra)


KINDS: Final = ("accept",) * 13 + ("release",) * 3 + ("reject",) * 2 + ("renew",) + ("",)


def load(run: Run, group: str, process: int) -> Steps:
    """Runs one member, and its successors, until the load ends."""
    member = Member(group, process, 0, [], [])
    while run.now_ns < run.load_end_ns:
        yield run.draw.between(10 * MS, 150 * MS)
        rows = yield from poll(run, member, final=False)
        if rows is None:
            continue
        if run.happens(0.02):
            yield run.shape.lock_ms * MS * 3 // 2  # paused: its locks expire
        if rows and not run.shape.implicit:
            kinds = [run.draw.choice(KINDS) for _ in rows]
            chosen = [[key, offset, kind] for (key, offset, *_), kind in zip(rows, kinds, strict=True) if kind]
            renewed = [[key, offset, "accept"] for key, offset, kind in chosen if kind == "renew"]
            if chosen:
                yield from acknowledge(run, member, chosen, final=False)
            if renewed and member.pending:
                yield run.draw.between(MS, run.shape.lock_ms * MS // 2)
                yield from acknowledge(run, member, renewed, final=False)
        yield from _ends(run, member)
    if not run.happens(run.shape.trouble):
        yield from close(run, member)


def close(run: Run, member: Member) -> Steps:
    """Runs one share-close op. In implicit mode, it accepts what the last poll returned."""
    extra = {"group": member.group, "member": member.name}
    run.record(member.process, INVOKE, "share-close", None, **extra)
    yield run.latency()
    if run.shape.implicit and member.pending:
        send_acknowledgements(run, member, [[key, offset, "accept"] for key, offset, *_ in member.pending])
    leave(run, member)
    run.record(member.process, OK, "share-close", None, **extra)
    member.number += 1


def _ends(run: Run, member: Member) -> Steps:
    """Sometimes lets a member close or crash; its successor continues."""
    if run.happens(run.shape.trouble / 2):
        run.record(member.process, INVOKE, "crash", None)
        yield run.latency()
        run.record(member.process, INFO, "crash", None)
        replaced(run, member)
    elif run.happens(0.05):
        yield from close(run, member)


def finish(run: Run, group: str, process: int) -> Steps:
    """Runs one member of the final phase, until nothing has come for QUIET_NS."""
    member, last_ns = Member(group, process, 0, [], []), run.now_ns
    while run.now_ns - last_ns < QUIET_NS:
        yield 500 * MS
        rows = yield from poll(run, member, final=True)
        if rows:
            last_ns = run.now_ns
            if not run.shape.implicit:
                accepts = [[key, offset, "accept"] for key, offset, *_ in rows]
                yield from acknowledge(run, member, accepts, final=True)


def administrator(run: Run, once: bool) -> Steps:
    """Lists the start offsets of all groups, every second or once."""
    while True:
        for group in sorted({group for group, _ in run.partitions}):
            run.record(ADMIN, INVOKE, "share-offsets", None, group=group)
            yield run.latency()
            keys = [key for key in sorted(run.logs) if (group, key) in run.partitions]
            starts = {str(key): run.partitions[group, key].listed() for key in keys}
            run.record(ADMIN, OK, "share-offsets", starts, group=group)
        if once or run.now_ns >= run.load_end_ns:
            return
        yield SECOND


def nemesis(run: Run) -> Steps:
    """Moves the leaders of keys at random times."""
    for _ in range(run.shape.faults):
        yield run.draw.between(SECOND, 3 * SECOND)
        if run.now_ns >= run.load_end_ns:
            return
        key = run.draw.choice(sorted(run.logs))
        fields = {"fault": "kill:leader", "span": "start"}
        run.record(NEMESIS, INFO, "kill", None, **fields, phase="invoke")
        run.down[key] = run.now_ns + run.draw.between(200 * MS, 2 * SECOND)
        for (_, where), share in run.partitions.items():
            if where == key:
                share.move()
        yield run.down[key] - run.now_ns
        value = {"nodes": ["n1"], "took_effect": True, "new_leaders": {str(key): "n2"}}
        run.record(NEMESIS, INFO, "kill", value, **fields, phase="complete")
        fields["span"] = "stop"
        run.record(NEMESIS, INFO, "start", None, **fields, phase="invoke")
        yield run.latency()
        run.record(NEMESIS, INFO, "start", {"nodes": ["n1"]}, **fields, phase="complete")


def _read(run: Run) -> None:
    """Reads every log from its beginning, and lists the dead letters of each group."""
    for group in sorted({group for group, _ in run.partitions}):
        run.record(ADMIN, INVOKE, "share-dead-letters", None, group=group, final=True)
        keys = [key for key in sorted(run.logs) if (group, key) in run.partitions]
        letters = [[key, offset] for key in keys for offset in sorted(run.partitions[group, key].letters)]
        run.record(ADMIN, OK, "share-dead-letters", letters, group=group, final=True)
    keys = sorted(run.logs)
    run.record(READER, INVOKE, "assign", keys, seek_to_beginning=True, final=True)
    run.record(READER, OK, "assign", keys, seek_to_beginning=True, final=True)
    polled, ends = [], []
    for key in keys:
        entries = run.logs[key].entries
        polled.append([key, [[at, one.value] for at, one in enumerate(entries) if one.state == COMMITTED]])
        ends.append([key, len(entries)])
    more = {"positions": ends, "ends": [[key, 0, end] for key, end in ends], "final": True}
    run.record(READER, INVOKE, "poll", [["poll"]], final=True)
    run.record(READER, OK, "poll", [["poll", polled]], **more)


def simulate(shape: Shape, bugs: frozenset[str] = frozenset()) -> list[Op]:
    """Returns the history of a run. Equal arguments give equal histories. Raises BadInput if a bug is unknown."""
    if unknown := bugs - BUGS.keys():
        names = ", ".join(sorted(BUGS))
        raise BadInput(f"simulated share group: unknown bug {', '.join(sorted(unknown))}; bugs are {names}")
    run = Run(shape, bugs)
    for number in range(shape.writers):
        run.spawn(writer(run, number), number)
    for group in range(shape.groups):
        for number in range(shape.members):
            process = 10 + group * shape.members + number
            run.spawn(load(run, f"g{group}", process), process)
    run.spawn(administrator(run, once=False), 2 * SECOND)
    run.spawn(nemesis(run), SECOND)
    run.drain()
    run.quiet = True
    run.now_ns += 2 * shape.lock_ms * MS
    for group in range(shape.groups):
        for number in range(2):
            process = FIRST_OF_FINALS + 2 * group + number
            run.spawn(finish(run, f"g{group}", process), process)
    run.drain()
    run.spawn(administrator(run, once=True))
    run.drain()
    _read(run)
    return run.ops


def shape_of(seed: int) -> Shape:
    """Returns a random shape for a seed."""
    draw = Draw.of(seed, "sim-share-shape", 0)
    txn = draw.random() < 0.4
    return Shape(
        seed=seed,
        load_s=draw.between(3, 8),
        keys=draw.between(1, 3),
        groups=draw.between(1, 2),
        members=draw.between(1, 4),
        writers=draw.between(1, 2),
        txn=txn,
        isolation_level="read_uncommitted" if txn and draw.random() < 0.3 else "read_committed",
        lock_ms=draw.choice((500, 1_500, 4_000)),
        limit=draw.between(1, 5),
        trouble=draw.choice((0.0, 0.02, 0.08)),
        faults=draw.choice((0, 0, 1, 3)),
        implicit=draw.random() < 0.25,
        reset_latest=draw.random() < 0.25,
    )
