"""When the leader of a share partition may have moved, or a member may have lost its share session.

The acquisitions that are in flight are not stored: the next leader of a share partition does not know them, and
delivers the records again at once (KIP-932). A rule that depends on a leader staying is therefore judged only between
such times. Every fault on brokers or networks counts, from its invocation until SETTLE_NS after its end. Unless the
brokers do not move leaders back by themselves (auto.leader.rebalance.enable=false), everything after the first such
fault counts. Faults on clients alone do not move leaders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from checker.tables.packing import Bools, Ints
from harness.model.check_options import Settings

SETTLE_NS: Final = 10_000_000_000
FOREVER: Final = 1 << 62
_OF_CLIENTS: Final = ("client", "clients")
_HEAL: Final = "heal"


@dataclass(frozen=True, slots=True)
class Disturbances:
    """Disjoint intervals of time, ascending, in ns: begins[i] to ends[i] inclusive."""

    begins: Ints
    ends: Ints

    def between(self, low: Ints, high: Ints) -> Bools:
        """Returns, for each interval from low[i] to high[i], whether it touches a disturbance."""
        if len(self.begins) == 0:
            return np.zeros(len(low), np.bool_)
        place = np.searchsorted(self.ends, low)
        inside = place < len(self.begins)
        touched: Bools = inside & (self.begins[np.minimum(place, len(self.begins) - 1)] <= high)
        return touched


def _spans(nemesis: pa.Table, clients: bool) -> list[tuple[int, int]]:
    """Returns (begin, end) in ns of each fault; the end of a fault that did not end is FOREVER.

    clients  whether faults on clients count as well
    """
    names = ("time_ns", "f", "fault", "span", "phase")
    open_at: dict[str, int] = {}
    found = []
    for time_ns, f, fault, span, phase in zip(*(nemesis.column(name).to_pylist() for name in names), strict=True):
        name = fault or (_HEAL if f == _HEAL else "")
        if not name or (not clients and name.rpartition(":")[2] in _OF_CLIENTS):
            continue
        if phase == "invoke" or span == "start":
            open_at.setdefault(name, time_ns)
        if phase != "invoke" and span != "start":
            found.append((open_at.pop(name, time_ns), time_ns))
    return found + [(begin, FOREVER) for begin in open_at.values()]


def disturbances(nemesis: pa.Table, settings: Settings) -> Disturbances:
    """Returns when leaders may have moved. `nemesis` is the table NEMESIS."""
    stays = settings.broker.get("auto.leader.rebalance.enable", "true").strip().lower() == "false"
    merged: list[list[int]] = []
    for begin, end in sorted(_spans(nemesis, clients=False)):
        until = min(end + SETTLE_NS, FOREVER) if stays else FOREVER
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], until)
        else:
            merged.append([begin, until])
    begins, ends = (np.array([span[side] for span in merged], np.int64) for side in (0, 1))
    return Disturbances(begins, ends)


def durations(nemesis: pa.Table) -> list[tuple[int, int]]:
    """Returns (begin, duration) in ns of each fault on brokers, networks or clients that ended."""
    spans = _spans(nemesis, clients=True)
    return [(begin, (FOREVER if end == FOREVER else end + SETTLE_NS) - begin) for begin, end in spans]
