"""Swaps two successive requests of one connection, and puts their responses back in the order that the client expects.

A request that a rule swaps waits for the next request on its connection, of whatever API. This next request is then
forwarded first. The broker responds to the two in the order in which it received them. Clients match responses to
requests by their order, so the response to the request that overtook waits for the other response.
"""

from __future__ import annotations

from collections import deque

from harness.cluster.wire_proxy.connection_parts import QueuedFrame, Sent


class Swaps:
    """The swaps of one connection."""

    def __init__(self) -> None:
        self._waiting: QueuedFrame | None = None  # the request that waits for the next one
        self._early: dict[int, bytes] = {}  # responses that wait, by the correlation id of the request they wait for

    @property
    def wanted(self) -> bool:
        """Whether a request waits for the next one, which is then subject to no rule of its own."""
        held = self._waiting.held if self._waiting is not None else None
        return held is not None and not held.done

    def wait(self, queued: QueuedFrame) -> QueuedFrame:
        """Records that this request waits for the next one; returns it."""
        self._waiting = queued
        return queued

    def overtake(self, queue: deque[QueuedFrame], frame: bytes, sent: Sent) -> None:
        """Puts a request into the queue of requests before the one that waits, which waits no longer."""
        waiting, self._waiting = self._waiting, None
        assert waiting is not None and waiting.held is not None
        (behind,) = waiting.sent
        both = behind.request.answered and sent.request.answered
        at = next(at for at, queued in enumerate(queue) if queued is waiting)
        queue[at] = QueuedFrame(waiting.data, (behind._replace(swapped=both),), waiting.held)
        before = behind.request.correlation if both else None
        queue.insert(at, QueuedFrame(frame, (sent._replace(swapped=both, after=before),)))
        waiting.held.until_s, waiting.held.swapped = 0.0, True

    def in_order(self, sent: Sent, frame: bytes) -> list[bytes]:
        """Returns the responses to give to the client, in order, now that the broker has sent the response `frame`."""
        if sent.after is not None:
            self._early[sent.after] = frame
            return []
        early = self._early.pop(sent.request.correlation, None)
        return [frame] if early is None else [frame, early]
