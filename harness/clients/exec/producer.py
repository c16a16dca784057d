"""A producer in a client program: see `harness.clients.exec.adapter`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from harness.clients.client_protocols import Consumer, Delivery
from harness.clients.exec import answers, open_fields
from harness.clients.exec.process import ClientProcess
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError, TopicPartition

CLOSE_S = 2.0


class ExecProducer:
    """`client_protocols.Transactions` over a client program."""

    def __init__(self, process: ClientProcess, made: Settings) -> None:
        self._process, self._timeout_s = process, made.patience_s
        process.request("open", open_fields.producer(made), self._timeout_s)

    def send(self, partition: TopicPartition, payload: bytes, key: bytes | None = None) -> Delivery:
        delivery = Delivery()

        def answered(ok: dict[str, Any] | None, error: ClientError | None) -> None:
            if ok is not None:
                delivery.offset = answers.acknowledged_offset(ok)
            delivery.error, delivery.done = error, True

        fields = {
            "topic": partition[0],
            "partition": partition[1],
            "key": None if key is None else base64.b64encode(key).decode(),
            "value": base64.b64encode(payload).decode(),
        }
        self._process.post("send", fields, self._timeout_s, answered)
        return delivery

    def wait(self, deliveries: Sequence[Delivery], timeout_s: float) -> None:
        if not self._process.read_until(lambda: all(delivery.done for delivery in deliveries), timeout_s):
            raise ClientError("_TIMED_OUT", f"no answer to `send` in {timeout_s:.1f} s")

    def init(self, timeout_s: float) -> None:
        self._process.request("init_transactions", {}, timeout_s)

    def begin(self) -> None:
        self._process.request("begin", {}, self._timeout_s)

    def send_offsets(self, positions: Mapping[TopicPartition, int], consumer: Consumer, timeout_s: float) -> None:
        self._process.request("send_offsets", {"offsets": open_fields.positions(positions)}, timeout_s)

    def commit(self, timeout_s: float) -> None:
        self._process.request("commit", {}, timeout_s)

    def abort(self, timeout_s: float) -> None:
        self._process.request("abort", {}, timeout_s)

    def close(self) -> None:
        if self._process.ended:
            return
        try:
            self._process.request("close", {"role": "producer", "leave": False}, CLOSE_S)
        except ClientError:
            self._process.kill()
