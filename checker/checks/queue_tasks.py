"""The tasks of the queue check: each computes the anomalies, edges, statistics and time series of one bucket of keys.

The edges are those of the dependency graph between ops (checker.cycles). A task returns counts, the worst few witnesses
and small series. All witnesses are written to Parquet parts (checker.verdict.results).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from checker.anomalies import lost_write, torn_transaction
from checker.anomalies.catalogue import CATALOGUE
from checker.checks.doubtful_deletions import Doubts, doubts_of
from checker.cycles import dependency_edges, search
from checker.cycles.windows import Stored, stored
from checker.kernels import lag, statistics, unseen_over_time
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import plain, worst
from checker.tables import read_tables
from checker.tables.buckets_of_a_history import Part, Source
from checker.tables.coding import decoder
from checker.tables.packing import Ints, empty
from checker.verdict import results
from harness.model.check_options import CheckOptions

SHOWN: Final = 32
HOT_BYTES: Final = 64 << 20  # size of a bucket's files, about three million rows


@dataclass(frozen=True, slots=True)
class Found:
    """One anomaly in one bucket, or in all buckets: the number of its witnesses, and the worst of them."""

    count: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Figures:
    """The statistics and time series of one bucket."""

    sums: Mapping[str, Any]
    latencies: Mapping[str, Any]  # of the whole history, from the first bucket
    unseen: pa.Table
    lag: pa.Table


@dataclass(frozen=True, slots=True)
class Judged:
    """The part of a bucket's result on which the verdict depends.

    found         anomaly -> its witnesses
    suspects      ids of the transactions that may be torn
    perhaps_lost  number of values that are lost under some, but not all, values of the unknown settings
    edges         edges of the dependency graph
    doubts        why missing records may have been deleted legally
    """

    found: Mapping[str, Found]
    suspects: Ints
    perhaps_lost: int
    edges: Stored | None
    doubts: Doubts


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the task on one bucket of keys."""

    judged: Judged
    figures: Figures


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one task on one bucket: to judge it, to compute its `Figures`, or both.

    Two tasks share the work on a large bucket.
    """

    part: Part
    judge: bool = True
    figures: bool = True


def visible_info(part: Part) -> Ints:
    """Returns the `info` ops with at least one write that an `ok` op read in this bucket. These ops committed."""
    return part.visible_info()


def kernels(
    work: Work,
    options: CheckOptions,
    committed: Ints | None,
    run: str | None,
    buckets: int,
    scratch: Path | None,
) -> tuple[Judged | None, Figures | None]:
    """Returns the results of one bucket: (`Judged`, `Figures`). A result that `work` does not ask for is None.

    committed  ids of the `info` ops that committed; None: determined from this bucket, which is the only one
    run        run folder to which all witnesses are written; None: they are not written
    buckets    number of buckets of the history
    scratch    folder for temporary files; None: nothing is written
    """
    data, small = work.part.load()
    bucket = Bucket(data, small, data.visible_info() if committed is None else committed, options)
    judged = _judged(work.part, bucket, run, scratch) if work.judge else None
    return judged, _figures(work.part, bucket, buckets) if work.figures else None


READ_COLUMNS: Final = ("index", "process", "type", "f", "invoke_ns")
LATENCY_COLUMNS: Final = ("type", "f", "invoke_ns", "complete_ns")


@lru_cache(maxsize=1)
def _stored_reads(stamp: tuple[str, int, int]) -> lag.Reads:
    """Returns the same as `reads`, cached in the Spark worker. `stamp` names the tables and changes with them."""
    return lag.Reads.of(read_tables.ops_columns(Path(stamp[0]), *READ_COLUMNS))


def reads(part: Part) -> lag.Reads:
    """Returns the reads of all buckets: the `ok` ops with f poll or txn."""
    stamp = part.stamp()
    return lag.Reads.of(part.ops(*READ_COLUMNS)) if stamp is None else _stored_reads(stamp)


def _figures(part: Part, bucket: Bucket, buckets: int) -> Figures:
    return Figures(
        statistics.of_bucket(bucket),
        statistics.latencies(part.ops(*LATENCY_COLUMNS)) if part.number == 0 else {},
        unseen_over_time.unseen(bucket, unseen_over_time.UNSEEN_POINTS // buckets),
        lag.realtime_lag(bucket, reads(part), lag.LAG_POINTS // buckets),
    )


def _judged(part: Part, bucket: Bucket, run: str | None, scratch: Path | None) -> Judged:
    options = bucket.options
    limit = None if options.jepsen_compatible else SHOWN
    found: dict[str, Found] = {}
    original: Mapping[int, Any] | None = None
    for name, anomaly in CATALOGUE.items():
        if anomaly.find is None or (anomaly.native and options.jepsen_compatible):
            continue
        rows = anomaly.find(bucket)
        if rows.num_rows and original is None and (run is not None or bucket.lines_missing):
            original = decoder(results.texts_of(part))
        if rows.num_rows and original is not None and bucket.lines_missing:
            rows = anomaly.if_lines_missing(bucket, rows, original)
        if rows.num_rows == 0:
            continue
        if run is not None and original is not None:
            results.write_part(Path(run), name, part.number, plain(rows, original))
        whole = limit if name != "unseen" else None
        found[name] = Found(rows.num_rows, worst(rows, whole, anomaly.worst_first).combine_chunks())
    suspects, unsure = empty(), 0
    if not options.jepsen_compatible:
        suspects, unsure = torn_transaction.suspects(bucket), lost_write.perhaps_lost(bucket)
    drawn = stored(dependency_edges.of_bucket(bucket, search.drawn(options)), scratch, part.number)
    doubts = Doubts() if options.jepsen_compatible else doubts_of(bucket)
    return Judged(found, suspects, unsure, drawn, doubts)


def works_of(source: Source) -> list[Work]:
    """Returns the work on all buckets.

    Each bucket that is too large for one core is split between two tasks. These tasks come first.
    """
    hot = [part for part in source.parts if source.spark is not None and source.bytes(part) > HOT_BYTES]
    halves = [Work(part, judge, not judge) for part in hot for judge in (True, False)]
    return [*halves, *(Work(part) for part in source.parts if part not in hot)]


def answers_of(works: list[Work], done: list[tuple[Judged | None, Figures | None]]) -> list[Answer]:
    """Joins the results of the tasks into one `Answer` per bucket."""
    judged: dict[int, Judged] = {}
    figures: dict[int, Figures] = {}
    for work, (one, other) in zip(works, done, strict=True):
        if one is not None:
            judged[work.part.number] = one
        if other is not None:
            figures[work.part.number] = other
    return [Answer(judged[number], figures[number]) for number in sorted(judged)]


def torn_parts(part: Part, options: CheckOptions, committed: Ints | None, ops: Ints) -> pa.Table:
    """Counts the visible and the lost sends of the transactions `ops` in one bucket.

    `committed`: ids of the `info` ops that committed.
    """
    data, small = part.load()
    visible = data.visible_info() if committed is None else committed
    return torn_transaction.parts(Bucket(data, small, visible, options), ops).combine_chunks()


def reasons_of_edges(part: Part, options: CheckOptions, committed: Ints | None, ops: Ints) -> pa.Table:
    """Returns the reasons for the dependency edges between the ops `ops`, as far as the keys of one bucket show them.

    `committed`: ids of the `info` ops that committed.
    """
    data, small = part.load()
    visible = data.visible_info() if committed is None else committed
    return search.explain(Bucket(data, small, visible, options), options, ops)
