"""A transaction that stays open for minutes, made of requests of its own.

No library takes part: librdkafka's producer, idle while brokers restarted one after another, never sent its EndTxn
request (2.16: its connection to the coordinator had `1 out-queue` until the end). The transaction consists of one
record in partition 0 of a topic, and of an offset of a group. Source: KIP-98.
"""

from __future__ import annotations

import time
from typing import Final

from harness.protocol import requests
from harness.protocol.connections_and_retries import Link
from harness.protocol.encode_batch import encode
from harness.protocol.error_codes import ClientError, name

OPEN_MAX_S: Final = 900.0  # the brokers' default of transaction.max.timeout.ms


class OpenTransaction:
    """The transaction of one transactional id. `begin` opens it, and `commit` ends it. Both raise ClientError."""

    def __init__(self, bootstrap: str, transactional_id: str, topic: str, group: str) -> None:
        self._link, self._id, self._topic, self._group = Link(bootstrap), transactional_id, topic, group
        self._producer, self._epoch = -1, -1
        self._began = 0.0

    @property
    def open_s(self) -> float:
        """How long ago the transaction began, in seconds."""
        return time.monotonic() - self._began

    def begin(self, value: str, offset: int) -> None:
        """Opens the transaction: sends a record, and commits an offset of partition 0 for the group."""
        request = requests.init_producer_id(self._id, int(OPEN_MAX_S * 1000))
        error, self._producer, self._epoch = self._link.at_coordinator(
            self._id, self._topic, requests.INIT_PRODUCER_ID, request, requests.initialised, _first
        )
        _require(error, "no producer id was assigned")
        self._began = time.monotonic()
        who = (self._id, self._producer, self._epoch)
        self._ask(requests.ADD_PARTITIONS, requests.add_partition(*who, self._topic, 0), "adding the partition")
        stamp = int(time.time() * 1000)
        batch = encode([(stamp, None, value)], "none", self._producer, self._epoch, 0, transactional=True)
        produce = requests.produce(self._topic, 0, batch, -1, self._id)
        error, _ = self._link.at_leader(self._topic, 0, requests.PRODUCE, produce, requests.produced, _first)
        _require(error, "the record was rejected")
        self._ask(requests.ADD_OFFSETS, requests.add_offsets(*who, self._group), "adding the group")
        request = requests.txn_offset_commit(*who, self._group, self._topic, 0, offset)
        error = self._link.at_coordinator(
            self._group, self._topic, requests.TXN_OFFSET_COMMIT, request, requests.added, int, of_group=True
        )
        _require(error, "the offset was rejected")

    def _ask(self, api: tuple[int, int], request: bytes, what: str) -> None:
        """Sends a request to the transaction's coordinator."""
        read = requests.added if api == requests.ADD_PARTITIONS else requests.ended
        _require(self._link.at_coordinator(self._id, self._topic, api, request, read, int), what)

    def commit(self) -> None:
        """Commits the transaction. Returns when the coordinator has acknowledged this."""
        request = requests.end_txn(self._id, self._producer, self._epoch, True)
        self._ask(requests.END_TXN, request, "the commit was rejected")

    def close(self) -> None:
        self._link.close()


def _first(found: tuple[int, ...]) -> int:
    return found[0]


def _require(error: int, what: str) -> None:
    """Raises ClientError if the error code is not 0."""
    if error:
        raise ClientError(name(error), what)
