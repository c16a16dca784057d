"""The state that the simulated clients of a run share, and the probabilities of errors."""

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
    """The probabilities of errors: that the response to a step is lost, and that a send is refused."""

    lost_p: float = 0.02
    refused_p: float = 0.02


@dataclass(frozen=True, slots=True)
class SimSettings:
    """The settings of the simulated log and its clients."""

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
            raise BadInput(
                f"simulated log: unknown bug {', '.join(sorted(unknown))}; bugs are {', '.join(sorted(BUGS))}"
            )


@dataclass(slots=True)
class Stale:
    """An offset that is reserved for a later send of another process, just below the record of an op (bug
    `stale-order`).

    op       index of the record's op
    process  the process of the record's op
    done_ns  when the record's op was ok; None before that. Only a send invoked after this time may fill the offset.
    """

    offset: int
    process: int
    op: int
    done_ns: int | None = None


class World:
    """The shared state of a run's clients: the log, the group, and abandoned transactions.

    ghosts     key -> values of sends that timed out and are not in the log (for the bug `diverge`)
    in_flight  (process, key) -> offset reserved for the process's next send to the key (for the bug `reorder`)
    stale      key -> offset reserved for a later send of another process (for the bug `stale-order`)
    """

    def __init__(self, settings: SimSettings, clock_ns: Callable[[], int], timeout_ns: int) -> None:
        self.settings, self.clock_ns, self._timeout_ns = settings, clock_ns, timeout_ns
        self.log = SimLog()
        self.group = Group(settings.partitions_per_topic)
        self.lock = threading.Lock()
        self.ghosts: dict[int, list[int]] = {}
        self.in_flight: dict[tuple[int, int], int] = {}
        self.stale: dict[int, Stale] = {}
        self._abandoned: list[tuple[int, int]] = []
        self._phantoms = 0

    def abandon(self, txn: int) -> None:
        """Leaves a transaction open, because its client has given it up. `expire` will abort it once it
        has timed out.
        """
        self._abandoned.append((self.clock_ns() + self._timeout_ns, txn))

    def expire(self, everything: bool = False) -> None:
        """Aborts those abandoned transactions that have timed out.

        With `everything`, aborts all abandoned transactions.
        """
        now_ns, kept = self.clock_ns(), []
        for until_ns, txn in self._abandoned:
            if not everything and until_ns > now_ns:
                kept.append((until_ns, txn))
            elif self.log.state(txn) == OPEN:
                self.log.abort(txn)
        self._abandoned = kept

    def land(self, process: int | None = None) -> None:
        """Gives up the offsets reserved for sends in flight. They stay empty.

        process  the process whose offsets are given up; None: all processes
        """
        for owner, key in [at for at in self.in_flight if process in (None, at[0])]:
            self.log.fill(key, self.in_flight.pop((owner, key)), None)

    def ended(self, op: int, ok: bool) -> None:
        """Must be called when the op with the index `op` has completed. The op may have reserved a `Stale` offset.

        If the op is ok, a later send may fill this offset. Otherwise the offset stays empty.
        """
        for key, stale in list(self.stale.items()):
            if stale.op == op and ok:
                stale.done_ns = self.clock_ns()
            elif stale.op == op:
                self.log.fill(key, self.stale.pop(key).offset, None)

    def stale_offset(self, process: int, key: int, began_ns: int) -> int | None:
        """Returns a `Stale` offset that a send of this process may fill; None if there is none.

        The offset is no longer reserved.

        began_ns  when the send was invoked
        """
        stale = self.stale.get(key)
        if stale is None or stale.done_ns is None or stale.process == process or began_ns < stale.done_ns:
            return None
        return self.stale.pop(key).offset

    def settle(self) -> None:
        """Ends all open transactions, and leaves all reserved offsets empty, as a cluster does some time after the last
        fault.
        """
        self.land()
        for key in list(self.stale):
            self.log.fill(key, self.stale.pop(key).offset, None)
        self.expire(everything=True)

    def phantom(self, key: int) -> None:
        """Appends a record that was never sent."""
        self._phantoms += 1
        self.log.append(key, 1_000_000_000 + self._phantoms)
