"""Messages with descriptors, and the one Kafka request that is made by hand."""

from __future__ import annotations

import os
import socket
import struct
import threading

import pytest

from harness.cluster import json_messages
from harness.protocol import brokers_metadata_views


def test_descriptors_travel_with_their_message() -> None:
    ours, theirs = json_messages.pair()
    with ours, theirs:
        read, write = os.pipe()
        json_messages.send(ours, {"n": 1}, [write])
        json_messages.send(ours, {"n": 2})
        os.close(write)
        message, fds = json_messages.receive(theirs)
        assert message == {"n": 1} and len(fds) == 1
        assert not os.get_inheritable(fds[0])
        os.write(fds[0], b"through")
        os.close(fds[0])
        assert os.read(read, 100) == b"through"
        os.close(read)
        assert json_messages.receive(theirs) == ({"n": 2}, [])


def test_the_end_is_an_error_of_its_own() -> None:
    ours, theirs = json_messages.pair()
    with theirs:
        ours.close()
        with pytest.raises(json_messages.Closed):
            json_messages.receive(theirs)
        with pytest.raises(json_messages.Closed):
            json_messages.send(theirs, {})


def test_a_message_that_is_too_large_is_refused() -> None:
    ours, theirs = json_messages.pair()
    with ours, theirs, pytest.raises(ValueError, match="too large"):
        json_messages.send(ours, {"x": "x" * json_messages.MAX_BYTES})


def broker(node: int, host: bytes, rack: bytes | None = None) -> bytes:
    tail = struct.pack(">h", -1) if rack is None else struct.pack(">h", len(rack)) + rack
    return struct.pack(">ih", node, len(host)) + host + struct.pack(">i", 9092) + tail


# correlation, throttle, brokers, cluster id (null), controller, no topics
ANSWER = struct.pack(">iii", 0, 0, 3) + broker(1, b"h") + broker(3, b"", b"rack") + broker(2, b"host.name")
ANSWER += struct.pack(">hii", -1, 1, 0)


def test_registered_brokers_are_read_from_metadata() -> None:
    assert brokers_metadata_views.parse(ANSWER).brokers == {1, 2, 3}


def test_metadata_that_is_cut_short_is_an_error() -> None:
    with pytest.raises(ValueError, match="truncated"):
        brokers_metadata_views.parse(ANSWER[:30])


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_broker_is_asked_and_answers_in_pieces(pieces: int) -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as connection:
            request = connection.recv(4096)
            assert struct.unpack(">ihh", request[:8]) == (len(brokers_metadata_views.REQUEST), 3, 7)
            framed = struct.pack(">i", len(ANSWER)) + ANSWER
            for at in range(0, len(framed), pieces):
                connection.sendall(framed[at : at + pieces])

    thread = threading.Thread(target=serve)
    thread.start()
    address, port = server.getsockname()
    assert brokers_metadata_views.ask(socket.socket(), address, port, 5.0).brokers == {1, 2, 3}
    thread.join(5)


def test_a_broker_that_does_not_answer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(OSError):
        brokers_metadata_views.ask(socket.socket(), *silent.getsockname(), 0.2)
