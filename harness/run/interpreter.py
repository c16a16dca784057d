"""The interpreter: takes operations (ops) from the generator, dispatches them to workers, and records them.

Only the interpreter sets the index and the time of an op. It runs in a single thread, as a loop. An invocation gets
its timestamp and is written to the history before it is dispatched. A completion gets its timestamp when it arrives,
from the same monotonic clock. All ops recorded in one turn of the loop are written to the history in one write, before
any of them is dispatched. If an op exceeds its deadline or its worker dies, the interpreter completes it as `info`. A
process p whose op is `info` is retired, and its slot continues as process p + concurrency. Each fault has a thread of
its own, which runs one op at a time.
"""

from __future__ import annotations

import os
import queue
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.model import op_json
from harness.model.fault_and_generator_protocols import Context, Generator, Pending
from harness.model.op import DEADLINE_EXCEEDED, INFO, NEMESIS, PROCESS_ENDED, Op, Process
from harness.run.worker_pool import Crew, Member

POLL_S: Final = 0.001  # wait before a pending generator is polled again
IDLE_S: Final = 0.05  # the same, while it waits only for open ops

Listener = Callable[[Op], None]
Append = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Deadlines of ops.

    op_timeout_s       deadline of a client's op
    nemesis_timeout_s  deadline of a fault's op
    """

    op_timeout_s: float = 10.0
    nemesis_timeout_s: float = 120.0


def fault_of(op: Op) -> str:
    """Returns the name of the fault to which a nemesis op belongs, or "" if it belongs to none."""
    return str(op.extra.get("fault") or "")


class NemesisThreads:
    """Runs nemesis ops outside the loop, in one thread for each fault.

    Completed ops, and notices from any thread, are passed to the loop in a queue. A pipe wakes the loop.
    """

    def __init__(self, invoke: Callable[[Op], Op]) -> None:
        self._invoke = invoke
        self._todo: dict[str, queue.SimpleQueue[Op | None]] = {}
        self._done: queue.SimpleQueue[Op] = queue.SimpleQueue()
        self.wake_fd, self._wake = os.pipe()

    def submit(self, op: Op) -> None:
        fault = fault_of(op)
        if fault not in self._todo:
            todo = self._todo[fault] = queue.SimpleQueue()
            name = f"nemesis {fault}".rstrip()
            threading.Thread(target=self._work, args=(todo,), name=name, daemon=True).start()
        self._todo[fault].put(op)

    def come_back(self, op: Op) -> None:
        """Queues an op for the loop, and wakes the loop. Thread-safe."""
        self._done.put(op)
        os.write(self._wake, b".")

    def completed(self) -> Op | None:
        """Returns the next op from the queue, or None if the queue is empty."""
        if self._done.empty():
            return None
        os.read(self.wake_fd, 1)
        return self._done.get_nowait()

    def _work(self, todo: queue.SimpleQueue[Op | None]) -> None:
        while (op := todo.get()) is not None:
            extra = {**op.extra, "phase": "complete"}
            try:
                done = self._invoke(op)
                done = done.with_(type=INFO, extra={**done.extra, "phase": "complete"})
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                done = op.with_(type=INFO, error=text, value={"took_effect": False}, extra=extra)
            self.come_back(done)

    def stop(self) -> None:
        for todo in self._todo.values():
            todo.put(None)


class Interpreter:
    """Runs one generator to its end. `run` may be called only once."""

    def __init__(
        self,
        crew: Crew,
        nemesis: Callable[[Op], Op],
        append: Append,
        *,
        concurrency: int,
        seed: int,
        zero_ns: int,
        limits: Limits,
        before: Listener = lambda op: None,
        listener: Listener = lambda op: None,
    ) -> None:
        self._crew, self._append = crew, append
        self._nemesis = NemesisThreads(nemesis)
        self._before, self._listener = before, listener
        self._seed, self._zero_ns, self._limits = seed, zero_ns, limits
        self._concurrency, self._index = concurrency, 0
        self._processes: list[Process] = list(range(concurrency))
        self._free: deque[Process] = deque(self._processes)
        self._open: dict[Process, Op] = {}  # in order of invocation, so the first is the oldest
        self._faults: dict[str, Op] = {}  # the open op of each fault
        self._busy: frozenset[str] = frozenset()  # names of the faults with an open op
        self._instead: Generator | None = None
        self._lines: list[bytes] = []  # recorded in this turn of the loop, not yet written
        self._dispatched: list[Op] = []  # recorded in this turn, not yet passed to the nemesis
        crew.selector.register(self._nemesis.wake_fd, selectors.EVENT_READ, None)

    def divert(self, generator: Generator) -> None:
        """Makes the loop continue with another generator. A signal handler uses this to end the load early."""
        self._instead = generator

    def notice(self, event: Op) -> None:
        """Passes an event to the generator. The event is not an op of the run, and is not recorded. Thread-safe."""
        self._nemesis.come_back(event)

    def run(self, generator: Generator) -> None:
        """Runs until the generator is exhausted and every op has completed."""
        try:
            self._loop(generator)
        finally:
            if self._lines:  # an exception ended the turn: ops recorded before it must still be written
                self._append(b"".join(self._lines))
            self._nemesis.stop()
            self._crew.selector.unregister(self._nemesis.wake_fd)

    def _loop(self, generator: Generator) -> None:
        self._generator = generator
        while True:
            if self._instead is not None:
                self._generator, self._instead = self._instead, None
            dispatched, exhausted = self._dispatch()
            if exhausted and not self._open and not self._faults:
                return  # `_dispatch` has written all there was
            wait_s = IDLE_S if exhausted or not self._free else POLL_S
            self._collect(0.0 if dispatched and self._free else wait_s)
            self._expire()

    # --- dispatch ---

    def _now(self) -> int:
        return time.monotonic_ns() - self._zero_ns

    def _context(self, now_ns: int) -> Context:
        return Context(now_ns, self._free, self._processes, not self._faults, self._seed, self._busy)

    def _dispatch(self) -> tuple[bool, bool]:
        """Dispatches ops until the generator has no op ready.

        Returns (whether any op was dispatched, whether the generator is exhausted).
        """
        sent = False
        while True:
            answer = self._generator.op(self._context(self._now()))
            if answer is None:
                self._write_and_send()
                return sent, True
            op, self._generator = answer
            if isinstance(op, Pending):
                break
            self._invoke(op)
            sent = True
        self._write_and_send()
        return sent, False

    def _write_and_send(self) -> None:
        if self._lines:
            self._append(b"".join(self._lines))
            self._lines.clear()
        self._crew.flush()
        for fault in self._dispatched:
            self._nemesis.submit(fault)
        self._dispatched.clear()

    def _invoke(self, op: Op) -> None:
        if op.process == NEMESIS:
            self._open_fault(op)
            return
        if op.process == -1:
            process = self._free.popleft()
        else:
            process = op.process
            self._free.remove(process)
        self._before(op)
        stamped = Op(self._index, self._now(), process, "invoke", op.f, op.value, None, op.extra)
        self._index += 1
        line = op_json.encode(stamped)
        self._lines.append(line)
        self._open[process] = stamped
        self._notify(stamped)
        self._crew.send(int(process) % self._concurrency, line)

    def _open_fault(self, op: Op) -> None:
        stamped = self._record(op.with_(type=INFO, extra={**op.extra, "phase": "invoke"}))
        self._faults[fault_of(stamped)] = stamped
        self._busy = frozenset(self._faults)
        self._dispatched.append(stamped)

    def _close_fault(self, done: Op) -> None:
        del self._faults[fault_of(done)]
        self._busy = frozenset(self._faults)
        self._record(done)

    def _record(self, op: Op) -> Op:
        """Gives the op its index and time, queues it for the history, and notifies the generator and the listener."""
        stamped = Op(self._index, self._now(), op.process, op.type, op.f, op.value, op.error, op.extra)
        self._index += 1
        self._lines.append(op_json.encode(stamped))
        self._notify(stamped)
        return stamped

    def _notify(self, op: Op) -> None:
        self._generator = self._generator.update(self._context(op.time_ns), op)
        self._listener(op)

    # --- completions ---

    def _collect(self, wait_s: float) -> None:
        for member, line in self._crew.receive(wait_s):
            if line is None:
                self._worker_ended(member)
                continue
            done = op_json.decode(line, f"worker {member.name}")
            invoked = self._open.get(done.process)
            if invoked is not None and invoked.index == done.index:
                self._complete(done)
        while (back := self._nemesis.completed()) is not None:
            if back.index < 0:
                self._generator = self._generator.update(self._context(self._now()), back)
                continue
            invoked = self._faults.get(fault_of(back))
            if invoked is not None and invoked.index == back.index:
                self._close_fault(back)

    def _complete(self, done: Op) -> None:
        process = done.process
        del self._open[process]
        if done.type == INFO:
            self._record(done)
            self._retire(process)
        else:
            self._free.append(process)
            self._record(done)

    def _retire(self, process: Process) -> None:
        """Retires a process. Its slot continues under a new process id."""
        successor = int(process) + self._concurrency
        self._processes[int(process) % self._concurrency] = successor
        self._free.append(successor)

    def _worker_ended(self, member: Member) -> None:
        """Records `info` for the open ops of a worker that has ended.

        The worker's slots continue in a new worker, under new process ids. This includes the slots that had no open op,
        because their new clients do not have the old clients' positions.
        """
        self._crew.replace(member)
        for process in [self._processes[slot] for slot in member.slots]:
            if process in self._open:
                self._complete(self._open[process].with_(type=INFO, error=PROCESS_ENDED))
            else:
                self._free.remove(process)
                self._retire(process)

    def _expire(self) -> None:
        """Records `info` for the ops that have exceeded their deadline.

        Open ops are in the order of their invocations, so usually only the first op must be checked.
        """
        now_ns = self._now()
        while self._open:
            oldest = next(iter(self._open.values()))
            if now_ns - oldest.time_ns < self._limits.op_timeout_s * 1e9:
                break
            member = self._crew.member_of(int(oldest.process) % self._concurrency)
            if len(member.slots) == 1:
                self._crew.replace(member)
            else:
                self._crew.drop(member, int(oldest.process))
            self._complete(oldest.with_(type=INFO, error=DEADLINE_EXCEEDED))
        for stuck in list(self._faults.values()):
            if now_ns - stuck.time_ns > self._limits.nemesis_timeout_s * 1e9:
                # Its thread may still be blocked in the call; it gets no further ops.
                error = f"no answer within {self._limits.nemesis_timeout_s:.0f} s"
                extra = {**stuck.extra, "phase": "complete"}
                self._close_fault(stuck.with_(error=error, value={"took_effect": False}, extra=extra))
