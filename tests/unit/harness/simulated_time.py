"""Runs a generator in simulated time: every op takes `latency_ns`, nothing is really waited for."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from harness.model.op import INFO, INVOKE, NEMESIS, OK, Op, Process
from harness.model.protocols import Context, Generator, Pending

STEP_NS = 1_000_000


def simulate(
    generator: Generator,
    concurrency: int = 3,
    seed: int = 1,
    latency_ns: int = 10_000_000,
    complete: Callable[[Op], Op] = lambda op: op.with_(type=OK),
    ops_max: int = 10_000,
) -> list[Op]:
    """Invocations and completions, in order, until the generator is exhausted or `ops_max` were invoked."""
    processes: list[Process] = list(range(concurrency))
    free: deque[Process] = deque(processes)
    nemesis_free, now, events, invoked = True, 0, [], 0
    due: list[tuple[int, int, Op]] = []
    while True:
        while due and due[0][0] <= now:
            _, _, op = heapq.heappop(due)
            done = complete(op).with_(time_ns=now)
            process = op.process
            if process == NEMESIS:
                nemesis_free = True
            elif done.type == INFO:
                slot = int(process) % concurrency
                ctx = Context(now, free, processes, nemesis_free, seed)
                generator = generator.update(ctx, done)
                events.append(done)
                processes[slot] = int(process) + concurrency
                free.append(processes[slot])
                continue
            else:
                free.append(process)
            events.append(done)
            generator = generator.update(Context(now, free, processes, nemesis_free, seed), done)
        if not free and not nemesis_free:
            now = due[0][0]
            continue
        answer = generator.op(Context(now, free, processes, nemesis_free, seed))
        if answer is None:
            if not due:
                return events
            now = due[0][0]
            continue
        asked, generator = answer
        if isinstance(asked, Pending):
            now = min(now + STEP_NS, due[0][0]) if due else now + STEP_NS
            continue
        if asked.process == NEMESIS:
            nemesis_free = False
            op = asked.with_(time_ns=now)
        else:
            process = free.popleft() if asked.process == -1 else asked.process
            if asked.process != -1:
                free.remove(process)
            op = asked.with_(time_ns=now, process=process, type=INVOKE)
        events.append(op)
        generator = generator.update(Context(now, free, processes, nemesis_free, seed), op)
        invoked += 1
        if invoked >= ops_max:
            return events
        heapq.heappush(due, (now + latency_ns, invoked, op))
