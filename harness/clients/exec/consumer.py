"""A consumer in a client program: see `harness.clients.exec.adapter`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.clients.client_protocols import Batch, Rebalanced
from harness.clients.exec import answers, open_fields
from harness.clients.exec.answers import BadAnswer
from harness.clients.exec.process import ClientProcess
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError, TopicPartition

CLOSE_S: Final = 5.0
POLL_GRACE_S: Final = 5.0  # a rebalance within a poll waits for other members


class ExecConsumer:
    """`client_protocols.Consumer` over a client program."""

    def __init__(self, process: ClientProcess, made: Settings) -> None:
        self._process, self._timeout_s = process, made.patience_s
        self._subscribed = False
        self._rebalanced: Rebalanced = _ignore
        process.request("open", open_fields.consumer(made), self._timeout_s)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._process.request("assign", {"partitions": open_fields.positions(positions)}, self._timeout_s)

    def subscribe(self, topics: Sequence[str], rebalanced: Rebalanced) -> None:
        self._rebalanced, self._subscribed = rebalanced, True
        self._process.request("subscribe", {"topics": list(topics)}, self._timeout_s)

    def poll(self, timeout_s: float, records_max: int) -> Batch:
        fields = {"wait_ms": int(timeout_s * 1000), "records_max": records_max}
        limit_s = max(self._timeout_s, timeout_s + POLL_GRACE_S)
        ok = self._process.polling("poll", fields, limit_s, self._rebalance)
        try:
            batch = answers.batch(ok, records_max, self._process.library)
        except BadAnswer as why:
            raise self._process.broke_protocol(why) from None
        return replace(batch, errors=[self._process.without_secrets(each) for each in batch.errors])

    def _rebalance(self, message: dict[str, Any]) -> None:
        event, partitions, committed = answers.rebalance(message)
        self._rebalanced(event, partitions, committed)

    def seek(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self._process.request("seek", {"partitions": open_fields.positions(positions)}, timeout_s)

    def commit(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> None:
        self._process.request("commit_offsets", {"offsets": open_fields.positions(positions)}, timeout_s)

    def close(self, leave: bool) -> None:
        if self._process.ended:
            return
        if self._subscribed and not leave:
            self._process.kill()  # as a crash would end it
            return
        with contextlib.suppress(ClientError):
            self._close(leave, CLOSE_S)

    def leave(self, timeout_s: float) -> None:
        """Leaves the group, and closes the consumer. If this fails, kills the process and raises ClientError."""
        self._close(True, timeout_s)

    def _close(self, leave: bool, timeout_s: float) -> None:
        try:
            self._process.polling("close", {"role": "consumer", "leave": leave}, timeout_s, self._rebalance)
        except ClientError:
            self._process.kill()
            raise


def _ignore(event: str, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, int | None]) -> None:
    """Ignores rebalance events, for a consumer that is in no group."""
