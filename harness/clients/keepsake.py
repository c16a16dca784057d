"""What is left in a cluster before an upgrade, and must be there after it: records, a group's offset, a transaction.

The topic and the groups have names of their own, so that no client of the run meets them. The topic has one partition.

    records          VALUES, acknowledged before the upgrade
    a group          with the committed offset OFFSET
    a transaction    open since before the upgrade: a record, and the offset OFFSET of another group. It is committed at
                     the end under the producer id and epoch that began it (`open_transaction`)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from harness.clients.client_protocols import Admin, Library
from harness.clients.open_transaction import OpenTransaction
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError, TopicPartition

VALUES: Final = tuple(f"kept-{number}" for number in range(20))
IN_TRANSACTION: Final = "in-transaction"
OFFSET: Final = 7
READ_S: Final = 0.5
AGAIN_S: Final = 0.5


class Keepsake:
    """Leaves the keepsake and looks at it. Methods raise ClientError if the cluster gives no answer in time."""

    def __init__(self, library: Library, admin: Admin, settings: Settings) -> None:
        self._library, self._admin = library, admin
        self._settings = replace(settings.patient(), acks="all", idempotence=True, consumer_config={})
        self.topic = f"upgrade-{settings.run}"
        self.group, self.txn_group = f"{self.topic}-group", f"{self.topic}-txn-group"
        self._place: TopicPartition = (self.topic, 0)
        self._transaction = OpenTransaction(settings.bootstrap, self.topic, self.topic, self.txn_group)
        self._begun = False

    def leave(self, replication: int, config: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
        """Creates the topic, and leaves records, offset and open transaction. Returns what was left."""
        deadline = time.monotonic() + timeout_s
        self._admin.create_topics([self.topic], 1, replication, config, timeout_s)
        self._send(VALUES, deadline)
        consumer = self._library.consumer(replace(self._settings, group=self.group))
        try:
            _again(lambda left_s: consumer.commit({self._place: OFFSET}, left_s), deadline)
        finally:
            consumer.close(leave=False)
        self._transaction.begin(IN_TRANSACTION, OFFSET)
        self._begun = True
        return {"values": list(VALUES), "offsets": {self.group: OFFSET}, "in_transaction": IN_TRANSACTION}

    def _send(self, values: tuple[str, ...], deadline: float) -> None:
        producer = self._library.producer(replace(self._settings, txn=False))
        try:
            deliveries = [producer.send(self._place, value.encode()) for value in values]
            producer.wait(deliveries, _left(deadline))
            for delivery in deliveries:
                if delivery.error is not None:
                    raise delivery.error
        finally:
            producer.close()

    def look(self, timeout_s: float) -> dict[str, int | None]:
        """Returns group -> committed offset (None: none), for the group whose offset was committed at once."""
        return {self.group: self._committed(self.group, timeout_s)}

    def finish(self, timeout_s: float) -> dict[str, Any]:
        """Commits the transaction, then reads everything back. Returns what was found.

        values   the values in the log, as a read_committed consumer reads them from the beginning
        offsets  group -> committed offset, or None
        commit   "" if the commit was acknowledged, else the error; None if no transaction was open
        open_s   how long the transaction was open
        """
        deadline = time.monotonic() + timeout_s
        commit, open_s = None, self._transaction.open_s
        if self._begun:
            try:
                self._transaction.commit()
                commit = ""
            except ClientError as error:
                commit = str(error)
            finally:
                self._transaction.close()
        # Without a commit, the offset of the transaction's group stays pending, and no broker would tell it.
        groups = (self.group, self.txn_group) if commit == "" else (self.group,)
        offsets = {group: _again(partial(self._committed, group), deadline) for group in groups}
        return {"values": self._read(deadline), "offsets": offsets, "commit": commit, "open_s": round(open_s, 1)}

    def _committed(self, group: str, timeout_s: float) -> int | None:
        return self._admin.committed(group, [self._place], timeout_s)[self._place]

    def _read(self, deadline: float) -> list[str]:
        """Reads the log from its beginning to its end."""
        consumer = self._library.consumer(replace(self._settings, isolation_level="read_committed", group=self.group))
        values: list[str] = []
        try:
            consumer.assign({self._place: 0})
            while True:
                batch = consumer.poll(READ_S, 500)
                values += [(record.value or b"").decode(errors="replace") for record in batch.records]
                if self._place in batch.ends:
                    return values
                if time.monotonic() > deadline:
                    raise ClientError("_TIMED_OUT", f"{self.topic} was not read to its end")
        finally:
            consumer.close(leave=False)


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def _again(attempt: Callable[[float], Any], deadline: float) -> Any:
    """Calls `attempt(seconds left)` until it succeeds. Raises a definite error, and any error at the deadline."""
    while True:
        try:
            return attempt(_left(deadline))
        except ClientError as error:
            passing = error.kind == "retriable" or error.code in PASSING
            if not passing or time.monotonic() + AGAIN_S > deadline:
                raise
        time.sleep(AGAIN_S)


# Errors that pass by themselves: a coordinator moves or loads its state, or no broker answers for now.
PASSING: Final = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "REQUEST_TIMED_OUT",
        "UNSTABLE_OFFSET_COMMIT",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_TRANSPORT",
        "_WAIT_COORD",
    }
)
