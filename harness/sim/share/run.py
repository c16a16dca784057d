"""A complete simulated run with share groups: returns the history that a real run would record.

    simulate(Shape(seed=1))                                  correct groups: a checker must find nothing
    simulate(Shape(seed=1), bugs=frozenset({"share-lock"}))  a group with a bug: a checker must find `BUGS[...].shows`

Writers, members, an administrator and the nemesis run concurrently in simulated time. Members poll, acknowledge, pause,
crash and close; responses get lost; leaders move. After the load comes a pause longer than the lock. Then new members
poll until nothing is left, and a reader reads the log.
"""

from __future__ import annotations

from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.model.op import FAIL, INFO, INVOKE, NEMESIS, OK, Op
from harness.sim.share.bugs import BUGS
from harness.sim.share.members import finish, load
from harness.sim.share.partition import ABORTED, COMMITTED, MARKER, OPEN
from harness.sim.share.world import MS, SECOND, Run, Shape, Steps

ADMIN: Final = 1_000
READER: Final = 1_001
FIRST_OF_FINALS: Final = 2_000


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
