"""The members of a simulated share group: they poll, acknowledge, pause, crash and close."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from harness.model.op import INFO, INVOKE, OK
from harness.sim.share.world import MS, SECOND, Run, Steps

QUIET_NS: Final = 17 * SECOND


@dataclass(slots=True)
class Member:
    """A member of a share group.

    number   number of the member among those of its process; each share-close begins the next one
    buffer   records that were fetched, but that no poll has returned yet
    pending  records that the last poll returned; empty if they were acknowledged implicitly, or the session ended
    """

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
    """Gives the member a new process.

    In half of the cases, the brokers notice that the old session ended. Otherwise, its records stay locked until the
    locks expire.
    """
    if run.draw.random() < 0.5:
        leave(run, member)
    member.buffer, member.pending = [], []
    member.process, member.number = run.process(), 0


def send_acknowledgements(run: Run, member: Member, rows: list[list[Any]]) -> list[list[Any]]:
    """Applies acknowledgements [key, offset, kind], those of each key together.

    Returns [key, offset, kind, error or None] for each of them.
    """
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
    """Sometimes lets a member close or crash; then a new member continues in its place."""
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
