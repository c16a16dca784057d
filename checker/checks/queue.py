"""The queue check: every anomaly of the table over every bucket, and the verdict.

Stages: a pre-pass for the `info` ops that committed (only where there is more than one bucket: it crosses
keys), the kernels, torn transactions if anything was lost or aborted data was read, and the reduction here.
Each task gives back counts, the worst few witnesses and small series; complete witnesses go to Parquet parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker import jepsen, native, results, series, statistics
from checker.anomalies import torn_transaction
from checker.anomalies.table import ANOMALIES
from checker.bucket import Bucket
from checker.coding import decoder
from checker.guarantees import promised
from checker.packing import Ints, empty
from checker.source import Part, Source
from checker.version import VERSION
from checker.witness import plain, worst
from harness.model.options import CheckOptions
from harness.model.result import AnomalyFound, Result, Verdict

SHOWN: Final = 32
LISTED_UNSEEN: Final = 32


@dataclass(frozen=True, slots=True)
class Found:
    """One anomaly in one bucket: how many witnesses, and the worst of them."""

    count: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Answer:
    """What one bucket gives back."""

    found: Mapping[str, Found]
    suspects: Ints
    sums: Mapping[str, Any]
    unseen: pa.Table | None
    lag: pa.Table | None


def visible_info(part: Part) -> Ints:
    """Pre-pass over one bucket: `info` ops a write of which was read."""
    return part.load()[0].visible_info()


def kernels(
    part: Part, options: CheckOptions, committed: Ints | None, run: str | None, buckets: int
) -> Answer:
    """All anomalies, statistics and series of one bucket."""
    data, small = part.load()
    bucket = Bucket(data, small, data.visible_info() if committed is None else committed, options)
    limit = None if options.jepsen_compatible else SHOWN
    found: dict[str, Found] = {}
    original: Mapping[int, Any] | None = None
    for name, anomaly in ANOMALIES.items():
        rows = anomaly.find(bucket)
        if rows.num_rows == 0:
            continue
        if run is not None:
            if original is None:
                original = decoder(results.texts_of(part))
            results.write_part(Path(run), name, part.number, plain(rows, original))
        whole = limit if name != "unseen" else None
        found[name] = Found(rows.num_rows, worst(name, rows, whole).combine_chunks())
    suspects = empty() if options.jepsen_compatible else torn_transaction.suspects(bucket)
    reads = series.Reads.of(part.ops())
    lag = series.realtime_lag(bucket, reads, series.LAG_POINTS // buckets)
    unseen = series.unseen(bucket, series.UNSEEN_POINTS // buckets)
    return Answer(found, suspects, statistics.of_bucket(bucket), unseen, lag)


def torn_parts(part: Part, options: CheckOptions, committed: Ints | None, ops: Ints) -> pa.Table:
    """What became of the sends of some transactions, as far as one bucket knows."""
    data, small = part.load()
    known = data.visible_info() if committed is None else committed
    return torn_transaction.parts(Bucket(data, small, known, options), ops).combine_chunks()


def check(source: Source, options: CheckOptions) -> Result:
    """The verdict on a history. Raises BadHistory when its tables cannot be used."""
    committed: Ints | None = None
    if len(source.parts) > 1:
        committed = np.unique(np.concatenate(source.map(visible_info)))
    run = None if source.run is None else str(source.run)
    if source.run is not None:
        results.clear(source.run)
    buckets = len(source.parts)
    answers = source.map(partial(kernels, options=options, committed=committed, run=run, buckets=buckets))
    found = _joined(answers)
    if not options.jepsen_compatible:
        suspects = np.unique(np.concatenate([answer.suspects for answer in answers]))
        if len(suspects):
            tables = source.map(partial(torn_parts, options=options, committed=committed, ops=suspects))
            torn = torn_transaction.reduce(tables)
            if torn.num_rows:
                found[torn_transaction.NAME] = Found(torn.num_rows, torn.slice(0, SHOWN))
                if source.run is not None:
                    results.write_part(source.run, torn_transaction.NAME, 0, torn.to_pylist())
    result = _verdict(source, options, answers, found)
    if source.run is not None:
        results.finish(source.run)
    return result


def _joined(answers: list[Answer]) -> dict[str, Found]:
    """Anomalies over all buckets, in the order of the table."""
    joined: dict[str, Found] = {}
    for name in ANOMALIES:
        parts = [answer.found[name] for answer in answers if name in answer.found]
        if parts:
            joined[name] = Found(
                sum(part.count for part in parts), pa.concat_tables([part.rows for part in parts])
            )
    return joined


def _one_per_op(rows: pa.Table) -> pa.Table:
    """Jepsen shows one such witness per op."""
    _, first = np.unique(rows.column("op").to_numpy(), return_index=True)
    return rows.take(pa.array(first))


def _in_order(value: Any) -> tuple[bool, int, str]:
    """Integers by size, then the rest by text."""
    plain_int = type(value) is int
    return not plain_int, value if plain_int else 0, "" if plain_int else str(value)


def _witnesses(
    name: str, rows: pa.Table, source: Source, original: Mapping[int, Any], full: bool
) -> list[Any]:
    if name != "unseen":
        return plain(worst(name, rows, None if full else SHOWN), original)
    listed = plain(rows, original)
    messages = {str(row["key"]): sorted(row["messages"], key=_in_order) for row in listed}
    witness: dict[str, Any] = {
        "time": source.meta["last_ok_ns"],
        "unseen": {str(row["key"]): row["count"] for row in listed},
        "messages": messages,
    }
    if not full:
        witness["messages"] = {key: held[:LISTED_UNSEEN] for key, held in messages.items()}
        witness["read_to_end"] = [str(row["key"]) for row in listed if row["complete"]]
        witness["messages_listed"] = f"at most {LISTED_UNSEEN} of each key; all are in results/witnesses"
    return [witness]


def _verdict(source: Source, options: CheckOptions, answers: list[Answer], found: dict[str, Found]) -> Result:
    compatible = options.jepsen_compatible
    original = decoder(source.texts())
    allowed = jepsen.allowed(options) if compatible else frozenset()
    anomalies: list[AnomalyFound] = []
    unseen = 0
    for name, held in found.items():
        if compatible and name in ANOMALIES and ANOMALIES[name].per_op:
            rows = _one_per_op(held.rows)
            held = replace(held, count=rows.num_rows, rows=rows)
        count = held.count
        if name == "unseen":
            unseen = count = int(np.sum(held.rows.column("count").to_numpy()))
        is_bad = name not in allowed if compatible else native.bad(name, held.rows.to_pylist(), options)
        anomalies.append(
            AnomalyFound(
                name,
                ANOMALIES[name].summary if name in ANOMALIES else torn_transaction.SUMMARY,
                count,
                is_bad,
                promised(name, options.settings),
                tuple(_witnesses(name, held.rows, source, original, full=compatible)),
            )
        )
    counts = {anomaly.name: anomaly.count for anomaly in anomalies}
    figures = statistics.of_history(source.meta, [answer.sums for answer in answers], counts, original)
    figures["latencies"] = statistics.latencies(source.parts[0].ops())
    figures.update(results.series(source, [a.unseen for a in answers], [a.lag for a in answers], original))
    if compatible:
        reasons = [] if _graph(source) else ["the history holds no send, poll or txn"]
        anomalies.extend(() if _graph(source) else (_empty_graph(),))
    else:
        ends, nemesis = source.small("ends"), source.small("nemesis")
        reasons = native.reasons(source.meta, figures, unseen, nemesis, ends, options)
        reasons += native.moved_starts(ends, source.small("deletions"), options.settings, original)
        if source.run is not None:
            reasons += native.unfinished(source.run, options) + native.trouble(source.run)
    anomalies.sort(key=lambda anomaly: not anomaly.bad)  # stable: the table's order within
    return _result(anomalies, reasons, figures)


def _graph(source: Source) -> bool:
    return any(f in source.meta["counts"] for f in ("send", "poll", "txn"))


def _empty_graph() -> AnomalyFound:
    text = "The history holds no send, poll or txn, so there is nothing to judge."
    return AnomalyFound("empty-transaction-graph", text, 1, False, None)


def _result(anomalies: list[AnomalyFound], reasons: list[str], figures: Mapping[str, Any]) -> Result:
    wrong = [anomaly for anomaly in anomalies if anomaly.bad]
    verdict: Verdict = "invalid" if wrong else "unknown" if reasons else "valid"
    promise: bool | None = None
    if wrong:
        answers = {anomaly.promised for anomaly in wrong}
        promise = True if True in answers else None if None in answers else False
    return Result(verdict, promise, tuple(reasons), tuple(anomalies), figures, VERSION)
