"""Plain data of a connection, and what all connections of a proxy share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from harness.cluster.wire_proxy.rules import HeldFrame, Rules
from harness.protocol.request_head import Request


class Numbered(Protocol):
    """Anything with the number of a connection: `Shared` uses nothing else of a `Connection`."""

    number: int


class Sent(NamedTuple):
    """A request that waits for its response.

    repeated  whether this is the copy of a duplicated request; the response to the copy is discarded
    answer    the response that the proxy gives instead of the broker, once all earlier requests have been answered;
              empty if the broker answers
    swapped   whether the request was swapped with another one that is answered, too (see `swaps`)
    after     for a request that overtook another one: the correlation id of the other, whose response comes first
    """

    request: Request
    repeated: bool = False
    answer: bytes = b""
    swapped: bool = False
    after: int | None = None


@dataclass(frozen=True, slots=True)
class QueuedFrame:
    """A frame in the queue of one direction: either held by a rule, or waiting behind a held frame.

    data  the bytes to forward; empty if the proxy answers the request itself
    sent  the requests in `data`; empty for a response
    held  the hold of a rule; None if the frame only waits behind another
    cut   whether to close the client's connection once the frame has been forwarded
    """

    data: bytes
    sent: tuple[Sent, ...] = ()
    held: HeldFrame | None = None
    cut: bool = False

    @property
    def from_s(self) -> float:
        """The time after which the frame may be forwarded."""
        return self.held.until_s if self.held else 0.0


@dataclass(slots=True)
class Counters:
    """The counts of `harness.model.wire_rules.Traffic`, in mutable form."""

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

    at      function (time, call) that calls the function `call` at the given time (`time.monotonic`)
    free    function that forwards held frames, on any connection, once their rule no longer holds them
    closed  function that is called with each connection that has closed
    """

    rules: Rules
    counters: Counters
    at: Callable[[float, Callable[[], None]], None]
    free: Callable[[list[HeldFrame]], None]
    closed: Callable[[Numbered], None]
