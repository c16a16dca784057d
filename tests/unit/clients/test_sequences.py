"""Queries about sequence numbers, to a broker that remembers them and to one that has lost them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.clients.log_model import send_old_sequences
from harness.protocol import requests as wire
from harness.protocol.error_codes import ClientError


class Broker:
    """One partition's leader, as `Sequences` uses it."""

    def __init__(self, remembers: bool = True, refuses: bool = False) -> None:
        self.remembers, self.refuses = remembers, refuses
        self.known: list[int] = []
        self.end = 0

    def placed(self, topic: str) -> None:
        assert topic == "r-1"

    def at_leader(
        self,
        topic: str,
        partition: int,
        api: tuple[int, int],
        body: bytes,
        read: Any,
        code: Callable[[Any], int],
    ) -> tuple[int, ...]:
        if api == wire.INIT_PRODUCER_ID:
            return (7 if self.refuses else 0, 4000, 0)
        if api == wire.LIST_OFFSETS:
            return (0, self.end)
        sequence = int(body.rpartition(b"sequence ")[2].rstrip(b"\0"))
        if self.remembers and sequence in self.known:
            return (0, self.known.index(sequence))
        if self.remembers and sequence != len(self.known):
            return (45, -1)
        self.known.append(sequence)
        self.end += 1
        return (0, self.end - 1)


def _sequences(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> send_old_sequences.Sequences:
    monkeypatch.setattr(send_old_sequences, "Link", lambda bootstrap: broker)
    return send_old_sequences.Sequences("h:1", "r-1")


def test_a_broker_that_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = _sequences(Broker(), monkeypatch)
    assert batches.append() == [0, 1, 2]
    assert batches.again() == {"retry": [0, 2], "gap": 45, "end": 3}


def test_a_broker_that_has_forgotten_appends_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    batches = _sequences(broker, monkeypatch)
    batches.append()
    broker.remembers = False
    assert batches.again() == {"retry": [0, 3], "gap": 0, "end": 5}


def test_without_a_producer_id_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClientError, match="no producer id"):
        _sequences(Broker(refuses=True), monkeypatch).append()
