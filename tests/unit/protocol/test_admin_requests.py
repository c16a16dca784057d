"""Requests made by hand: their bytes, and what is read from answers. And a stranger in the group."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest

from harness.clients.confluent import admin_changes
from harness.clients.extra_group_member import Storm
from harness.clients.settings import parse_settings
from harness.protocol import admin_requests, primitives
from harness.protocol.error_codes import ClientError
from tests.unit.clients.fake import FakeLibrary

# As the tables of the protocol guide spell it out: header, timeout, one topic of one partition, two replicas.
REASSIGN = bytes.fromhex(
    "002d 0000 00000001 0007 6861726e657373 00"  # 45, version 0, correlation 1, "harness", no tags
    "000003e8"  # 1,000 ms
    "02 02 74 02 00000005 03 00000002 00000001 00 00 00"
)
UNREGISTER = bytes.fromhex("0040 0000 00000001 0007 6861726e657373 00 00000004 00")


def answer(code: int, message: str, partitions: bytes = b"\x01") -> bytes:
    text = bytes([len(message) + 1]) + message.encode() if message else b"\0"
    return struct.pack(">i", 1) + b"\0" + struct.pack(">ih", 0, code) + text + partitions + b"\0"


def test_requests_are_those_of_the_protocol_guide() -> None:
    assert admin_requests.reassign_request({("t", 5): (2, 1)}, 1.0) == REASSIGN
    assert admin_requests.unregister_request(4) == UNREGISTER


def test_partitions_stand_under_their_topics() -> None:
    many = admin_requests.reassign_request({("a", 0): (1,), ("b", 0): (1,), ("a", 1): (2,)}, 1.0)
    tail = many[len(REASSIGN) - len(bytes.fromhex("02 02 74 02 00000005 03 00000002 00000001 00 00 00")) :]
    one, two = (bytes.fromhex(f"0000000{n}") for n in (1, 2))
    zero = bytes(4)
    assert tail == (
        b"\x03\x02a\x03" + zero + b"\x02" + one + b"\0" + one + b"\x02" + two + b"\0\0"
        b"\x02b\x02" + zero + b"\x02" + one + b"\0\0\0"
    )


@pytest.mark.parametrize(("number", "coded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02")])
def test_varints(number: int, coded: str) -> None:
    assert primitives.varint(number) == bytes.fromhex(coded)


def test_errors_of_answers() -> None:
    assert admin_requests.reassign_answer(answer(0, "")) == (0, "")
    assert admin_requests.reassign_answer(answer(41, "not me")) == (41, "not me")
    partition = b"\x02\x02t\x02" + struct.pack(">ih", 5, 39) + b"\x03no" + b"\0\0"
    assert admin_requests.reassign_answer(answer(0, "", partition)) == (39, "t-5: no")
    assert admin_requests.unregister_answer(answer(102, "gone")) == (102, "gone")
    for cut in (answer(0, "", partition)[:-6], b"", answer(3, "cut")[:13]):
        with pytest.raises(ValueError, match="truncated"):
            admin_requests.reassign_answer(cut)
    with pytest.raises(ValueError, match="truncated"):
        admin_requests.unregister_answer(b"\0\0")


class Broker:
    """Answers one request after another on a port of its own, with what it is given."""

    def __init__(self, *answers: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.taken: list[bytes] = []
        threading.Thread(target=self._serve, args=(answers,), daemon=True).start()

    def _serve(self, answers: tuple[bytes, ...]) -> None:
        for each in answers:
            connection, _ = self._listener.accept()
            with connection:
                (size,) = struct.unpack(">i", connection.recv(4))
                self.taken.append(connection.recv(size))
                connection.sendall(struct.pack(">i", len(each)) + each)


def test_the_wrong_controller_is_asked_again() -> None:
    broker = Broker(answer(41, ""), answer(0, ""))

    def cluster(timeout_s: float) -> dict[str, object]:
        return {"controller": 1, "brokers": {1: broker.address}}

    admin_changes.reassign(cluster, {("t", 5): (2, 1)}, 5.0)
    assert len(broker.taken) == 2
    assert broker.taken[0][:2] == REASSIGN[:2]


def test_a_refusal_is_told_by_its_name() -> None:
    broker = Broker(answer(39, "no such broker"))

    def cluster(timeout_s: float) -> dict[str, object]:
        return {"controller": None, "brokers": {1: broker.address}}

    with pytest.raises(ClientError, match="INVALID_REPLICA_ASSIGNMENT: no such broker"):
        admin_changes.reassign(cluster, {("t", 5): (9,)}, 5.0)
    with pytest.raises(ClientError, match="the metadata has no brokers"):
        admin_changes.unregister(lambda timeout_s: {"controller": 1, "brokers": {}}, 1, 0.1)


def _until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_stranger_joins_leaves_and_commits_nothing() -> None:
    library = FakeLibrary()
    made = parse_settings({"bootstrap": "nowhere", "run": "r", "auto_commit": True})
    storm = Storm(library, made, lambda: {"r-0": 5}, 0.01)
    _until(lambda: storm.joined >= 3)
    seen = storm.stop()
    assert int(str(seen["joined"])) >= 3 and seen["shared"] == seen["joined"], "4 of 5 were given to it"
    assert all(consumer.left for consumer in library.consumers)
    assert library.committed == {}
    assert not library.consumers[0]._made.auto_commit


def test_what_a_stranger_cannot_do_is_told() -> None:
    library = FakeLibrary()
    library.errors["subscribe"] = [ClientError("_FAIL", "no")] * 2
    storm = Storm(library, parse_settings({"bootstrap": "nowhere", "run": "r"}), lambda: {"r-0": 4}, 0.01)
    _until(lambda: storm.joined >= 1)
    seen = storm.stop()
    assert seen["errors"] == ["_FAIL: no", "_FAIL: no"]
    assert seen["shared"] == 0, "it was given all there is"
