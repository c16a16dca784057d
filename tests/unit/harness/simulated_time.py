"""Runs a generator in simulated time: every op takes `latency_ns`, without any real waiting."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from harness.model.fault_and_generator_protocols import Context, Generator, Pending
from harness.model.op import INFO, INVOKE, NEMESIS, OK, Op, Process
from harness.run.interpreter import fault_of

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
    now, events, invoked = 0, [], 0
    busy: dict[str, int] = {}
    due: list[tuple[int, int, Op]] = []

    def context() -> Context:
        return Context(now, free, processes, not busy, seed, frozenset(busy))

    while True:
        while due and due[0][0] <= now:
            _, _, op = heapq.heappop(due)
            done = complete(op).with_(time_ns=now)
            process = op.process
            if process == NEMESIS:
                del busy[fault_of(op)]
                done = done.with_(extra={**op.extra, "phase": "complete"})
            elif done.type == INFO:
                slot = int(process) % concurrency
                generator = generator.update(context(), done)
                events.append(done)
                processes[slot] = int(process) + concurrency
                free.append(processes[slot])
                continue
            else:
                free.append(process)
            events.append(done)
            generator = generator.update(context(), done)
        answer = generator.op(context())
        if answer is None:
            if not due:
                return events
            now = due[0][0]
            continue
        emitted, generator = answer
        if isinstance(emitted, Pending):
            now = min(now + STEP_NS, due[0][0]) if due else now + STEP_NS
            continue
        if emitted.process == NEMESIS:
            op = emitted.with_(time_ns=now, extra={**emitted.extra, "phase": "invoke"})
            busy[fault_of(op)] = invoked
        else:
            process = free.popleft() if emitted.process == -1 else emitted.process
            if emitted.process != -1:
                free.remove(process)
            op = emitted.with_(time_ns=now, process=process, type=INVOKE)
        events.append(op)
        generator = generator.update(context(), op)
        invoked += 1
        if invoked >= ops_max:
            return events
        heapq.heappush(due, (now + latency_ns, invoked, op))
