"""Adds context to the anomalies of a pipeline's outputs: the responsible instance, related events, and earlier faults.

Runs in Spark tasks, one per input partition, with the anomalies and the events of that partition. *Events* are those
that the instances of the pipeline logged (checker.pipeline.events).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from checker.pipeline.events import ordered
from checker.pipeline.offset_machine import COMMITTED, OF_PARTITIONS, OF_RANGE, Event

NEAR_NS: Final = 10_000_000_000  # a fault this long before an anomaly is still listed
LISTED: Final = 8
REBALANCES: Final = 3
WITH_EVENTS_MAX: Final = 20_000  # anomalies of one partition that get context
FORM: Final = "run string, name string, place bigint, witness string"
_SCHEMA: Final = pa.schema(
    [("run", pa.string()), ("name", pa.string()), ("place", pa.int64()), ("witness", pa.string())]
)

Faults = Sequence[tuple[int, str]]  # (nanoseconds since the run began, description), ascending


@dataclass(frozen=True, slots=True)
class Trail:
    """The events of one partition, indexed to look up what happened to an offset.

    first   the first offset of each event's range of offsets; -1 for an event without a range
    last    the last offset of each event's range of offsets; -2 for an event without a range
    commit  the committed offset of each commit; -1 for other events
    """

    events: list[Event]
    first: Any
    last: Any
    commit: Any

    @classmethod
    def of(cls, table: pa.Table) -> Trail:
        events = list(ordered(table))
        ranges = [event.event in OF_RANGE for event in events]
        return cls(
            events,
            np.array([event.first if own else -1 for event, own in zip(events, ranges, strict=True)], np.int64),
            np.array([event.last if own else -2 for event, own in zip(events, ranges, strict=True)], np.int64),
            np.array(
                [event.first if event.event == COMMITTED else -1 for event in events],
                np.int64,
            ),
        )

    def handled(self, offset: int) -> list[Event]:
        """Returns the events whose range contains the offset.

        If there are many, returns the first few and the last few.
        """
        rows = np.flatnonzero((self.first <= offset) & (offset <= self.last))
        if len(rows) > LISTED:
            rows = np.concatenate([rows[: LISTED // 2], rows[-LISTED // 2 :]])
        return [self.events[row] for row in rows.tolist()]

    def passed(self, offset: int) -> Event | None:
        """Returns the first commit of an offset above `offset`; None if there is none."""
        rows = np.flatnonzero(self.commit > offset)
        return self.events[int(rows[0])] if len(rows) else None

    def rebalances(self, until_ns: int) -> list[Event]:
        """Returns the last few assignments and revocations up to the time `until_ns`."""
        found: list[Event] = []
        for event in reversed(self.events):
            if event.event in OF_PARTITIONS and event.time_ns <= until_ns:
                found.append(event)
                if len(found) == REBALANCES:
                    break
        return found[::-1]


def data(event: Event) -> dict[str, Any]:
    """Converts an event to data for a witness."""
    found: dict[str, Any] = {
        "time_ns": event.time_ns,
        "event": event.event,
        "instance": event.instance,
        "incarnation": event.incarnation,
        "generation": event.generation,
    }
    if event.first is not None:
        found["first"] = event.first
    if event.last is not None:
        found["last"] = event.last
    return found


def faults_near(faults: Faults, time_ns: int | None) -> list[dict[str, Any]]:
    """Returns the last few faults that began or ended shortly before `time_ns`; an empty list if this is None."""
    if time_ns is None:
        return []
    near = [(at, what) for at, what in faults if time_ns - NEAR_NS <= at <= time_ns]
    return [{"time_ns": at, "event": what} for at, what in near[-LISTED // 2 :]]


def _witness(row: Mapping[str, Any], trail: Trail | None, faults: Faults) -> dict[str, Any]:
    found = {name: row[name] for name in ("topic", "partition", "offset", "id", "key", "n")}
    if row.get("state_expected") is not None:
        found["expected"], found["found"] = row["state_expected"], row["state_found"]
    else:
        found["copies"], found["expected"] = row["copies"], row["expected"]
    outputs = [dict(output) for output in row["outputs"] or ()]
    handled = passed = None
    around: list[Event] = []
    if trail is not None and row["offset"] is not None:
        handled, passed = trail.handled(row["offset"]), trail.passed(row["offset"])
        around = handled + ([passed] if passed is not None else [])
    # The responsible instance produced the last copy of the output. If there is no copy, it is the instance that
    # committed an offset beyond the input record or, if there is none, the one that handled the record last.
    who: Mapping[str, Any] = outputs[-1] if outputs else {}
    if not who and around:
        who = data(around[-1])
    at = who.get("time_ns")
    if trail is not None and at is not None:
        around = around + trail.rebalances(at)
    for name in ("instance", "incarnation", "generation", "time_ns"):
        found[name] = who.get(name)
    unique = sorted(dict.fromkeys(around), key=lambda event: event.time_ns)
    events_around = [data(event) for event in unique] + faults_near(faults, at)
    found["outputs"] = outputs
    found["around"] = sorted(events_around, key=lambda one: int(one["time_ns"]))
    return found


def with_events(anomalies: pa.Table, events: pa.Table, faults: Mapping[str, Faults]) -> pa.Table:
    """Returns the witnesses of the anomalies in one partition, as a table with the schema FORM."""
    trail = Trail.of(events) if events.num_rows else None
    rows = []
    for number, row in enumerate(anomalies.to_pylist()):
        witness = _witness(row, trail if number < WITH_EVENTS_MAX else None, faults.get(row["run"], ()))
        place = row["offset"] if row["offset"] is not None else -1
        rows.append((row["run"], row["name"], place, orjson.dumps(witness).decode()))
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.table(
        [pa.array(list(column), kind.type) for column, kind in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA,
    )


def witnesses(findings: Any, events: Any, faults: Mapping[str, Faults]) -> Any:
    """Returns the witnesses of all findings, as a data frame with the schema FORM.

    findings  the anomalies found by checker.pipeline.outputs
    events    the events by partition, from checker.pipeline.events
    faults    run -> its faults
    """
    by = ["run", "topic", "partition"]
    by_run = dict(faults)

    def task(anomalies: pa.Table, partition_events: pa.Table) -> pa.Table:
        return with_events(anomalies, partition_events, by_run)

    return findings.groupBy(*by).cogroup(events.groupBy(*by)).applyInArrow(task, FORM)
