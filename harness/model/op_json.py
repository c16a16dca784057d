"""Conversion between an op and a JSON line, and the header line of a segment of the history.

    {"schema":1,"run":"...","segment":0,"wall_ns":...,"mono_ns":...}                      header
    {"index":0,"time_ns":0,"process":0,"type":"invoke","f":"send","value":[["send",3,17]]}

`error` and `extra` are omitted when empty. Schema 1 is the only one so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from harness.model.errors_and_exit_codes import BadHistory
from harness.model.op import EMPTY, TYPES, Op

SCHEMA: Final = 1


def to_data(op: Op) -> dict[str, Any]:
    """Returns the op as plain data, with the fields in the order of a history line."""
    data: dict[str, Any] = {
        "index": op.index,
        "time_ns": op.time_ns,
        "process": op.process,
        "type": op.type,
        "f": op.f,
        "value": op.value,
    }
    if op.error is not None:
        data["error"] = op.error
    if op.extra:
        data["extra"] = dict(op.extra)
    return data


def from_data(data: Mapping[str, Any]) -> Op:
    """Returns the op that the decoded JSON of a history line describes. Raises KeyError if a field is missing."""
    return Op(
        data["index"],
        data["time_ns"],
        data["process"],
        data["type"],
        data["f"],
        data["value"],
        data.get("error"),
        data.get("extra") or EMPTY,
    )


def encode(op: Op) -> bytes:
    """Returns the op as a line of JSON, including the newline."""
    return orjson.dumps(to_data(op), option=orjson.OPT_APPEND_NEWLINE)


def decode(line: bytes, where: str = "history") -> Op:
    """Returns the op in a line of JSON. Raises BadHistory with `where` if the line is not an op."""
    try:
        data = orjson.loads(line)
        op = from_data(data)
    except orjson.JSONDecodeError as error:
        raise BadHistory(f"{where}: not a JSON line ({error})") from None
    except (KeyError, TypeError) as error:
        raise BadHistory(f"{where}: not an op (missing or invalid field: {error})") from None
    if op.type not in TYPES:
        raise BadHistory(f"{where}: unknown op type {op.type!r}; must be one of {', '.join(TYPES)}")
    return op


def header(run: str, segment: int, wall_ns: int, mono_ns: int, **more: Any) -> bytes:
    """Returns the first line of a segment.

    `wall_ns` and `mono_ns` are the wall clock (ns since 1970) and the monotonic clock at the moment at which the run's
    time is zero.
    """
    return orjson.dumps(
        {"schema": SCHEMA, "run": run, "segment": segment, "wall_ns": wall_ns, "mono_ns": mono_ns, **more},
        option=orjson.OPT_APPEND_NEWLINE,
    )
