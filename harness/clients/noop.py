"""A client without a cluster, for benchmarks: every op succeeds immediately, with made-up offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from harness.model.op import INFO, OK, Op


class NoopClient:
    """A client whose sends get consecutive offsets for each key, and whose polls return no records."""

    def __init__(self) -> None:
        self._next: defaultdict[int, int] = defaultdict(int)

    def invoke(self, op: Op) -> Op:
        if op.f == "crash":
            return op.with_(type=INFO)
        if op.f not in ("send", "poll", "txn"):
            return op.with_(type=OK)
        value: list[Any] = []
        for mop in op.value:
            if mop[0] == "send":
                key = mop[1]
                value.append(["send", key, [self._next[key], mop[2]]])
                self._next[key] += 1
            else:
                value.append(["poll", []])
        return op.with_(type=OK, value=value)

    def crash(self) -> None:
        """Does nothing: there is nothing to abandon."""

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


class NoopAdmin:
    """The admin role without a cluster."""

    def problem(self) -> str:
        return ""

    def create_topics(self, names: list[str], **_: Any) -> list[str]:
        return list(names)

    def leaders(self, **_: Any) -> list[Any]:
        return []

    def partitions(self, **_: Any) -> list[Any]:
        return []

    def controller(self, **_: Any) -> None:
        return None

    def brokers(self, **_: Any) -> list[Any]:
        return []

    def list_offsets(self, keys: list[int], **_: Any) -> list[list[int]]:
        return [[key, 0, 0] for key in keys]


def open_client(config: Mapping[str, Any]) -> NoopClient:
    return NoopClient()


def open_admin(config: Mapping[str, Any]) -> NoopAdmin:
    return NoopAdmin()
