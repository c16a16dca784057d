"""The proxy between real sockets: what arrives, in what order, and what is counted."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import orjson
import pytest

from harness.cluster.wire_proxy import error_answers
from harness.cluster.wire_proxy.proxy import Proxy
from harness.model.wire_rules import APIS, CLIENTS, Rule, RuleCounts, Traffic
from tests.unit.cluster.wire_proxy.speech import Broker, correlation, end_txn, exactly, fetch, framed, produce, read

PATIENCE_S = 5.0
error_answers.load()  # which may take longer than that on a busy machine
PRODUCE, FETCH, END = APIS["Produce"], APIS["Fetch"], APIS["EndTxn"]


@dataclass
class Place:
    """A proxy in front of a broker."""

    broker: Broker
    address: tuple[str, int]
    control: socket.socket
    thread: threading.Thread
    clients: list[socket.socket]

    def connect(self) -> socket.socket:
        sock = socket.create_connection(self.address, PATIENCE_S)
        self.clients.append(sock)
        return sock

    def ask(self, verb: str, **arguments: Any) -> Any:
        self.control.sendall(orjson.dumps({"id": 1, "do": verb, **arguments}) + b"\n")
        answer = orjson.loads(self.control.recv(1 << 20))
        assert "ok" in answer, answer
        return answer["ok"]

    def apply(self, *rules: Rule) -> None:
        self.ask("apply", name="r", rules=[asdict(rule) for rule in rules], seed=1)

    def counts(self, verb: str = "counts") -> list[RuleCounts]:
        return [RuleCounts(**each) for each in self.ask(verb, name="r")]

    def traffic(self) -> Traffic:
        return Traffic(**self.ask("traffic"))


def soon(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def place() -> Iterator[Place]:
    broker, proxy = Broker(), Proxy()
    listener = socket.create_server(("127.0.0.1", 0))
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    proxy.control(theirs)
    proxy.listen(listener, "n1", CLIENTS, broker.place)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    found = Place(broker, listener.getsockname(), ours, thread, [])
    yield found
    ours.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    for sock in (*found.clients, theirs, listener):
        sock.close()
    broker.close()


def test_all_bytes_pass_and_every_answer_has_its_request(place: Place) -> None:
    draw = random.Random(1)
    bodies = []
    for n in range(200):
        size = draw.choice([0, 10, 5000, 300_000 if n % 50 == 0 else 50])
        bodies.append(produce(n, draw.choice([-1, 0]), size=size) if n % 3 else fetch(n))
    client, stream = place.connect(), b"".join(map(framed, bodies))
    sender = threading.Thread(target=lambda: _in_pieces(client, stream, draw))
    sender.start()
    answered = [n for n, body in enumerate(bodies) if n % 3 == 0 or b"\xff\xff" in body[:40]]
    assert [correlation(read(client)) for _ in answered] == answered
    sender.join()
    assert soon(lambda: len(place.broker.requests) == len(bodies))
    assert place.broker.requests == bodies
    seen = place.traffic()
    assert (seen.requests, seen.responses, seen.unmatched) == (200, len(answered), 0)
    assert seen.unanswered == 200 - len(answered)
    assert seen.bytes_in == seen.bytes_out
    client.close()
    assert soon(lambda: place.traffic().open == 0)


def _in_pieces(client: socket.socket, stream: bytes, draw: random.Random) -> None:
    at = 0
    while at < len(stream):
        size = draw.choice([1, 3, 70, 1000, 100_000])
        client.sendall(stream[at : at + size])
        at += size


def test_a_slow_receiver_delays_its_sender_and_loses_nothing(place: Place) -> None:
    client = place.connect()
    body = produce(1, size=12_000_000)
    threading.Thread(target=client.sendall, args=(framed(body) * 3,), daemon=True).start()
    assert [correlation(read(client)) for _ in range(3)] == [1, 1, 1]
    assert place.broker.requests == [body] * 3


def test_a_delay_keeps_the_order_and_does_not_add_up(place: Place) -> None:
    place.apply(Rule("delay", ("Fetch",), for_s=0.8))
    client, began = place.connect(), time.monotonic()
    for n in range(5):
        client.sendall(framed(fetch(n)) + framed(produce(100 + n)))
    assert [correlation(read(client)) for _ in range(10)] == [0, 100, 1, 101, 2, 102, 3, 103, 4, 104]
    assert 0.8 <= time.monotonic() - began < 3.2  # five one after another would take 4
    assert place.counts() == [RuleCounts(5, 5, 5, 0)]


def test_a_late_end_arrives_in_the_next_transaction(place: Place) -> None:
    place.apply(Rule("hold", ("EndTxn",), until=("Produce",), until_by="producer", cut=True, in_turn=True))
    first = place.connect()
    first.sendall(framed(produce(1, txn="tx")))
    read(first)
    first.sendall(framed(end_txn(2, "tx", True)))
    assert first.recv(1) == b""  # cut
    again = place.connect()
    again.sendall(framed(end_txn(3, "tx", True)))
    assert correlation(read(again)) == 3
    assert place.broker.apis() == [PRODUCE, END]
    again.sendall(framed(produce(4, txn="other")))
    read(again)
    again.sendall(framed(produce(5, txn="tx")))
    read(again)
    assert soon(lambda: len(place.broker.requests) == 5)
    assert place.broker.requests[-1] == end_txn(2, "tx", True)
    assert place.counts() == [RuleCounts(2, 1, 1, 0)]
    assert soon(lambda: place.traffic().open == 1)


def test_what_a_client_left_behind_still_arrives(place: Place) -> None:
    place.apply(Rule("hold", ("EndTxn",), for_s=2.0))
    client = place.connect()
    client.sendall(framed(end_txn(2, "tx", True)))
    time.sleep(0.1)
    client.close()
    assert place.broker.requests == []
    assert soon(lambda: len(place.broker.requests) == 1)
    assert soon(lambda: place.traffic().open == 0)


def test_after_a_lost_answer_nothing_comes_back_and_what_is_sent_arrives(place: Place) -> None:
    place.apply(Rule("drop", ("Produce",), "response", count=1))
    client = place.connect()
    client.sendall(framed(fetch(1)) + framed(produce(2)) + framed(fetch(3)))
    assert correlation(read(client)) == 1
    assert soon(lambda: len(place.broker.requests) == 3)
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.recv(1)
    assert place.counts("clear") == [RuleCounts(1, 1)]
    client.settimeout(PATIENCE_S)
    assert client.recv(1) == b""  # healed: the client may reconnect
    assert place.counts() == []


def test_after_a_lost_request_nothing_arrives_and_what_was_sent_is_answered(place: Place) -> None:
    place.apply(Rule("drop", ("Produce",)))
    client = place.connect()
    client.sendall(framed(fetch(1)) + framed(produce(2)) + framed(fetch(3)) + framed(produce(4)))
    assert correlation(read(client)) == 1
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.recv(1)
    assert place.broker.apis() == [FETCH]
    assert place.counts() == [RuleCounts(1, 1)]


def test_a_cut_request_arrives_and_is_not_answered(place: Place) -> None:
    place.apply(Rule("cut", ("Produce",), count=1))
    client = place.connect()
    client.sendall(framed(produce(2)))
    assert client.recv(1) == b""
    assert soon(lambda: place.broker.apis() == [PRODUCE])
    assert soon(lambda: place.traffic().open == 0)


def test_a_duplicate_arrives_twice_and_is_answered_once(place: Place) -> None:
    place.apply(Rule("duplicate", ("Produce",), count=2))
    client = place.connect()
    client.sendall(framed(produce(2)) + framed(produce(3, acks=0)) + framed(fetch(4)))
    assert [correlation(read(client)) for _ in range(2)] == [2, 4]
    assert place.broker.apis() == [PRODUCE] * 4 + [FETCH]


def test_reordering_across_connections(place: Place) -> None:
    place.apply(Rule("reorder", ("Produce",), count=1))
    one, two = place.connect(), place.connect()
    one.sendall(framed(produce(1)))
    time.sleep(0.1)
    two.sendall(framed(produce(2)))
    assert correlation(read(two)) == 2
    assert correlation(read(one)) == 1
    assert [body[4:8] for body in place.broker.requests] == [b"\0\0\0\2", b"\0\0\0\1"]


def test_a_swap_reverses_two_requests_of_a_connection_and_not_their_responses(place: Place) -> None:
    place.apply(Rule("swap", ("Produce",), for_s=60, count=2))
    client = place.connect()
    client.sendall(framed(produce(1)) + framed(produce(2)) + framed(fetch(3)) + framed(produce(4)) + framed(fetch(5)))
    assert [correlation(read(client)) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert [correlation(body[4:8]) for body in place.broker.requests] == [2, 1, 3, 5, 4]
    assert place.counts() == [RuleCounts(2, 2, 2)]


def test_a_swap_of_requests_without_response(place: Place) -> None:
    place.apply(Rule("swap", ("Produce",), for_s=60))
    client = place.connect()
    client.sendall(framed(produce(1, acks=0)) + framed(fetch(2)) + framed(produce(3)) + framed(produce(4, acks=0)))
    assert [correlation(read(client)) for _ in range(2)] == [2, 3]
    assert [correlation(body[4:8]) for body in place.broker.requests] == [2, 1, 4, 3]


def test_a_request_that_no_other_follows_is_not_swapped(place: Place) -> None:
    place.apply(Rule("swap", ("Produce",), for_s=0.1))
    client = place.connect()
    for number in range(3):
        client.sendall(framed(produce(number)))
        assert correlation(read(client)) == number
    assert place.counts() == [RuleCounts(3, 0, 3)]


def test_clearing_lets_go_what_is_held(place: Place) -> None:
    place.apply(Rule("hold", for_s=60), Rule("hold", direction="response", for_s=60))
    client = place.connect()
    client.sendall(framed(fetch(1)))
    assert soon(lambda: place.counts()[0].applied == 1)
    assert place.broker.requests == []
    assert place.counts("clear")[0] == RuleCounts(1, 1, 1)
    assert correlation(read(client)) == 1


def test_what_is_not_kafka_passes_untouched_and_is_counted(place: Place) -> None:
    place.apply(Rule("drop"))
    hello = b"\x16\x03\x01\x02\x00" + os.urandom(50)
    place.broker.serve = lambda sock: sock.sendall(exactly(sock, len(hello)))
    client = place.connect()
    client.sendall(hello)
    assert exactly(client, len(hello)) == hello
    assert place.traffic().unparsed == 1


def test_a_dead_broker_closes_its_clients_and_loses_held_frames(place: Place) -> None:
    place.apply(Rule("hold", ("Produce",), for_s=60))
    client = place.connect()
    client.sendall(framed(fetch(1)))
    read(client)
    client.sendall(framed(produce(2)))
    assert soon(lambda: place.counts()[0].applied == 1)
    place.broker.close()
    assert client.recv(1) == b""
    assert place.counts() == [RuleCounts(1, 1, 0, 1)]
    refused = place.connect()
    assert refused.recv(1) == b""


def test_a_bad_order_is_answered_and_does_no_harm(place: Place) -> None:
    place.control.sendall(b'{"id": 7, "do": "explode"}\nnonsense\n')
    received = b""
    while received.count(b"\n") < 2:
        received += place.control.recv(1 << 16)
    assert [orjson.loads(line)["id"] for line in received.splitlines()] == [7, None]
    assert place.traffic().open == 0


def heartbeat(correlation: int) -> bytes:
    """A Heartbeat request of version 0, complete so that its answer can be made."""
    head = struct.pack(">hhih", APIS["Heartbeat"], 0, correlation, -1)
    return head + struct.pack(">h1s", 1, b"g") + struct.pack(">i", 5) + struct.pack(">h1s", 1, b"m")


def test_an_answer_of_the_proxy_keeps_its_place_among_those_of_the_broker(place: Place) -> None:
    """The broker's responses arrive late and in pieces; the requests that the proxy answers never reach the broker."""
    pieces = random.Random(3)

    def serve(sock: socket.socket) -> None:
        with suppress(EOFError, OSError):
            while True:
                body = read(sock)
                place.broker.requests.append(body)
                response = framed(struct.pack(">i", correlation(body[4:8])) + b"x" * 3000)
                for at in range(0, len(response), 1000):
                    sock.sendall(response[at : at + 1000])
                    time.sleep(pieces.random() / 200)

    place.broker.serve = serve
    place.apply(Rule("answer", ("Heartbeat",), error="REBALANCE_IN_PROGRESS"))
    client = place.connect()
    for n in range(60):
        client.sendall(framed(heartbeat(n) if n % 3 else fetch(n)))
    answers = [read(client) for _ in range(60)]
    assert [correlation(each) for each in answers] == list(range(60))
    for n, each in enumerate(answers):
        assert each[4:] == (struct.pack(">h", 27) if n % 3 else b"x" * 3000)
    assert place.broker.apis() == [FETCH] * 20
    assert place.counts() == [RuleCounts(40, 40, 0, 0)]


def test_a_response_is_changed_after_the_request_was_carried_out(place: Place) -> None:
    def serve(sock: socket.socket) -> None:
        with suppress(EOFError, OSError):
            while True:
                body = read(sock)
                place.broker.requests.append(body)
                sock.sendall(framed(struct.pack(">ih", correlation(body[4:8]), 0)))

    place.broker.serve = serve
    place.apply(Rule("answer", ("Heartbeat",), "response", error="NOT_COORDINATOR", count=1))
    client = place.connect()
    for n in range(3):
        client.sendall(framed(heartbeat(n)))
    assert [read(client)[4:] for _ in range(3)] == [struct.pack(">h", 16), b"\0\0", b"\0\0"]
    assert len(place.broker.requests) == 3


def test_a_request_that_cannot_be_answered_is_forwarded(place: Place) -> None:
    place.apply(Rule("answer", ("Produce",), error="NOT_ENOUGH_REPLICAS"))
    client = place.connect()
    client.sendall(framed(produce(1)))  # its records are not a list of topics
    assert correlation(read(client)) == 1
    assert place.counts() == [RuleCounts(1, 0, 0, 0)] and len(place.broker.requests) == 1
