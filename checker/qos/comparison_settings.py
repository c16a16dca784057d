"""The settings of a live comparison: what is compared, and how."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", re.ASCII)
_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, None: 1000}
DEFAULT_KEY: Final = "cast(key as string)"
DURATION_MAX_MS: Final = 24 * 3_600_000
PARTS_MAX: Final = 1000
# harness.model.transforms.third of a record's id, in SQL. The product overflows 64 bits, which the mask tolerates.
_THIRD: Final = "((((cast(id as bigint) & 4294967295L) * 2654435761L) & 4294967295L) >> 16) % 3"
EXPECT: Final[Mapping[str, str]] = {
    "identity": "1",
    "fan-out": f"1 + {_THIRD}",
    "filter": f"if({_THIRD} = 0, 0, 1)",
    "aggregate": "1",
}


@dataclass(frozen=True, slots=True)
class Defaults:
    """The Spark SQL expressions that are used if the user gives none; for their meaning see `Settings`."""

    input_key: str = DEFAULT_KEY
    output_key: str = DEFAULT_KEY
    expect: str = "1"
    part: str = "0"


def defaults(transform: str | None, in_files: bool) -> Defaults:
    """Returns the default expressions. Raises BadInput.

    Without a transform, an output belongs to the input with the same Kafka key. With a transform, the expressions fit
    the outputs of this project's pipeline: JSON records with the input's `id` and the number `n` of the output, or
    files with the columns `id` and `n`.
    """
    if transform is None:
        return Defaults(output_key="id" if in_files else DEFAULT_KEY)
    if transform not in EXPECT:
        raise BadInput(f"--pipeline {transform}: no such transform; choose one of {', '.join(EXPECT)}")
    id, n = (f"get_json_object(cast(value as string), '$.{name}')" for name in ("id", "n"))
    part = "0" if transform != "fan-out" else "n" if in_files else n
    return Defaults(id, "id" if in_files else id, EXPECT[transform], part)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a comparison.

    Expressions are Spark SQL. For a topic, they use the columns key, value, headers, timestamp, topic, partition and
    offset; for files, the columns of the files.

    inputs       topics with the inputs
    outputs      topics with the outputs; empty if `folder` is given
    folder       a folder of Parquet files with the outputs
    window_ms    length of the windows of the input's event time, aligned to the epoch
    padding_ms   how long after the end of its window an output may arrive
    input_key    expression for the id of an input; an input whose id is null is rejected
    output_key   expression for the id of the input that an output belongs to; an output whose id is null is rejected
    expect       expression for the number of outputs of an input; may use `id`
    part         expression for the number of an output among those of its input: 0, 1, ...; "0" if there is only one
    time         expression for the event time of an input: a timestamp, or milliseconds since the epoch
    output_time  expression for the event time of an output: a timestamp, or milliseconds since the epoch
    start        where to start reading if there is no checkpoint: earliest or latest
    kafka        further settings of Kafka's client, possibly with passwords
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bootstrap: str
    window_ms: int
    padding_ms: int
    folder: str = ""
    input_key: str = DEFAULT_KEY
    output_key: str = DEFAULT_KEY
    expect: str = "1"
    part: str = "0"
    time: str = "timestamp"
    output_time: str = "timestamp"
    start: str = "earliest"
    kafka: Mapping[str, str] = field(default_factory=dict)

    @property
    def keep_ms(self) -> int:
        """How long a window is remembered after its padding, in ms. Late outputs are recognized until then."""
        return self.window_ms + self.padding_ms

    def query(self) -> dict[str, Any]:
        """Returns the settings that must be unchanged when a comparison continues from a checkpoint."""
        return {
            "schema": 1,
            "input": list(self.inputs),
            "output": list(self.outputs),
            "folder": self.folder,
            "window_ms": self.window_ms,
            "padding_ms": self.padding_ms,
            "input_key": self.input_key,
            "output_key": self.output_key,
            "expect": self.expect,
            "part": self.part,
            "time": self.time,
            "output_time": self.output_time,
        }


def duration_ms(option: str, text: str) -> int:
    """Returns the milliseconds of a duration such as "60s", "500ms", "2m", "1h", or "60" for seconds.

    Raises BadInput, with the name of the `option`.
    """
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise BadInput(f"{option} {text}: must be a duration such as 500ms, 60s, 2m or 1h")
    value = round(float(found[1]) * _MS[found[2]])
    if not 1 <= value <= DURATION_MAX_MS:
        raise BadInput(f"{option} {text}: must be at least 1ms and at most 24h")
    return value


def topics(option: str, text: str) -> tuple[str, ...]:
    """Returns the topic names in the text of a comma-separated option.

    Raises BadInput, with the name of the `option`.
    """
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
            raise BadInput(f"{option} {text}: {name or 'an empty name'} is not a valid topic name")
    if len(set(names)) < len(names):
        raise BadInput(f"{option} {text}: a topic is listed twice")
    return names


def difference(stored: str, now: Mapping[str, Any]) -> str:
    """Describes the first difference between the query.json of a checkpoint and the current settings; "" if none.

    `stored`: the content of query.json.
    """
    try:
        then = json.loads(stored)
    except ValueError:
        return "its query.json is not JSON"
    if not isinstance(then, dict):
        return "its query.json has no query"
    for name, value in now.items():
        if then.get(name) != value:
            return f"{name} was {json.dumps(then.get(name))} and is now {json.dumps(value)}"
    return ""


def clock(ms: int) -> str:
    """Returns a time (ms since the epoch) as text in UTC, to the second."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
