"""A client of the simulated log, which runs an op in steps like a real client, interleaved with other clients.

`SimClient.steps(op)` is a coroutine that yields between its steps and returns the completion. `simulate` (`run.py`)
interleaves many of these coroutines; `invoke` runs one to its end, for clients in the threads of one operating system
process (`open_client`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.model.op import FAIL, INFO, OK, Op
from harness.model.randomness import Draw
from harness.sim.queue.attempt import Attempt, Steps
from harness.sim.queue.reader import Reader
from harness.sim.queue.world import SimSettings, Trouble, World

NOTHING: Final[Mapping[int, int]] = {}


class SimClient:
    """The client of one process. All clients of a run share a World."""

    def __init__(self, world: World, process: int) -> None:
        self._world, self._process = world, process
        self._settings = world.settings
        self._reader = Reader(world.log, world.group, process, world.settings)
        self._left = False

    # --- the interface of a client ---

    def invoke(self, op: Op) -> Op:
        steps = self.steps(op)
        while True:
            with self._world.lock:
                self._world.expire()
                try:
                    next(steps)
                except StopIteration as ended:
                    done: Op = ended.value
                    return done

    def crash(self) -> None:
        """Ends the client without closing it. The group removes it immediately."""
        if not self._left:
            self._left = True
            self._world.land(self._process)
            self._reader.leave()

    def close(self) -> None:
        with self._world.lock:
            self.crash()

    # --- ops ---

    def steps(self, op: Op) -> Steps:
        """Invokes an op, and returns a coroutine that runs it step by step and returns its completion."""
        return self._steps(op, self._world.clock_ns())

    def _steps(self, op: Op, began_ns: int) -> Steps:
        if op.f == "crash":
            self.crash()
            return op.with_(type=INFO)
        if op.f == "assign":
            self._reader.assign(op.value, bool(op.extra.get("seek_to_beginning")))
            return self._completed(op, OK)
        if op.f == "subscribe":
            self._reader.subscribe(op.value)
            return self._completed(op, OK)
        if op.f == "debug-topic-partitions":
            return op.with_(type=OK, value=[[key, self._facts(key)] for key in op.value])
        if op.f not in ("send", "poll", "txn"):
            return op.with_(type=FAIL, error=f"unknown: the simulated client has no op {op.f!r}")
        self._reader.mark()
        draw = Draw.of(self._settings.seed, "sim-client", op.index)
        quiet = bool(op.extra.get("final"))
        attempt = Attempt(self._world, self._reader, op, draw, self._process, quiet, began_ns)
        done = yield from attempt.transaction() if self._settings.txn else attempt.plain()
        self._world.ended(op.index, done.type == OK)
        if done.type == FAIL:
            self._reader.rewind()
        if done.type == OK:
            self._reader.reported()
        return self._completed(done, done.type, attempt.committed)

    def _completed(self, op: Op, type_: str, committed: Mapping[int, int] = NOTHING) -> Op:
        extra = dict(op.extra)
        if committed:
            extra["committed"] = [[key, at] for key, at in sorted(committed.items())]
        rebalances = self._reader.rebalances()
        if rebalances:
            extra["rebalance_log"] = rebalances
        if type_ == OK and op.f == "poll" and op.extra.get("final"):
            extra["positions"] = [[key, at] for key, at in self._reader.positions()]
            extra["ends"] = [[key, *self._ends(key)] for key, _ in self._reader.positions()]
        return op.with_(type=type_, extra=extra)

    def _ends(self, key: int) -> tuple[int, int]:
        log = self._world.log
        return 0, log.end(key, self._settings.isolation_level)

    def _facts(self, key: int) -> dict[str, Any]:
        start, end = self._ends(key)
        return {"leader": 1, "isr": [1, 2, 3], "start": start, "end": end}


# --- clients in threads of one process -----------------------------------------------------------------

_WORLDS: dict[str, World] = {}
_WORLDS_LOCK: Final = threading.Lock()
TRANSACTION_TIMEOUT_NS: Final = 1_000_000_000


def _world(config: Mapping[str, Any]) -> World:
    """Returns the World of the run with the id `config["run"]`; the first call creates it."""
    with _WORLDS_LOCK:
        run = str(config["run"])
        if run not in _WORLDS:
            sim = dict(config.get("sim") or {})
            settings = SimSettings(
                seed=int(config.get("seed", 0)),
                txn=bool(config.get("txn")),
                isolation_level=str(config.get("isolation_level") or "read_committed"),
                partitions_per_topic=int(config.get("partitions_per_topic") or 4),
                records_max=int(config.get("records_max") or 500),
                trouble=Trouble(float(sim.get("lost_p", 0.02)), float(sim.get("refused_p", 0.02))),
                bugs=frozenset(sim.get("bugs") or ()),
            )
            _WORLDS[run] = World(settings, time.monotonic_ns, TRANSACTION_TIMEOUT_NS)
        return _WORLDS[run]


def open_client(config: Mapping[str, Any]) -> SimClient:
    """Opens the client of the process `config["process"]`.

    All clients of a run must be in one operating system process. `config` has the same settings as for other clients,
    and also `seed`, and `sim` = {"bugs": [names], "lost_p": p, "refused_p": p}.
    """
    return SimClient(_world(config), int(config.get("process", 0)))


class SimAdmin:
    """The admin client of a simulated cluster with one node, which leads all partitions."""

    def problem(self) -> str:
        return ""

    def create_topics(self, names: Sequence[str], **_: Any) -> list[str]:
        return list(names)

    def leaders(self, **_: Any) -> list[Any]:
        return []

    def partitions(self, **_: Any) -> list[Any]:
        return []

    def controller(self, **_: Any) -> int:
        return 1

    def brokers(self, **_: Any) -> list[Any]:
        return [[1, "sim"]]


def open_admin(config: Mapping[str, Any]) -> SimAdmin:
    return SimAdmin()
