"""Relates the witness of a pipeline anomaly to the history: the partition, the sending operation, and the times.

The witness contains the Kafka key of the record, and the topic and partition of the input. In the history, an input
partition is a key: a number. The history contains no reads by the pipeline, because the pipeline's instances record
their actions as events, not as operations. The witness contains the events around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from checker.anomalies.catalogue import CATALOGUE
from checker.anomalies.pipeline_prose import EPOCH
from harness.pipeline_app.partition_numbers import number_of
from harness.stored.operations_and_records import Facts

Witness = Mapping[str, Any]
FILE: Final = Path("pipeline") / "pipeline.json"
OFFSETS_MAX: Final = 12  # offsets to name of a skipped range


def is_one(name: str) -> bool:
    """Returns whether an anomaly is a pipeline anomaly."""
    return name in CATALOGUE and CATALOGUE[name].modes is not None


def log_of(run: Path, witness: Witness) -> int | None:
    """Returns the history's key for the witness's partition.

    Returns None if the witness's topic is not an input topic, or if the run does not record its input topics.
    """
    try:
        inputs = orjson.loads((run / FILE).read_bytes())["input"]
        topic, partition = inputs.index(witness["topic"]), witness["partition"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    valid = type(partition) is int and partition >= 0
    return number_of(topic, partition, len(inputs)) if valid else None


def partition_of(witness: Witness) -> str | None:
    """Returns the name of the witness's partition as in the brokers' logs, or None."""
    topic, partition = witness.get("topic"), witness.get("partition")
    return f"{topic}-{partition}" if isinstance(topic, str) and type(partition) is int else None


def places(log: int, witness: Witness) -> list[tuple[int, int | None, Any]]:
    """Returns (log, offset or None, id or None) of the records that the witness concerns.

    log  the history's key for their partition
    """
    id_ = witness["id"] if type(witness.get("id")) is int else None
    offset, first, until = (witness.get(name) for name in ("offset", "first", "until"))
    if type(offset) is int and offset >= 0:
        return [(log, offset, id_)]
    if type(first) is int and first >= 0:
        last = until if type(until) is int else first + 1
        return [(log, at, None) for at in range(first, max(last, first + 1))[:OFFSETS_MAX]]
    return [] if id_ is None else [(log, None, id_)]


def senders(log: int, witness: Witness, facts: Facts | None) -> list[int]:
    """Returns the ids of the operations that sent the witness's record."""
    if facts is None or type(witness.get("id")) is not int:
        return []
    return [record.op for record in facts.sends(log, witness["id"])[:2]]


def moments(name: str, witness: Witness) -> list[int]:
    """Returns the times that a witness and its outputs contain, in nanoseconds since the run began."""
    if not is_one(name):
        return []
    outputs = witness.get("outputs") or ()
    timed = [witness, *(one for one in outputs if isinstance(one, Mapping))]
    return sorted({at for one in timed if (at := _time(one)) is not None})


def around(name: str, witness: Witness) -> list[Mapping[str, Any]]:
    """Returns the events of instances and faults around a witness. Events with only a wall-clock time are left out."""
    events = (witness.get("around") or ()) if is_one(name) else ()
    return [one for one in events if isinstance(one, Mapping) and _time(one) is not None]


def _time(one: Mapping[str, Any]) -> int | None:
    """Returns an event's time in nanoseconds since the run began, or None if the event has only a wall-clock time."""
    at = one.get("time_ns")
    return at if type(at) is int and 0 <= at < EPOCH else None
