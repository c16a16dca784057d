"""Requests that change the voters of the metadata quorum, and the responses to them."""

from __future__ import annotations

import struct

import pytest

from harness.protocol import quorum_voters
from harness.protocol.primitives import head

DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAQ"  # as Kafka writes a Uuid
RAW = bytes(15) + b"\x01"


def answer(code: int, message: bytes = b"\0") -> bytes:
    return struct.pack(">i", 1) + b"\0" + struct.pack(">ih", 0, code) + message + b"\0"


def test_the_requests_are_those_of_the_protocol() -> None:
    endpoint = b"\x02" + b"\x0bCONTROLLER" + b"\x0a10.64.1.1" + struct.pack(">H", 9093) + b"\0"
    expected = head(80, 0) + b"\0" + b"\0" + struct.pack(">ii", 5000, 7) + RAW + endpoint + b"\0"
    assert quorum_voters.add_request(7, DIRECTORY, "CONTROLLER", "10.64.1.1", 9093, 5.0) == expected
    assert (
        quorum_voters.remove_request(7, DIRECTORY) == head(81, 0) + b"\0" + b"\0" + struct.pack(">i", 7) + RAW + b"\0"
    )


def test_errors_have_a_name_and_a_message() -> None:
    assert quorum_voters.error(answer(0)) == ""
    assert quorum_voters.error(answer(7, b"\x05slow")) == "REQUEST_TIMED_OUT: slow"
    assert quorum_voters.error(answer(999)) == "error 999"
    with pytest.raises(ValueError, match="truncated"):
        quorum_voters.error(answer(7, b"\x05slow")[:12])
