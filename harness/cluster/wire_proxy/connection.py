"""One client's connection to one broker, through the proxy: two streams of frames under rules.

What is held holds up what follows it on its connection in the same direction, as a network does: a stream
keeps its order. When a client's connection is cut, or the client closes it while frames are held, the side to
the broker stays open until they have arrived and are answered: that is what makes a late request.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from harness.cluster.wire_proxy import rules
from harness.cluster.wire_proxy.connection_parts import Kept, Sent, Shared
from harness.cluster.wire_proxy.loop import WAITING_BYTES_MAX, Endpoint
from harness.cluster.wire_proxy.rules import Active, Held
from harness.cluster.wire_proxy.splitter import PASS, WHOLE, Splitter
from harness.model.wire_rules import CUT, DROP, DUPLICATE, NAMES
from harness.protocol import request_head
from harness.protocol.request_head import Request

# How long a broker may take to answer what arrived after its client had gone.
LINGER_S: Final = 10.0
_UNKNOWN: Final = Request(-1, 0, 0)


class Connection:
    """See the module's text. `start` gives it its two endpoints."""

    client: Endpoint
    broker: Endpoint

    def __init__(self, shared: Shared, number: int, node: str, sender: str) -> None:
        self._shared, self.number = shared, number
        self._node, self._sender = node, sender
        self._inflight: deque[Sent] = deque()
        self._to_broker: deque[Kept] = deque()
        self._to_client: deque[Kept] = deque()
        self._request_taken: tuple[Active | None, Sent] = (None, Sent(_UNKNOWN))  # of the frame being taken
        self._response_taken: tuple[Active | None, Sent] = (None, Sent(_UNKNOWN))
        self._deaf: Active | None = None  # because of it no request arrives any more
        self._mute: Active | None = None  # because of it no answer does
        self._lingers = False
        self._requests = Splitter(
            request_head.REQUEST_BYTES_MIN,
            request_head.REQUEST_BYTES_MAX,
            self._decide_request,
            self._forward,
            self._take_request,
            self._strange,
        )
        self._responses = Splitter(
            request_head.RESPONSE_BYTES_MIN,
            request_head.RESPONSE_BYTES_MAX,
            self._decide_response,
            self._back,
            self._take_response,
            self._strange,
        )

    def start(self, client: Endpoint, broker: Endpoint) -> None:
        self.client, self.broker = client, broker

    # --- what arrives ---------------------------------------------------------------------------------

    def from_client(self, data: bytes) -> None:
        if not data:
            return self._client_gone()
        self._shared.counted.bytes_in += len(data)
        if self._deaf is None:
            self._requests.feed(data)
            if self.broker.waiting > WAITING_BYTES_MAX or _bytes(self._to_broker) > WAITING_BYTES_MAX:
                self.client.listen(False)
        return None

    def from_broker(self, data: bytes) -> None:
        if not data:
            return self._broker_gone()
        self._shared.counted.bytes_in += len(data)
        if self._mute is None:
            self._responses.feed(data)
            if self.client.waiting > WAITING_BYTES_MAX or _bytes(self._to_client) > WAITING_BYTES_MAX:
                self.broker.listen(False)
        if self._lingers:
            self._finish()
        return None

    def client_drained(self) -> None:
        if not self._to_client:
            self.broker.listen(True)

    def broker_drained(self) -> None:
        if not self._to_broker and not self._lingers:
            self.client.listen(True)

    def _strange(self) -> None:
        """Not Kafka's protocol. Without requests there is nothing to match answers with."""
        self._shared.counted.unparsed += 1
        for kept in (*self._to_broker, *self._to_client):
            if kept.held:
                kept.held.until_s = 0.0
        self.pump()
        self._requests.give_up()
        self._responses.give_up()

    # --- requests -------------------------------------------------------------------------------------

    def _decide_request(self, head: bytes) -> int:
        if self._deaf:
            return WHOLE
        request = request_head.request(head)
        counted = self._shared.counted
        counted.requests += 1
        if request.api not in NAMES:
            counted.unknown += 1
        if not request.answered:
            counted.unanswered += 1
        actives = self._shared.rules.requests
        active = rules.first(actives, request, self._node, self._sender) if actives else None
        if active is None and not self._to_broker:
            self._passes(Sent(request))
            return PASS
        self._request_taken = active, Sent(request)
        return WHOLE

    def _passes(self, sent: Sent) -> None:
        """A request is on its way to the broker."""
        if sent.request.answered:
            self._inflight.append(sent)
        elif self._shared.rules.waiting:
            self._shared.free(self._shared.rules.freed_by(sent.request, self.number))

    def _forward(self, data: bytes | bytearray) -> None:
        self._shared.counted.bytes_out += len(data)
        self.broker.write(data)

    def _take_request(self, frame: bytes) -> None:
        if self._deaf:
            return
        active, sent = self._request_taken
        if active is None:
            self._queue(self._to_broker, Kept(frame, (sent,)))
        elif active.rule.action == DROP:
            self._deaf = active
        elif active.rule.action == CUT:
            self._queue(self._to_broker, Kept(frame, (sent,), cut=True))
        elif active.rule.action == DUPLICATE:
            self._queue(self._to_broker, Kept(frame + frame, (sent, sent._replace(again=True))))
        else:
            self._queue(self._to_broker, Kept(frame, (sent,), self._hold(active, sent)))
            if active.rule.cut:
                self._cut()

    def _hold(self, active: Active, sent: Sent) -> Held:
        held = self._shared.rules.hold(active, sent.request, time.monotonic(), self.number)
        self._shared.at(held.until_s, self.pump)
        return held

    # --- responses ------------------------------------------------------------------------------------

    def _decide_response(self, head: bytes) -> int:
        if self._mute:
            return WHOLE
        counted = self._shared.counted
        counted.responses += 1
        sent = self._answered(request_head.CORRELATION.unpack_from(head)[0])
        if sent is None:
            counted.unmatched += 1
            self._response_taken = None, Sent(_UNKNOWN)
            return WHOLE if self._to_client else PASS
        if self._shared.rules.waiting:
            self._shared.free(self._shared.rules.freed_by(sent.request, self.number))
        actives = self._shared.rules.responses
        active = None
        if actives and not sent.again:
            active = rules.first(actives, sent.request, self._node, self._sender)
        self._response_taken = active, sent
        return PASS if active is None and not sent.again and not self._to_client else WHOLE

    def _answered(self, correlation: int) -> Sent | None:
        """The request of an answer. They come in order, unless a request never arrived."""
        for at, sent in enumerate(self._inflight):
            if sent.request.correlation == correlation:
                del self._inflight[at]
                return sent
        return None

    def _back(self, data: bytes | bytearray) -> None:
        self._shared.counted.bytes_out += len(data)
        self.client.write(data)

    def _take_response(self, frame: bytes) -> None:
        active, sent = self._response_taken
        if self._mute or sent.again:
            return
        if active is None:
            self._queue(self._to_client, Kept(frame))
        elif active.rule.action == DROP:
            self._mute = active
        elif active.rule.action == CUT:
            self._cut()
        else:
            self._queue(self._to_client, Kept(frame, held=self._hold(active, sent)))

    # --- what is kept ---------------------------------------------------------------------------------

    def _queue(self, queue: deque[Kept], kept: Kept) -> None:
        queue.append(kept)
        if len(queue) == 1:
            self.pump()

    def pump(self) -> None:
        """Send what may go now, in order."""
        now_s = time.monotonic()
        while self._to_broker and self._to_broker[0].from_s <= now_s:
            kept = self._to_broker.popleft()
            for sent in kept.sent:
                self._passes(sent)
            self._let_go(kept, self.broker.open)
            self._forward(kept.data)
            if kept.cut:
                self._cut()
        while self._to_client and self._to_client[0].from_s <= now_s:
            kept = self._to_client.popleft()
            self._let_go(kept, self.client.open)
            self._back(kept.data)
        if not self._to_broker and not self._lingers and self.broker.waiting < WAITING_BYTES_MAX:
            self.client.listen(True)
        if not self._to_client and self.client.waiting < WAITING_BYTES_MAX:
            self.broker.listen(True)
        if self._lingers:
            self._finish()

    def _let_go(self, kept: Kept, arrived: bool) -> None:
        if kept.held is not None:
            self._shared.rules.let_go(kept.held, arrived)

    # --- ends -----------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """The client's connection is gone; what it has sent still arrives."""
        self.client.close()
        self._linger()

    def _client_gone(self) -> None:
        self.client.close()
        if self._to_broker:
            return self._linger()
        self.broker.end()
        return self._over()

    def _linger(self) -> None:
        if not self._lingers:
            self._lingers = True
            last_s = max((kept.from_s for kept in self._to_broker), default=0.0)
            self._shared.at(max(last_s, time.monotonic()) + LINGER_S, self.close)
            self._finish()

    def _finish(self) -> None:
        if not self._to_broker and not self._inflight and not self.broker.waiting:
            self.close()

    def _broker_gone(self) -> None:
        self.broker.close()
        self.client.end()
        self._over()

    def close(self) -> None:
        """Close both sides now, and give up what is kept. Safe to repeat."""
        self.client.close()
        self.broker.close()
        self._over()

    def _over(self) -> None:
        for queue in (self._to_broker, self._to_client):
            while queue:
                self._let_go(queue.popleft(), False)
        self._inflight.clear()
        self._shared.closed(self)

    def forget(self, actives: list[Active]) -> None:
        """These rules are gone: what they hold goes on; a connection that they have silenced is closed."""
        if self._deaf in actives or self._mute in actives:
            return self.close()
        mine = [kept.held for kept in (*self._to_broker, *self._to_client) if kept.held is not None]
        freed = [held for held in mine if held.active in actives]
        for held in freed:
            held.until_s = 0.0
        return self.pump() if freed else None


def _bytes(queue: deque[Kept]) -> int:
    return sum(len(kept.data) for kept in queue) if queue else 0
