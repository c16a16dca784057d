"""What the simulated clients of one run share, and how badly the world treats them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.model.errors_and_exit_codes import BadInput
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.group import Group
from harness.sim.queue.log import OPEN, SimLog


@dataclass(frozen=True, slots=True)
class Trouble:
    """How likely things go wrong, each per step."""

    lost_p: float = 0.02
    refused_p: float = 0.02


@dataclass(frozen=True, slots=True)
class SimSettings:
    """What a client of the simulated log is told."""

    seed: int = 0
    txn: bool = False
    isolation_level: str = "read_committed"
    partitions_per_topic: int = 4
    records_max: int = 16
    trouble: Trouble = field(default_factory=Trouble)
    bugs: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = self.bugs - BUGS.keys()
        if unknown:
            raise BadInput(f"simulated log: no bug {', '.join(sorted(unknown))}; there are {', '.join(sorted(BUGS))}")


@dataclass(slots=True)
class Stale:
    """An offset kept free before a record, for another process that begins when the record's op is done.

    done_ns: when the op was ok; None as long as it is not
    """

    offset: int
    process: int
    op: int
    done_ns: int | None = None


class World:
    """What the clients of one run share: the log, the group, and transactions that were left open.

    ghosts  by key, values of sends that timed out and are not in the log (for the bug `diverge`)
    stale   by key, the offset kept for a send that is yet to come (for the bug `stale-order`)
    """

    def __init__(self, settings: SimSettings, clock_ns: Callable[[], int], timeout_ns: int) -> None:
        self.settings, self.clock_ns, self._timeout_ns = settings, clock_ns, timeout_ns
        self.log = SimLog()
        self.group = Group(settings.partitions_per_topic)
        self.lock = threading.Lock()
        self.ghosts: dict[int, list[int]] = {}
        self.in_flight: dict[tuple[int, int], int] = {}  # (process, key) -> offset kept for the next send
        self.stale: dict[int, Stale] = {}
        self._abandoned: list[tuple[int, int]] = []
        self._phantoms = 0

    def abandon(self, txn: int) -> None:
        """A transaction whose client does not know how it ended: the coordinator will abort it."""
        self._abandoned.append((self.clock_ns() + self._timeout_ns, txn))

    def expire(self, everything: bool = False) -> None:
        """Abort abandoned transactions whose time is up."""
        now_ns, kept = self.clock_ns(), []
        for until_ns, txn in self._abandoned:
            if not everything and until_ns > now_ns:
                kept.append((until_ns, txn))
            elif self.log.state(txn) == OPEN:
                self.log.abort(txn)
        self._abandoned = kept

    def land(self, process: int | None = None) -> None:
        """Nothing will come for the offsets kept for sends in flight (of one process, or of all)."""
        for owner, key in [at for at in self.in_flight if process in (None, at[0])]:
            self.log.fill(key, self.in_flight.pop((owner, key)), None)

    def ended(self, op: int, well: bool) -> None:
        """An op is over: what it kept free may be filled now, or never."""
        for key, stale in list(self.stale.items()):
            if stale.op == op and well:
                stale.done_ns = self.clock_ns()
            elif stale.op == op:
                self.log.fill(key, self.stale.pop(key).offset, None)

    def stale_offset(self, process: int, key: int, began_ns: int) -> int | None:
        """The offset kept for a send of this process, if there is one."""
        stale = self.stale.get(key)
        if stale is None or stale.done_ns is None or stale.process == process or began_ns < stale.done_ns:
            return None
        return self.stale.pop(key).offset

    def settle(self) -> None:
        """End what is open, as a healed cluster does by itself in time."""
        self.land()
        for key in list(self.stale):
            self.log.fill(key, self.stale.pop(key).offset, None)
        self.expire(everything=True)

    def phantom(self, key: int) -> None:
        """Append a record that nobody sent."""
        self._phantoms += 1
        self.log.append(key, 1_000_000_000 + self._phantoms)
