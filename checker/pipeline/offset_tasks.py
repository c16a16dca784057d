"""Runs the offset state machine (checker.pipeline.offset_machine) in Spark, for each partition separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import orjson
import pyarrow as pa

from checker.pipeline.context import LISTED, REBALANCES, Faults, Trail, data, faults_near
from checker.pipeline.offset_machine import Finding, findings

FORM: Final = (
    "run string, name string, topic string, partition int, place bigint, first bigint, until bigint, "
    "verify boolean, witness string"
)
_SCHEMA: Final = pa.schema(
    [
        ("run", pa.string()),
        ("name", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("place", pa.int64()),
        ("first", pa.int64()),
        ("until", pa.int64()),
        ("verify", pa.bool_()),
        ("witness", pa.string()),
    ]
)
FOUND_MAX: Final = 10_000  # per anomaly and partition: an instance with a wrong position is wrong at every event


def _limited(found: Iterator[Finding]) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    for one in found:
        counts[one.anomaly] += 1
        if counts[one.anomaly] <= FOUND_MAX:
            yield one


def _witness(one: Finding, topic: str, number: int, trail: Trail, faults: Faults) -> dict[str, Any]:
    event, at = one.event, one.event.time_ns
    place = trail.events.index(event)
    before = trail.events[max(0, place - LISTED) : place]
    moved = trail.rebalances(at)[-REBALANCES:]
    unique = sorted(dict.fromkeys([*moved, *before]), key=lambda event: event.time_ns)
    around = [data(event) for event in unique] + faults_near(faults, at)
    return {
        "topic": topic,
        "partition": number,
        "first": one.first,
        "until": one.until,
        "said": one.text,
        "event": event.event,
        "instance": event.instance,
        "incarnation": event.incarnation,
        "generation": event.generation,
        "time_ns": at,
        "around": sorted(around, key=lambda one: int(one["time_ns"])),
    }


def judged(
    events: pa.Table,
    kinds: Mapping[str, Collection[str]],
    start: int | None,
    ahead: Collection[str],
    faults: Mapping[str, Faults],
) -> pa.Table:
    """Judges the events of one partition. Returns the findings as a table with the schema FORM.

    For the arguments, see `states`.
    """
    run, topic, number = (events.column(name)[0].as_py() for name in ("run", "topic", "partition"))
    trail = Trail.of(events)
    rows = []
    for one in _limited(findings(trail.events, frozenset(kinds[run]), start, run in ahead)):
        witness = _witness(one, topic, number, trail, faults.get(run, ()))
        text = orjson.dumps(witness).decode()
        rows.append((run, one.anomaly, topic, number, one.event.time_ns, one.first, one.until, one.verify, text))
    columns = zip(*rows, strict=True) if rows else [()] * len(_SCHEMA)
    arrays = [pa.array(list(column), kind.type) for column, kind in zip(columns, _SCHEMA, strict=True)]
    return pa.table(arrays, schema=_SCHEMA)


def states(
    events: Any,
    kinds: Mapping[str, Collection[str]],
    faults: Mapping[str, Faults],
    start: int | None = 0,
    ahead: Collection[str] = (),
) -> Any:
    """Judges the events of the instances, and returns the findings as a data frame with the schema FORM.

    events  events by partition, from checker.pipeline.events
    kinds   run -> the kinds of events that occur in the run
    faults  run -> its faults
    start   the offset where reading starts when no offset was committed; None: unknown
    ahead   the runs whose pipelines commit offsets before they produce outputs
    """
    kinds_of_run, commits_first, faults_of_run = dict(kinds), frozenset(ahead), dict(faults)

    def task(table: pa.Table) -> pa.Table:
        return judged(table, kinds_of_run, start, commits_first, faults_of_run)

    return events.groupBy("run", "topic", "partition").applyInArrow(task, FORM)


def verified(found: Any, records: Any) -> Any:
    """Removes the gaps that contain no input record, and thus consist of transaction markers only.

    records  the input records: run, topic, partition, offset; if a run has none, all of its findings are kept
    """
    from pyspark.sql import functions as F

    requested = F.broadcast(
        found.where("verify").select("run", "topic", "partition", "first", "until").distinct()
    ).alias("f")
    present = records.alias("r")
    seen = present.join(
        requested,
        (F.col("f.run") == F.col("r.run"))
        & (F.col("f.topic") == F.col("r.topic"))
        & (F.col("f.partition") == F.col("r.partition"))
        & (F.col("r.offset") >= F.col("f.first"))
        & (F.col("r.offset") < F.col("f.until")),
    ).select("f.run", "f.topic", "f.partition", "f.first", "f.until")
    real = F.broadcast(seen.distinct().withColumn("real", F.lit(True)))
    read = F.broadcast(records.select("run").distinct().withColumn("read", F.lit(True)))
    marked = found.join(real, ["run", "topic", "partition", "first", "until"], "left").join(read, "run", "left")
    return marked.where("not verify or real or read is null").drop("real", "read")
