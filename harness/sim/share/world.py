"""The shape of a simulated run with share groups, and what its actors share: the cluster, the history and the clock."""

from __future__ import annotations

import heapq
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from harness.model.op import EMPTY, Op
from harness.model.randomness import Draw
from harness.sim.share.bugs import BUGS
from harness.sim.share.partition import Log, SharePartition

MS: Final = 1_000_000
SECOND: Final = 1_000 * MS
Steps = Generator[int, None, None]  # yields how long to wait, in ns


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run consists of.

    load_s         seconds of load
    lock_ms        the record lock duration
    limit          the delivery limit
    trouble        the probability that a response is lost (half of it for polls); crashes are half as likely
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
