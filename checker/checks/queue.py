"""The queue check: searches every bucket for every anomaly of the catalogue, and computes the verdict.

The stages are:

1. A pre-pass finds the `info` ops that committed. It is needed only with several buckets, because the keys of an op may
   be in different buckets.
2. The kernels (the search functions of the anomalies) search each bucket.
3. Torn transactions are searched for, if a write was lost or aborted data was read.
4. This module joins the results of all buckets.

The tasks of the stages are in checker.checks.queue_tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker.anomalies import torn_transaction
from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.counts_against_verdict import Rows, forbidden
from checker.anomalies.cycle_anomalies import CYCLES
from checker.checks import doubtful_deletions
from checker.checks.queue_tasks import (
    SHOWN,
    Answer,
    Found,
    answers_of,
    kernels,
    reasons_of_edges,
    torn_parts,
    visible_info,
    works_of,
)
from checker.cycles import dependency_edges, search
from checker.kernels import statistics
from checker.kernels.witness import decoded, plain, worst
from checker.tables.buckets_of_a_history import Source
from checker.tables.coding import decoder
from checker.tables.packing import Ints, begins, empty, order
from checker.tables.schema import MICRO
from checker.verdict import results, unknown_reasons
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict

LISTED_UNSEEN: Final = 32


def _cycles(
    source: Source, options: CheckOptions, committed: Ints | None, answers: list[Answer]
) -> dict[str, list[dict[str, Any]]]:
    """Returns type of cycle -> all its witnesses, with the original keys and values in place of the tables' codes.

    `committed`: ids of the `info` ops that committed.
    """
    found = search.search(source, options, [answer.judged.edges for answer in answers])
    wanted = search.wanted(found)
    details = dependency_edges.DETAILS.empty_table()
    if len(wanted):
        task = partial(reasons_of_edges, options=options, committed=committed, ops=wanted)
        details = pa.concat_tables(source.map(task))
    witnesses = search.witnesses(found, details)
    original = decoder(source.texts()) if witnesses else {}
    for name, rows in witnesses.items():
        for row in rows:
            decoded(row.get("steps", []), original)
        if source.run is not None:
            results.write_part(source.run, name, 0, rows)
    return witnesses


def check(source: Source, options: CheckOptions) -> Result:
    """Returns the verdict on a history. Raises BadHistory if its tables cannot be used."""
    committed: Ints | None = None
    if len(source.parts) > 1:
        uncertain = any(source.meta["counts"].get(f, {}).get("info") for f in MICRO)
        committed = np.unique(np.concatenate(source.map(visible_info))) if uncertain else empty()
    if source.run is not None:
        results.clear(source.run)
    buckets = len(source.parts)
    with source.scratch() as scratch:
        task = partial(
            kernels, options=options, committed=committed, run=source.written, buckets=buckets, scratch=scratch
        )
        works = works_of(source)
        answers = answers_of(works, source.spread(task, works))
        circles = _cycles(source, options, committed, answers)
    found = _joined(answers)
    if not options.jepsen_compatible:
        suspects = np.unique(np.concatenate([answer.judged.suspects for answer in answers]))
        if len(suspects):
            tables = source.map(partial(torn_parts, options=options, committed=committed, ops=suspects))
            torn = torn_transaction.reduce(tables)
            if torn.num_rows:
                found[torn_transaction.ANOMALY.name] = Found(torn.num_rows, torn.slice(0, SHOWN))
                if source.run is not None:
                    results.write_part(source.run, torn_transaction.ANOMALY.name, 0, torn.to_pylist())
    result = _verdict(source, options, answers, found, circles)
    if source.run is not None:
        source.fetch(results.PARTS)
        results.finish(source.run)
    return result


def _joined(answers: list[Answer]) -> dict[str, Found]:
    """Joins the anomalies of all buckets, in the order of the catalogue."""
    joined: dict[str, Found] = {}
    for name in CATALOGUE:
        parts = [answer.judged.found[name] for answer in answers if name in answer.judged.found]
        if parts:
            joined[name] = Found(sum(part.count for part in parts), pa.concat_tables([part.rows for part in parts]))
    return joined


def _one_per_op(rows: pa.Table) -> pa.Table:
    """Returns one witness per op, as Jepsen does: the witness with the lowest `place`."""
    op = rows.column("op").to_numpy()
    by = order(op, rows.column("place").to_numpy())
    return rows.drop_columns("place").take(pa.array(by[begins(op[by])]))


def _in_order(value: Any) -> tuple[bool, int, str]:
    """Returns a sort key: integers come first, by size, then other values, by their text."""
    plain_int = type(value) is int
    return not plain_int, value if plain_int else 0, "" if plain_int else str(value)


def _witnesses(name: str, rows: pa.Table, source: Source, original: Mapping[int, Any], full: bool) -> list[Any]:
    if name != "unseen":
        return plain(worst(rows, None if full else SHOWN, CATALOGUE[name].worst_first), original)
    listed = plain(rows, original)
    messages = {str(row["key"]): sorted(row["messages"], key=_in_order) for row in listed}
    witness: dict[str, Any] = {
        "time": source.meta["last_ok_ns"],
        "unseen": {str(row["key"]): row["count"] for row in listed},
        "messages": messages,
    }
    if not full:
        witness["messages"] = {key: unread[:LISTED_UNSEEN] for key, unread in messages.items()}
        witness["read_to_end"] = [str(row["key"]) for row in listed if row["complete"]]
        witness["messages_listed"] = f"at most {LISTED_UNSEEN} of each key; all are in results/witnesses"
    return [witness]


def _is_bad(anomaly: Anomaly, rows: Rows, options: CheckOptions) -> bool:
    """Returns whether an anomaly counts against the verdict. `rows` are its witnesses as returned by the kernel."""
    return not anomaly.jepsen_allows(options) if options.jepsen_compatible else anomaly.bad(rows, options)


def _cycle_anomalies(circles: Mapping[str, list[dict[str, Any]]], options: CheckOptions) -> list[AnomalyFound]:
    """Returns an anomaly for each type of cycle that was found, in the order of the catalogue."""
    anomalies = []
    for name, anomaly in CYCLES.items():
        rows = circles.get(name)
        if rows:
            compatible = options.jepsen_compatible
            is_bad = _is_bad(anomaly, rows, options)
            shown = tuple(rows if compatible else rows[:SHOWN])
            # Guarantees only rule out forbidden cycles. Nothing rules out the others.
            promise = anomaly.promised(options.settings) if forbidden(rows, options) else False
            anomalies.append(AnomalyFound(name, anomaly.summary, len(rows), is_bad, promise, shown))
    return anomalies


def _verdict(
    source: Source,
    options: CheckOptions,
    answers: list[Answer],
    found: dict[str, Found],
    circles: Mapping[str, list[dict[str, Any]]],
) -> Result:
    compatible = options.jepsen_compatible
    original = decoder(source.texts())
    anomalies: list[AnomalyFound] = []
    unseen = 0
    for name, bucketed in found.items():
        anomaly = CATALOGUE[name]
        if compatible and anomaly.per_op:
            per_op = _one_per_op(bucketed.rows)
            bucketed = replace(bucketed, count=per_op.num_rows, rows=per_op)
        count = bucketed.count
        if name == "unseen":
            unseen = count = int(np.sum(bucketed.rows.column("count").to_numpy()))
        rows = bucketed.rows.to_pylist()
        anomalies.append(
            AnomalyFound(
                name,
                anomaly.summary,
                count,
                _is_bad(anomaly, rows, options),
                anomaly.promised(options.settings, rows),
                tuple(_witnesses(name, bucketed.rows, source, original, full=compatible)),
            )
        )
    anomalies.extend(_cycle_anomalies(circles, options))
    counts = {anomaly.name: anomaly.count for anomaly in anomalies}
    figures = statistics.of_history(source.meta, [answer.figures.sums for answer in answers], counts, original)
    figures["latencies"] = answers[0].figures.latencies
    figures.update(
        results.series(source, [a.figures.unseen for a in answers], [a.figures.lag for a in answers], original)
    )
    if compatible:
        reasons = [] if _graph(source) else ["the history contains no send, poll or txn"]
        anomalies.extend(() if _graph(source) else (_empty_graph(),))
    else:
        ends, nemesis, deletions = source.small("ends"), source.small("nemesis"), source.small("deletions")
        doubts = [answer.judged.doubts for answer in answers]
        reasons = unknown_reasons.reasons(source.meta, figures, unseen, nemesis, ends, options)
        unsure = sum(answer.judged.perhaps_lost for answer in answers)
        reasons += unknown_reasons.perhaps_lost(unsure, options.settings)
        reasons += doubtful_deletions.reasons(doubts, ends, deletions, nemesis, options.settings, original)
        if (folder := source.run or source.noted) is not None:
            reasons += unknown_reasons.unfinished_final_polls(folder, options) + unknown_reasons.trouble(folder)
    anomalies.sort(key=lambda anomaly: not anomaly.bad)  # stable, so otherwise in the order of the catalogue
    return _result(anomalies, [*source.meta["doubts"], *reasons], figures)


def _graph(source: Source) -> bool:
    return any(f in source.meta["counts"] for f in ("send", "poll", "txn"))


def _empty_graph() -> AnomalyFound:
    text = "The history contains no send, poll or txn, so there is nothing to judge."
    return AnomalyFound("empty-transaction-graph", text, 1, False, None)


def _result(anomalies: list[AnomalyFound], reasons: list[str], figures: Mapping[str, Any]) -> Result:
    wrong = [anomaly for anomaly in anomalies if anomaly.bad]
    verdict: Verdict = "invalid" if wrong else "unknown" if reasons else "valid"
    promise: bool | None = None
    if wrong:
        answers = {anomaly.promised for anomaly in wrong}
        promise = True if True in answers else None if None in answers else False
    return Result(verdict, promise, tuple(reasons), tuple(anomalies), figures, VERSION)
