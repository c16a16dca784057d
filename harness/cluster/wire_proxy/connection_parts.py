"""Plain data of connections, and what all connections of a proxy share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from harness.cluster.wire_proxy.rules import HeldFrame, Rules
from harness.protocol.request_head import Request


class Numbered(Protocol):
    """What a proxy needs of a connection: its number."""

    number: int


class Sent(NamedTuple):
    """A request that waits for its answer.

    repeated  it is the duplicate, whose answer is discarded
    answer    the answer that the proxy itself gives, once all earlier requests have been answered; empty: the broker's
    """

    request: Request
    repeated: bool = False
    answer: bytes = b""


@dataclass(frozen=True, slots=True)
class QueuedFrame:
    """A frame in the queue of one direction: held, or waiting behind a held frame.

    cut  close the sender's connection once the frame has been forwarded
    """

    data: bytes
    sent: tuple[Sent, ...] = ()
    held: HeldFrame | None = None
    cut: bool = False

    @property
    def from_s(self) -> float:
        """The time from which the frame may be forwarded."""
        return self.held.until_s if self.held else 0.0


@dataclass(slots=True)
class Counters:
    """Mutable counters of `harness.model.wire_rules.Traffic`."""

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
    """State that all connections of a proxy share.

    at      calls a function at a given time
    free    forwards released frames, whatever connections they are on
    closed  is called with a connection that has closed
    """

    rules: Rules
    counters: Counters
    at: Callable[[float, Callable[[], None]], None]
    free: Callable[[list[HeldFrame]], None]
    closed: Callable[[Numbered], None]
