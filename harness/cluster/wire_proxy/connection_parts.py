"""What connections are made of, and what they share: plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from harness.cluster.wire_proxy.rules import Held, Rules
from harness.protocol.request_head import Request


class Numbered(Protocol):
    """A connection, as far as its proxy has to know it."""

    number: int


class Sent(NamedTuple):
    """A request that waits for its answer; `again`: the second of a duplicated one, answered to nobody."""

    request: Request
    again: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A frame in the queue of a direction: held itself, or behind one that is.

    cut  its sender's connection is closed once it has gone
    """

    data: bytes
    sent: tuple[Sent, ...] = ()
    held: Held | None = None
    cut: bool = False

    @property
    def from_s(self) -> float:
        """When it may go."""
        return self.held.until_s if self.held else 0.0


@dataclass(slots=True)
class Counted:
    """See `Traffic`."""

    connections: int = 0
    requests: int = 0
    responses: int = 0
    unanswered: int = 0
    unmatched: int = 0
    unknown: int = 0
    unparsed: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a proxy have in common.

    free  lets held frames go, whatever connections they are on
    """

    rules: Rules
    counted: Counted
    at: Callable[[float, Callable[[], None]], None]
    free: Callable[[list[Held]], None]
    closed: Callable[[Numbered], None]
