"""Parsing of requests, and splitting of a stream into frames."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cluster.wire_proxy.splitter import PASS, WHOLE, Splitter
from harness.model.wire_rules import APIS
from harness.protocol import request_head
from tests.unit.cluster.wire_proxy.speech import end_txn, framed, header, produce, text


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 13])
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_produce(version: int, acks: int) -> None:
    found = request_head.request(produce(5, acks, "tx", version))
    assert found == (APIS["Produce"], version, 5, b"tx" if version >= 3 else b"", acks != 0, None)


@pytest.mark.parametrize("version", [0, 1, 3, 5])
@pytest.mark.parametrize("commit", [True, False])
def test_end_of_a_transaction(version: int, commit: bool) -> None:
    found = request_head.request(end_txn(6, "my-id", commit, version))
    assert found == (APIS["EndTxn"], version, 6, b"my-id", True, commit)


def test_a_request_without_a_client_or_a_transaction() -> None:
    body = header("Produce", 8, 1, None) + text(None, False) + struct.pack(">h", -1)
    assert request_head.request(body) == (APIS["Produce"], 8, 1, b"", True, None)
    body = header("AddPartitionsToTxn", 4, 1) + b"\2\3ab"  # a list: used by brokers
    assert request_head.request(body).txn == b""
    body = header("TxnOffsetCommit", 3, 1) + text("id", True)
    assert request_head.request(body).txn == b"id"


def test_tagged_fields_are_passed_over() -> None:
    start = struct.pack(">hhih", APIS["EndTxn"], 3, 1, -1) + b"\1\0\3abc"
    assert request_head.request(start + text("id", True) + struct.pack(">qhb", 1, 1, 1)).txn == b"id"


@given(st.binary(min_size=8, max_size=60))
def test_nonsense_raises_nothing(data: bytes) -> None:
    request_head.request(data)
    for api in (0, 22, 24, 26):
        request_head.request(struct.pack(">h", api) + data)


@given(
    sizes=st.lists(st.integers(8, 3000), max_size=12),
    whole=st.sets(st.integers(0, 11)),
    cuts=st.lists(st.integers(1, 2500), min_size=1, max_size=30),
)
def test_a_stream_in_any_pieces_comes_out_as_it_was(sizes: list[int], whole: set[int], cuts: list[int]) -> None:
    bodies = [struct.pack(">i", n) + bytes([65 + n]) * (size - 4) for n, size in enumerate(sizes)]
    stream = b"".join(map(framed, bodies))
    out, heads, taken = bytearray(), [], []

    def decide(head: bytes) -> int:
        heads.append(head)
        return WHOLE if len(heads) - 1 in whole else PASS

    def take(frame: bytes) -> None:
        taken.append(frame)
        out.extend(frame)

    splitter = Splitter(8, 1 << 20, decide, out.extend, take, pytest.fail)
    at = n = 0
    while at < len(stream):
        splitter.feed(stream[at : at + cuts[n % len(cuts)]])
        at += cuts[n % len(cuts)]
        n += 1
    assert bytes(out) == stream
    assert heads == [body[: request_head.HEAD_BYTES] for body in bodies]
    assert taken == [framed(body) for n, body in enumerate(bodies) if n in whole]


@given(st.binary(min_size=4, max_size=50).filter(lambda data: data[0] > 0x7F), st.integers(1, 50))
def test_bytes_that_are_not_a_frame_pass_unchanged_and_are_reported_once(strange: bytes, piece: int) -> None:
    calls: list[int] = []
    out = bytearray()
    stream = framed(b"a" * 20) + strange
    splitter = Splitter(8, 100, lambda head: PASS, out.extend, lambda frame: None, lambda: calls.append(1))
    for at in range(0, len(stream), piece):
        splitter.feed(stream[at : at + piece])
    splitter.feed(b"more")
    assert bytes(out) == stream + b"more"
    assert calls == [1]
    assert splitter.opaque
