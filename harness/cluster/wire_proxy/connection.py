"""One client's connection to one broker through the proxy: a stream of frames in each direction, subject to rules.

A held frame also delays all later frames in its direction, because a stream keeps its order. When a rule cuts the
client's connection, or the client disconnects while requests are held, the connection to the broker stays open until
the client's requests have been forwarded and answered, for at most `LINGER_S` seconds after the last one is due. So a
broker may receive a request after its client has disconnected.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from harness.cluster.wire_proxy import error_answers, rules
from harness.cluster.wire_proxy.connection_parts import QueuedFrame, Sent, Shared
from harness.cluster.wire_proxy.loop import WAITING_BYTES_MAX, Endpoint
from harness.cluster.wire_proxy.rules import ActiveRule, HeldFrame
from harness.cluster.wire_proxy.splitter import PASS, WHOLE, Splitter
from harness.cluster.wire_proxy.swaps import Swaps
from harness.model.wire_rules import ANSWER, CUT, DROP, DUPLICATE, NAMES, SWAP
from harness.protocol import request_head
from harness.protocol.request_head import Request

# How long to wait for the answers to requests that were forwarded after the client had disconnected.
LINGER_S: Final = 10.0
_UNKNOWN: Final = Request(-1, 0, 0)


class Connection:
    """A client's connection through the proxy. `start` sets its two endpoints: the client and the broker."""

    client: Endpoint
    broker: Endpoint

    def __init__(self, shared: Shared, number: int, node: str, sender: str) -> None:
        self._shared, self.number = shared, number
        self._node, self._sender = node, sender
        self._inflight: deque[Sent] = deque()
        self._to_broker: deque[QueuedFrame] = deque()
        self._to_client: deque[QueuedFrame] = deque()
        # The rule and the request of the frame that is being completed:
        self._request_taken: tuple[ActiveRule | None, Sent] = (None, Sent(_UNKNOWN))
        self._response_taken: tuple[ActiveRule | None, Sent] = (None, Sent(_UNKNOWN))
        self._drops_requests: ActiveRule | None = None  # the rule that drops all further requests
        self._drops_responses: ActiveRule | None = None  # the same for responses
        self._overdue: list[Sent] = []  # requests to answer before the response that is being completed
        self._lingers = False
        self._swaps = Swaps()
        self._requests = Splitter(
            request_head.REQUEST_BYTES_MIN,
            request_head.REQUEST_BYTES_MAX,
            self._decide_request,
            self._forward,
            self._take_request,
            self._not_kafka,
        )
        self._responses = Splitter(
            request_head.RESPONSE_BYTES_MIN,
            request_head.RESPONSE_BYTES_MAX,
            self._decide_response,
            self._back,
            self._take_response,
            self._not_kafka,
        )

    def start(self, client: Endpoint, broker: Endpoint) -> None:
        self.client, self.broker = client, broker

    # --- what arrives ---------------------------------------------------------------------------------

    def from_client(self, data: bytes) -> None:
        if not data:
            return self._client_closed()
        self._shared.counters.bytes_in += len(data)
        if self._drops_requests is None:
            self._requests.feed(data)
            if self.broker.waiting > WAITING_BYTES_MAX or _bytes(self._to_broker) > WAITING_BYTES_MAX:
                self.client.listen(False)
        return None

    def from_broker(self, data: bytes) -> None:
        if not data:
            return self._broker_closed()
        self._shared.counters.bytes_in += len(data)
        if self._drops_responses is None:
            self._responses.feed(data)
            self._answer_first()
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

    def _not_kafka(self) -> None:
        """Lets both streams pass unchanged from now on, because one of them is not Kafka's protocol.

        Rules no longer apply, because responses cannot be matched with requests.
        """
        self._shared.counters.unparsed += 1
        for queued in (*self._to_broker, *self._to_client):
            if queued.held:
                queued.held.until_s = 0.0
        self.pump()
        self._requests.give_up()
        self._responses.give_up()

    # --- requests -------------------------------------------------------------------------------------

    def _decide_request(self, head: bytes) -> int:
        if self._drops_requests:
            return WHOLE
        request = request_head.request(head)
        counters = self._shared.counters
        counters.requests += 1
        if request.api not in NAMES:
            counters.unknown += 1
        if not request.answered:
            counters.unanswered += 1
        actives = self._shared.rules.requests
        free = bool(actives) and not self._swaps.wanted
        active = rules.first(actives, request, self._node, self._sender) if free else None
        if active is None and not self._to_broker:
            self._passes(Sent(request))
            return PASS
        self._request_taken = active, Sent(request)
        return WHOLE

    def _passes(self, sent: Sent) -> None:
        """Records that a request is being forwarded to the broker."""
        if sent.request.answered:
            self._inflight.append(sent)
        elif self._shared.rules.waiting:
            self._shared.free(self._shared.rules.released_by(sent.request, self.number))

    def _forward(self, data: bytes | bytearray) -> None:
        self._shared.counters.bytes_out += len(data)
        self.broker.write(data)

    def _take_request(self, frame: bytes) -> None:
        if self._drops_requests:
            return
        active, sent = self._request_taken
        if self._swaps.wanted:
            self._swaps.overtake(self._to_broker, frame, sent)
            self.pump()
        elif active is None:
            self._queue(self._to_broker, QueuedFrame(frame, (sent,)))
        elif active.rule.action == ANSWER:
            self._queue(self._to_broker, self._refused(active, frame, sent))
        elif active.rule.action == DROP:
            self._drops_requests = active
        elif active.rule.action == CUT:
            self._queue(self._to_broker, QueuedFrame(frame, (sent,), cut=True))
        elif active.rule.action == DUPLICATE:
            self._queue(self._to_broker, QueuedFrame(frame + frame, (sent, sent._replace(repeated=True))))
        elif active.rule.action == SWAP:
            self._queue(self._to_broker, self._swaps.wait(QueuedFrame(frame, (sent,), self._hold(active, sent))))
        else:
            self._queue(self._to_broker, QueuedFrame(frame, (sent,), self._hold(active, sent)))
            if active.rule.cut:
                self._cut()

    def _refused(self, active: ActiveRule, frame: bytes, sent: Sent) -> QueuedFrame:
        """Returns what to queue for a request that the proxy answers itself: no bytes for the broker, and the answer.

        If the proxy cannot make an answer with the rule's error, returns the request, which then goes to the broker.
        """
        try:
            return QueuedFrame(b"", (sent._replace(answer=error_answers.refusal(frame, active.rule.error)),))
        except error_answers.NotPossibleError as why:
            active.not_applied(str(why))
            return QueuedFrame(frame, (sent,))

    def _hold(self, active: ActiveRule, sent: Sent) -> HeldFrame:
        held = self._shared.rules.hold(active, sent.request, time.monotonic(), self.number)
        self._shared.at(held.until_s, self.pump)
        return held

    # --- responses ------------------------------------------------------------------------------------

    def _decide_response(self, head: bytes) -> int:
        if self._drops_responses:
            return WHOLE
        counters = self._shared.counters
        counters.responses += 1
        own_answers, self._overdue = any(each.answer for each in self._inflight), []
        sent = self._answered(request_head.CORRELATION.unpack_from(head)[0])
        if sent is None:
            counters.unmatched += 1
            self._response_taken = None, Sent(_UNKNOWN)
            return WHOLE if self._to_client else PASS
        if self._shared.rules.waiting:
            self._shared.free(self._shared.rules.released_by(sent.request, self.number))
        actives = self._shared.rules.responses
        active = None
        if actives and not sent.repeated and not sent.swapped:
            active = rules.first(actives, sent.request, self._node, self._sender)
        self._response_taken = active, sent
        # The proxy's own answers come before or after a whole response.
        own = sent.repeated or sent.swapped or own_answers
        return PASS if active is None and not own and not self._to_client else WHOLE

    def _answered(self, correlation: int) -> Sent | None:
        """Returns the request that a broker's response with this correlation id answers; None if there is none.

        The broker responds in the order of the requests, unless a request was dropped. The requests before it that the
        proxy answers itself are moved to `_overdue`: their answers go to the client before this response.
        """
        for at, sent in enumerate(self._inflight):
            if sent.request.correlation == correlation and not sent.answer:
                del self._inflight[at]
                self._overdue = [self._inflight.popleft() for _ in range(at) if self._inflight[0].answer]
                return sent
        return None

    def _back(self, data: bytes | bytearray) -> None:
        self._shared.counters.bytes_out += len(data)
        self.client.write(data)

    def _take_response(self, frame: bytes) -> None:
        active, sent = self._response_taken
        if self._drops_responses or sent.repeated:
            return
        self._give(self._overdue)
        if active is None:
            for each in self._swaps.in_order(sent, frame):
                self._queue(self._to_client, QueuedFrame(each))
        elif active.rule.action == DROP:
            self._drops_responses = active
        elif active.rule.action == CUT:
            self._cut()
        elif active.rule.action == ANSWER:
            self._queue(self._to_client, QueuedFrame(self._failed(active, frame, sent)))
        else:
            self._queue(self._to_client, QueuedFrame(frame, held=self._hold(active, sent)))
        self._answer_first()

    def _failed(self, active: ActiveRule, frame: bytes, sent: Sent) -> bytes:
        try:
            return error_answers.failure(frame, sent.request, active.rule.error)
        except error_answers.NotPossibleError as why:
            active.not_applied(str(why))
            return frame

    def _answer_first(self) -> None:
        """Sends the proxy's own answers to the oldest requests; stops at the first request that the broker answers."""
        while self._inflight and self._inflight[0].answer and self._responses.between_frames:
            self._give([self._inflight.popleft()])

    def _give(self, answered: list[Sent]) -> None:
        for sent in answered:
            if self._shared.rules.waiting:
                self._shared.free(self._shared.rules.released_by(sent.request, self.number))
            self._queue(self._to_client, QueuedFrame(sent.answer))

    # --- queues ---------------------------------------------------------------------------------------

    def _queue(self, queue: deque[QueuedFrame], queued: QueuedFrame) -> None:
        queue.append(queued)
        if len(queue) == 1:
            self.pump()

    def pump(self) -> None:
        """Forwards all frames that are due, in order."""
        now_s = time.monotonic()
        while self._to_broker and self._to_broker[0].from_s <= now_s:
            queued = self._to_broker.popleft()
            for sent in queued.sent:
                self._passes(sent)
            self._release(queued, self.broker.open)
            self._forward(queued.data)
            if queued.cut:
                self._cut()
            self._answer_first()
        while self._to_client and self._to_client[0].from_s <= now_s:
            queued = self._to_client.popleft()
            self._release(queued, self.client.open)
            self._back(queued.data)
        if not self._to_broker and not self._lingers and self.broker.waiting < WAITING_BYTES_MAX:
            self.client.listen(True)
        if not self._to_client and self.client.waiting < WAITING_BYTES_MAX:
            self.broker.listen(True)
        if self._lingers:
            self._finish()

    def _release(self, queued: QueuedFrame, arrived: bool) -> None:
        if queued.held is not None:
            self._shared.rules.release(queued.held, arrived)

    # --- closing --------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Closes the client's connection. Requests that the client has sent are still forwarded."""
        self.client.close()
        self._linger()

    def _client_closed(self) -> None:
        self.client.close()
        if self._to_broker:
            return self._linger()
        self.broker.end()
        return self._discard_all()

    def _linger(self) -> None:
        if not self._lingers:
            self._lingers = True
            last_s = max((queued.from_s for queued in self._to_broker), default=0.0)
            self._shared.at(max(last_s, time.monotonic()) + LINGER_S, self.close)
            self._finish()

    def _finish(self) -> None:
        if not self._to_broker and not self._inflight and not self.broker.waiting:
            self.close()

    def _broker_closed(self) -> None:
        self.broker.close()
        self.client.end()
        self._discard_all()

    def close(self) -> None:
        """Closes both sides at once, and discards queued frames. May be called more than once."""
        self.client.close()
        self.broker.close()
        self._discard_all()

    def _discard_all(self) -> None:
        for queue in (self._to_broker, self._to_client):
            while queue:
                self._release(queue.popleft(), False)
        self._inflight.clear()
        self._shared.closed(self)

    def forget(self, actives: list[ActiveRule]) -> None:
        """Handles the removal of the rules `actives`: forwards the frames that they hold.

        If one of them drops all frames of this connection, closes the connection.
        """
        if self._drops_requests in actives or self._drops_responses in actives:
            return self.close()
        held_frames = [queued.held for queued in (*self._to_broker, *self._to_client) if queued.held is not None]
        released = [held for held in held_frames if held.active in actives]
        for held in released:
            held.until_s = 0.0
        return self.pump() if released else None


def _bytes(queue: deque[QueuedFrame]) -> int:
    return sum(len(queued.data) for queued in queue) if queue else 0
