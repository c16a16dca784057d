"""Windows of ops: the parts of a history in which cycles can occur.

Ops are ordered by completion. A backward edge goes from a later op to an earlier one. The intervals spanned by a
cycle's backward edges cover the cycle without a gap. Overlapping intervals are therefore merged into windows, and
each cycle lies within one window. Real-time and process order never point backwards. In the worst case one window
covers the whole history.

If a bucket of keys has few edges, the task of the bucket returns them with its result. Otherwise the task writes them
to a file in the tables folder, ordered by the earlier of their two ops, so that searching a window requires only a
slice of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from checker.cycles.dependency_edges import Edges
from checker.tables import remote_run
from checker.tables.make_tables import reading, writing
from checker.tables.packing import Ints, begins, empty, order, pack

# A bucket with more edges than this writes them to a file.
INLINE: Final = 1 << 16
# A bucket reports at most so many intervals. If it has more, the smallest gaps are closed, which only widens windows.
INTERVALS: Final = 1 << 14
_BACK: Final = 8


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges between ops, as columns: source, target and kind of each edge. Sources and targets are ids of ops."""

    source: Ints
    target: Ints
    kind: Ints

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, slots=True)
class Stored:
    """A bucket's edges, and the intervals of op ids that its backward edges span.

    starts  the first op of each interval
    ends    the last op of each interval
    rows    array (3, n) with three numbers per edge: the earlier of its two ops (ascending), the distance to the later
            op, and the kind with an additional bit for backward edges; None if the edges are in `file`
    file    the path of a file with the content of `rows`; None if there is no file
    """

    starts: Ints
    ends: Ints
    rows: Ints | None
    file: str | None

    def between(self, low: int, high: int) -> Graph:
        """Returns the edges whose earlier op is in [low, high]."""
        if self.rows is not None:
            rows = self.rows
        else:
            file = Path(str(self.file))
            with reading(file.parent):
                rows = np.load(remote_run.local(file), mmap_mode="r")
        first, last = np.searchsorted(rows[0], low), np.searchsorted(rows[0], high, side="right")
        early, distance, code = (np.asarray(row[first:last]) for row in rows)
        late, back = early + distance, code >= _BACK
        return Graph(np.where(back, late, early), np.where(back, early, late), code & (_BACK - 1))


def merged(starts: Ints, ends: Ints, limit: int | None = None) -> tuple[Ints, Ints]:
    """Merges overlapping intervals.

    If more than `limit` intervals remain, also merges those with the smallest gaps between them.
    """
    if len(starts) == 0:
        return empty(), empty()
    by = order(starts, ends)
    starts, ends = starts[by], np.maximum.accumulate(ends[by])
    new = np.append(True, starts[1:] > ends[:-1])
    if limit is not None and int(new.sum()) > limit:
        gaps = np.where(new[1:], starts[1:] - ends[:-1], 0)
        new[1:] = gaps > np.partition(gaps, -limit)[-limit]
    heads = np.flatnonzero(new)
    return starts[heads], ends[np.append(heads[1:], len(ends)) - 1]


def stored(found: Sequence[Edges], folder: Path | None, bucket: int) -> Stored | None:
    """Returns a bucket's edges, each (source, target, kind) once; None if the bucket has no edges.

    If there are more than INLINE edges, they are written to a file in `folder`, unless `folder` is None.
    """
    found = [edges for edges in found if len(edges.source)]
    if not found:
        return None
    parts = [_distinct(edges) for edges in found]
    early, distance, code = (np.concatenate([part[n] for part in parts]) for n in range(3))
    by = order(early, distance, code) if len(parts) > 1 else np.arange(len(early))
    early, distance, code = early[by], distance[by], code[by]
    back = code >= _BACK
    starts, ends = merged(early[back], early[back] + distance[back], INTERVALS)
    rows = np.stack([early, distance, code])
    if folder is None or len(early) <= INLINE:
        return Stored(starts, ends, rows, None)
    name = f"{bucket:05d}{remote_run.attempt()}.npy"
    with writing(folder), remote_run.written(folder) as place:
        place.mkdir(parents=True, exist_ok=True)
        np.save(place / name, rows)
    return Stored(starts, ends, None, str(folder / name))


def _distinct(edges: Edges) -> tuple[Ints, Ints, Ints]:
    """Returns the columns of `Stored.rows` for the edges, ascending and without duplicates."""
    early = np.minimum(edges.source, edges.target)
    distance = np.maximum(edges.source, edges.target) - early
    code = edges.kind | np.where(edges.source > edges.target, _BACK, 0)
    packed = pack(early, distance, code)
    if packed is None:
        by = np.lexsort((code, distance, early))
        by = by[begins(early[by], distance[by], code[by])]
        return early[by], distance[by], code[by]
    packed.sort()
    packed = packed[begins(packed)]
    first, bits = int(early.min()), int(distance.max() - distance.min()).bit_length()
    code_bits = int(code.max() - code.min()).bit_length()
    return (
        (packed >> (bits + code_bits)) + first,
        ((packed >> code_bits) & ((1 << bits) - 1)) + int(distance.min()),
        (packed & ((1 << code_bits) - 1)) + int(code.min()),
    )


@dataclass(frozen=True, slots=True)
class Windows:
    """Disjoint intervals of op ids, ascending. Each cycle lies within one of them."""

    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, ops: Ints) -> Ints:
        """Returns, for each op, the number of the window that contains it; -1 if there is none."""
        place = np.searchsorted(self.starts, ops, side="right") - 1
        inside = (place >= 0) & (ops <= self.ends[np.maximum(place, 0)])
        return np.where(inside, place, -1)

    def slices(self, pieces: int) -> list[Windows]:
        """Splits the windows into about `pieces` groups of neighbours. Each group spans about equally many ops."""
        spans = np.cumsum(self.ends - self.starts + 1)
        cuts = np.searchsorted(spans, spans[-1] * np.arange(1, pieces) / pieces)
        bounds = np.unique(np.concatenate([[0], cuts, [len(self)]]))
        return [Windows(self.starts[a:b], self.ends[a:b]) for a, b in pairwise(bounds.tolist()) if b > a]


def windows(found: Sequence[Stored]) -> Windows:
    """Returns the windows of a whole history, given the edges of all buckets."""
    starts, ends = (np.concatenate([getattr(one, name) for one in found]) for name in ("starts", "ends"))
    return Windows(*merged(starts, ends))


def within(found: Sequence[Stored], wanted: Windows) -> Graph:
    """Returns the edges of all buckets whose source and target are in the same window of `wanted`."""
    low, high = int(wanted.starts[0]), int(wanted.ends[-1])
    parts = []
    for one in found:
        graph = one.between(low, high)
        place = wanted.of(graph.source)
        inside = (place >= 0) & (place == wanted.of(graph.target))
        parts.append(Graph(graph.source[inside], graph.target[inside], graph.kind[inside]))
    return Graph(*(np.concatenate([getattr(part, name) for part in parts]) for name in Graph.__slots__))
