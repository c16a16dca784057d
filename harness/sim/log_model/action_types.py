"""What can be done to a log under test, as plain data: for the model, its bugs, and real brokers.

An action is a name and arguments. A position may be relative to what the log has then, so that a list still
makes sense when some actions are left out: "end-2", "hw+1", "start", "stable", "local", "second" (the second
local segment), "37%" (of the way from log start to one past log end), or a number. A record of `append` is
[key, value, age]: its timestamp is that many ms before the broker's clock. `txn` needs a producer. `size` is
the batch's on disk, 0 for the model's own reckoning. Who restarts matters where there are several brokers:
the leader of the first partition, or a follower of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from harness.model.errors_and_exit_codes import BadInput
from harness.sim.log_model.partition import View

RELATIVE: Final = re.compile(r"(start|local|second|hw|stable|end)([+-]\d+)?")
SHARE: Final = re.compile(r"(\d{1,3})%")

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "isolation": ("read_uncommitted", "read_committed"),
    "what": ("earliest", "latest", "earliest-local", "latest-tiered", "time"),
    "how": ("clean", "kill", "power"),
    "who": ("leader", "follower"),
    "codec": ("none", "gzip", "snappy", "lz4", "zstd"),
}
# f -> its arguments: name -> (what kind of value, the default; ... where there is none)
ARGUMENTS: Final[dict[str, dict[str, tuple[str, Any]]]] = {
    "append": {
        "partition": ("number", 0),
        "producer": ("number", -1),
        "txn": ("truth", False),
        "records": ("records", ...),
        "codec": ("codec", "none"),
        "magic": ("number", 2),
        "size": ("number", 0),
    },
    "retry": {
        "partition": ("number", 0),
        "producer": ("number", ...),
        "back": ("number", 0),
        "size": ("number", 0),
    },
    "gap": {"partition": ("number", 0), "producer": ("number", ...), "size": ("number", 0)},
    "zombie": {"partition": ("number", 0), "producer": ("number", ...)},
    "init": {"producer": ("number", ...)},
    "commit": {"producer": ("number", ...)},
    "abort": {"producer": ("number", ...)},
    "hold": {"partition": ("number", 0)},
    "advance": {"partition": ("number", 0), "at": ("position", ...)},
    "read": {
        "partition": ("number", 0),
        "at": ("position", ...),
        "isolation": ("isolation", "read_uncommitted"),
        "max_bytes": ("number", 1000),
    },
    "read-all": {"partition": ("number", 0), "isolation": ("isolation", "read_uncommitted")},
    "list": {
        "partition": ("number", 0),
        "what": ("what", ...),
        "age": ("number", 0),
        "isolation": ("isolation", "read_uncommitted"),
    },
    "tick": {"ms": ("number", ...)},
    "check": {},
    "set": {"name": ("text", ...), "value": ("any", ...)},
    "delete-records": {"partition": ("number", 0), "at": ("position", ...)},
    "roll": {"partition": ("number", 0)},
    "clean": {},
    "upload": {"partition": ("number", 0)},
    "commit-tier": {"partition": ("number", 0)},
    "check-tier": {},
    "checkpoint": {},
    "flush": {"partition": ("number", 0)},
    "restart": {"how": ("how", ...), "who": ("who", "leader")},
    "elect": {"partition": ("number", 0), "at": ("position", ...)},
}
CHANGEABLE: Final = (
    "retention_ms",
    "retention_bytes",
    "local_retention_ms",
    "local_retention_bytes",
    "segment_bytes",
    "segment_ms",
    "cleanup",
)


@dataclass(frozen=True, slots=True)
class Action:
    """What to do, by name, and its arguments."""

    f: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def arg(self, name: str) -> Any:
        """An argument, or its default."""
        return self.args.get(name, ARGUMENTS[self.f][name][1])

    def text(self) -> str:
        return " ".join([self.f, *(f"{name}={as_json(value)}" for name, value in self.args.items())])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action: an error's name, or nothing and a value of plain data."""

    error: str = ""
    value: Any = None


class LogUnderTest(Protocol):
    """Something with partitions that actions can be applied to: the model, or the model with a bug."""

    def apply(self, action: Action) -> Outcome:
        """Do it. Positions are numbers by now (`resolve`)."""

    def views(self) -> Sequence[View]:
        """What can be seen of each partition, afterwards."""


def as_json(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).replace(" ", "\\u0020")


def position(at: int | str, view: View) -> int:
    """The offset that a position means. Raises BadInput."""
    if isinstance(at, int):
        return at
    if (share := SHARE.fullmatch(at)) is not None:
        return view.start + int(share[1]) * (view.end + 1 - view.start) // 100
    if (relative := RELATIVE.fullmatch(at)) is None:
        raise BadInput(f"position {at!r}: a number, 37%, or start, local, second, hw, stable or end, as in hw-1")
    anchors = {
        "start": view.start,
        "local": view.local_start,
        "second": view.local[0].end,
        "hw": view.high_watermark,
        "stable": view.last_stable,
        "end": view.end,
    }
    return anchors[relative[1]] + int(relative[2] or 0)


def resolve(action: Action, views: Sequence[View]) -> Action:
    """The action with its position as a number, for a log that looks so."""
    if "at" not in ARGUMENTS[action.f]:
        return action
    at = position(action.arg("at"), views[action.arg("partition")])
    return replace(action, args={**action.args, "at": at})
