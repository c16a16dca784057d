"""The start offset of a share partition went back, or a record below it was delivered.

The start offset is stored, and only moves forward past final records. It is judged at the ops that list it. The kinds:

- back   a list that began after another one had completed shows a lower start offset
- below  a member that began after a list had completed got a record below the start offset

Witness {group, key, offset, kind, start, ops}: `offset` is the later start offset, or that of the delivered record.
Source: KIP-932; `Admin.listShareGroupOffsets`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.share_guarantees import TRACKED, described
from checker.kernels.share_bucket import ShareBucket, column
from checker.kernels.witness import pairs_of, table
from checker.tables.packing import Ints, begins

_NAMES = ("group", "key", "start", "op", "invoke_ns", "complete_ns")


@dataclass(frozen=True, slots=True)
class Below:
    """One offset below a start offset that was listed before; `first` is the op of that list."""

    group: int
    key: int
    offset: int
    kind: str
    start: int
    first: int
    op: int


@dataclass(frozen=True, slots=True)
class Listed:
    """The lists of one share partition, by completion: the highest start offset so far, and its op."""

    group: int
    key: int
    complete_ns: Ints
    highest: Ints
    op: Ints

    def below(self, times: Ints, offsets: Ints, ops: Ints, kind: str) -> list[Below]:
        """Returns the offsets that are below the highest start offset that was listed before their time."""
        place = np.searchsorted(self.complete_ns, times) - 1
        odd = np.flatnonzero((place >= 0) & (offsets < self.highest[np.maximum(place, 0)]))
        return [
            Below(self.group, self.key, int(offsets[row]), kind, int(self.highest[at]), int(self.op[at]), int(ops[row]))
            for row, at in zip(odd.tolist(), place[odd].tolist(), strict=True)
        ]


def _listed(lists: dict[str, Ints], group: int, key: int) -> tuple[Listed, Ints]:
    """Returns the lists of a share partition, and their rows."""
    rows = np.flatnonzero((lists["group"] == group) & (lists["key"] == key))
    rows = rows[np.argsort(lists["complete_ns"][rows], kind="stable")]
    highest = np.maximum.accumulate(lists["start"][rows])
    rose = np.maximum.accumulate(np.where(begins(highest), np.arange(len(rows)), 0))
    return Listed(group, key, lists["complete_ns"][rows], highest, lists["op"][rows][rose]), rows


def find(share: ShareBucket) -> pa.Table:
    """Returns a witness for each start offset, and each delivery, below an earlier start offset."""
    lists = {name: column(share.small.share_offsets, name) for name in _NAMES}
    given, records = share.deliveries, share.records
    parts = set(zip(lists["group"].tolist(), lists["key"].tolist(), strict=True)) if share.provable else set()
    mine = set(share.data.keys.tolist()) | set(records.key.tolist())
    found: list[Below] = []
    for group, key in sorted(part for part in parts if part[1] in mine):
        listed, rows = _listed(lists, group, key)
        found += listed.below(lists["invoke_ns"][rows], lists["start"][rows], lists["op"][rows], "back")
        at = np.flatnonzero((records.group[given.record] == group) & (records.key[given.record] == key))
        found += listed.below(given.earliest[at], records.offset[given.record[at]], given.op[at], "below")
    numbers = {
        name: np.array([getattr(one, name) for one in found], np.int64)
        for name in ("group", "key", "offset", "start", "first", "op")
    }
    ops = pairs_of(numbers.pop("first"), numbers.pop("op"))
    return table({**numbers, "kind": pa.array([one.kind for one in found], pa.string()), "ops": ops})


ANOMALY = Anomaly(
    name="start-offset-regression",
    summary="The start offset of a share partition went back, or a record below it was delivered.",
    source="KIP-932; Admin.listShareGroupOffsets",
    kind="share",
    prose=described("it is below the start offset {start} that was listed before ({kind})"),
    guarantee=TRACKED,
    find_share=find,
)
