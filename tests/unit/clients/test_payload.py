"""Payloads: what was written is read back, and nothing else is mistaken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clients import payload

I64 = st.integers(-(2**63), 2**63 - 1)


@given(run=st.text(max_size=60), key=I64, value=I64, index=I64, size=st.integers(0, 300))
def test_round_trip(run: str, key: int, value: int, index: int, size: int) -> None:
    body = payload.encode(run, key, value, index, size)
    assert len(body) >= size
    assert payload.decode(body, run, key) == value


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(at: int, bit: int) -> None:
    body = bytearray(payload.encode("run", 1, 2, 3, 50))
    body[at % len(body)] ^= 1 << bit
    assert isinstance(payload.decode(bytes(body), "run", 1), str)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "format"),
        (b"", "format"),
        (b"short", "format"),
        (b"XX" + payload.encode("run", 1, 2, 3)[2:], "format"),
        (payload.encode("run", 1, 2, 3)[:-1], "format"),
        (payload.encode("run", 1, 2, 3, 60)[:-1], "checksum"),
        (payload.encode("run", 1, 2, 3)[:-4] + b"0000", "checksum"),
        (payload.encode("other", 1, 2, 3), "run"),
        (payload.encode("run", 7, 2, 3), "key"),
    ],
)
def test_reasons(body: bytes | None, reason: str) -> None:
    found = payload.decode(body, "run", 1)
    assert found == f"bad-payload:{reason}:{(body or b'')[:16].hex()}"


def test_size() -> None:
    assert len(payload.encode("run", 1, 2, 3)) == 35
    assert len(payload.encode("run", 1, 2, 3, 1000)) == 1000


def test_a_run_id_must_fit() -> None:
    with pytest.raises(ValueError, match="256 bytes"):
        payload.encode("r" * 256, 1, 2, 3)


def test_the_key_that_a_payload_names() -> None:
    assert payload.key_of(payload.encode("run", 1103, 7, 9)) == 1103
    assert payload.key_of(b"short") is None and payload.key_of(None) is None
