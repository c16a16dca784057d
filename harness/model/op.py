"""The operation (op): one event of a history.

An op is invoked by a process and completes as `ok` (it happened), `fail` (it certainly did not happen), or
`info` (indeterminate). Micro-ops are plain lists:

    ["send", key, value]                completes as  ["send", key, [offset, value]]
                                        or ["send", key, [None, value]] if acknowledged without an offset
    ["poll"]                            completes as  ["poll", [[key, [[offset, value], ...]], ...]]

The value of a `send`, `poll` or `txn` op is a list of micro-ops; the value of an `assign` or `subscribe` op is a list
of keys. Faults are ops of type `info`, of the process "nemesis".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

Process = int | str

NEMESIS: Final = "nemesis"
KEEP: Final = object()
EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})

INVOKE: Final = "invoke"
OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"
TYPES: Final = (INVOKE, OK, FAIL, INFO)

# The errors of ops that the harness completes itself, because the client's process did not.
DEADLINE_EXCEEDED: Final = "op deadline exceeded"
PROCESS_ENDED: Final = "client process ended"
UNANSWERED: Final = (DEADLINE_EXCEEDED, PROCESS_ENDED)


@dataclass(frozen=True, slots=True)
class Op:
    """One event of a history.

    index    position in the history, from 0, without gaps; -1 in an op that has not been recorded yet
    time_ns  nanoseconds since the start of the run, monotonic; -1 in an op that has not been recorded yet
    process  the logical process, or "nemesis"
    type     invoke | ok | fail | info
    f        what the op does: send, poll, txn, assign, subscribe, crash, ..., or a fault's verb
    value    a list of micro-ops for send, poll and txn; a list of keys for assign and subscribe
    error    why the op is not ok: a short string, or [code, text]
    extra    further fields: `rebalance_log`, `seek_to_beginning`, `final`, `positions`, ...
    """

    index: int
    time_ns: int
    process: Process
    type: str
    f: str
    value: Any
    error: Any = None
    extra: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def with_(
        self,
        index: int | None = None,
        time_ns: int | None = None,
        process: Process | None = None,
        type: str | None = None,
        f: str | None = None,
        value: Any = KEEP,
        error: Any = KEEP,
        extra: Mapping[str, Any] | None = None,
    ) -> Op:
        """Returns a copy in which some fields are replaced (five times as fast as `dataclasses.replace`)."""
        return Op(
            self.index if index is None else index,
            self.time_ns if time_ns is None else time_ns,
            self.process if process is None else process,
            self.type if type is None else type,
            self.f if f is None else f,
            self.value if value is KEEP else value,
            self.error if error is KEEP else error,
            self.extra if extra is None else extra,
        )


def invoke(f: str, value: Any, process: Process = -1, extra: Mapping[str, Any] = EMPTY) -> Op:
    """Returns an invocation for a generator to emit.

    When the op is recorded, its index and time are set, and also its process if that is -1.
    """
    return Op(-1, -1, process, INVOKE, f, value, None, extra)


def sends(op: Op) -> list[tuple[Any, int | None, Any]]:
    """Returns (key, offset or None, value) for each send in an invocation or completion."""
    found: list[tuple[Any, int | None, Any]] = []
    if not isinstance(op.value, list):
        return found
    for mop in op.value:
        if isinstance(mop, list) and len(mop) == 3 and mop[0] == "send":
            if isinstance(mop[2], list):
                found.append((mop[1], mop[2][0], mop[2][1]))
            else:
                found.append((mop[1], None, mop[2]))
    return found


def polls(op: Op) -> list[tuple[Any, int, Any]]:
    """Returns (key, offset, value) for each record that a completed op polled, in the order of polling."""
    found: list[tuple[Any, int, Any]] = []
    if not isinstance(op.value, list):
        return found
    for mop in op.value:
        if isinstance(mop, list) and len(mop) == 2 and mop[0] == "poll":
            for key, pairs in mop[1]:
                found.extend((key, offset, value) for offset, value in pairs)
    return found
