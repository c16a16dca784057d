"""The actions on a log under test, as plain data: for the model, the model with bugs, and real brokers.

An action is a name with arguments. A position is a number, or relative to the current state of the log: "end-2",
"hw+1", "start", "stable", "local", "second" (the second local segment), "37%" (of the way from the log start offset to
the log end offset plus one). A relative position remains meaningful if earlier actions are removed from a list. A
record of `append` is [key, value, age]: its timestamp is `age` ms before the broker's clock. The argument `txn` of
`append` requires the argument `producer`. `size` is the batch's size on disk in bytes; if it is 0, the model calculates
the size. `who` selects the broker that restarts if there are several: the leader of the first partition, or one of its
followers.
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
# f -> its arguments: name -> (kind of value, default; ... if there is none)
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
    """The name of an action, and its arguments."""

    f: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def arg(self, name: str) -> Any:
        """Returns the value of an argument, or the argument's default."""
        return self.args.get(name, ARGUMENTS[self.f][name][1])

    def text(self) -> str:
        return " ".join([self.f, *(f"{name}={as_json(value)}" for name, value in self.args.items())])


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action.

    error  the name of the error; empty if the action succeeded
    value  what a successful action returned, as plain data
    """

    error: str = ""
    value: Any = None


class LogUnderTest(Protocol):
    """A log to which actions can be applied: the model, with or without bugs, or a log of real brokers."""

    def apply(self, action: Action) -> Outcome:
        """Applies an action and returns its outcome.

        A position in the action must already be a number (see `resolve`).
        """

    def views(self) -> Sequence[View]:
        """Returns the state of each partition that a client can see."""


def as_json(value: Any) -> str:
    """Returns a value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).replace(" ", "\\u0020")


def position(at: int | str, view: View) -> int:
    """Converts a relative position, such as "hw-1", to an offset. `view` is the current state of the partition.

    Raises BadInput if the position is not valid.
    """
    if isinstance(at, int):
        return at
    if (share := SHARE.fullmatch(at)) is not None:
        return view.start + int(share[1]) * (view.end + 1 - view.start) // 100
    if (relative := RELATIVE.fullmatch(at)) is None:
        raise BadInput(
            f"position {at!r}: give a number, a share such as 37%, or start, local, second, hw, stable or end, "
            "with a number added if needed: hw-1"
        )
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
    """Returns a copy of the action in which a relative position is replaced by an offset.

    `views`: the current states of the partitions.
    """
    if "at" not in ARGUMENTS[action.f]:
        return action
    at = position(action.arg("at"), views[action.arg("partition")])
    return replace(action, args={**action.args, "at": at})
