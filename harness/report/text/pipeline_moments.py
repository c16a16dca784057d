"""Relates the witness of a pipeline anomaly to the history of the run.

In the history, each input partition of the pipeline is a key, which is a number. The witness contains the topic and
partition instead, and also the key of the Kafka record. The history does not contain what the pipeline's instances
read, because instances record events, not operations. The witness contains the events close to the anomaly.
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
    """Returns whether this is the name of an anomaly of pipelines."""
    return name in CATALOGUE and CATALOGUE[name].modes is not None


def log_of(run: Path, witness: Witness) -> int | None:
    """Returns the number that is the history's key for the partition in the witness.

    Returns None if the topic in the witness is not an input topic, or if the run does not record its input topics.
    """
    try:
        inputs = orjson.loads((run / FILE).read_bytes())["input"]
        topic, partition = inputs.index(witness["topic"]), witness["partition"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    valid = type(partition) is int and partition >= 0
    return number_of(topic, partition, len(inputs)) if valid else None


def partition_of(witness: Witness) -> str | None:
    """Returns TOPIC-PARTITION from the witness, as in the brokers' logs; None if it names no partition."""
    topic, partition = witness.get("topic"), witness.get("partition")
    return f"{topic}-{partition}" if isinstance(topic, str) and type(partition) is int else None


def places(log: int, witness: Witness) -> list[tuple[int, int | None, Any]]:
    """Returns (log, offset or None, id or None) of each record that the witness is about.

    log  the history's key for the partition
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
    """Returns the times, in nanoseconds since the run began, that a witness contains for itself and its outputs."""
    if not is_one(name):
        return []
    outputs = witness.get("outputs") or ()
    timed = [witness, *(one for one in outputs if isinstance(one, Mapping))]
    return sorted({at for one in timed if (at := _time(one)) is not None})


def between_copies(name: str, witness: Witness) -> tuple[int, int] | None:
    """Returns the times of the first and the last output in a witness, in nanoseconds since the run began.

    Returns None if the witness has fewer than two outputs with a time.
    """
    outputs = witness.get("outputs") or () if is_one(name) else ()
    timed = [at for one in outputs if isinstance(one, Mapping) and (at := _time(one)) is not None]
    return (min(timed), max(timed)) if len(timed) > 1 else None


def around(name: str, witness: Witness) -> list[Mapping[str, Any]]:
    """Returns the events of instances and faults that a witness contains.

    Events without a time since the run began (they have only a wall-clock time) are left out.
    """
    events = (witness.get("around") or ()) if is_one(name) else ()
    return [one for one in events if isinstance(one, Mapping) and _time(one) is not None]


def _time(one: Mapping[str, Any]) -> int | None:
    """Returns an event's time in nanoseconds since the run began; None if it has only a wall-clock time."""
    at = one.get("time_ns")
    return at if type(at) is int and 0 <= at < EPOCH else None
