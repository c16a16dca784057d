"""The client of the queue workload: ops and transactions on top of the protocols in `client_protocols`.

A QueueClient owns a producer and a consumer, each created when first needed. `invoke` takes an invocation and returns
its completion; it blocks for at most `Settings.patience_s`, which is less than the op's deadline.

How the steps of an op determine its outcome (for single steps see `error_outcomes.TABLE`):
- Without a transaction, micro-ops run in order until one fails. Each send waits for its delivery report
  (`pipelined`: consecutive sends wait together). If a step fails and any send of the op was acknowledged
  or is indeterminate, the op is `info`. Otherwise the row of the error decides.
- In a transaction, consecutive sends are sent together; their delivery reports are awaited before the next poll and
  before the commit. An error before the commit leads to an abort. Only an acknowledged abort makes the op `fail`. Once
  the commit has been requested, a retriable error leads to another attempt until the deadline, an abortable error leads
  to an abort, and any other error makes the op `info`.
- After `fail`, the consumer seeks back to its positions before the op. After `info` the client is broken: neither the
  state of its producer nor its positions are known, so a new process replaces its process. With `reuse_producers`, this
  process continues with the producer, whose sequence numbers must then be right although a send was given up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from harness.clients import payload
from harness.clients.client_protocols import Admin, Delivery, Keyed, Library, Transactions
from harness.clients.error_outcomes import Situation, describe, outcome
from harness.clients.log_ends import final_ends, key_facts
from harness.clients.reader import Reader
from harness.clients.settings import Settings, parse_settings
from harness.clients.table import opener
from harness.model.op import FAIL, INFO, OK, Op
from harness.model.record_keys import is_tombstone, record_key
from harness.protocol.error_codes import ClientError

ABORT_SHARE: Final = 0.25  # fraction of an op's time that is reserved for aborting
ADMIN_TIMEOUT_S: Final = 5.0
LEAST_S: Final = 1.0  # for an op after a slow `reopen`: the harness waits two seconds longer than `op_timeout_s`
ON_PURPOSE: Final = "aborted on purpose"


class Stopped(Exception):
    """A step of an op failed.

    situation  the kind of step, such as "report" for a delivery report
    """

    def __init__(self, situation: Situation, error: ClientError) -> None:
        super().__init__(str(error))
        self.situation, self.error = situation, error


class QueueClient:
    """The client of one process. Not thread-safe. After `info`, only `reopen`, `crash` and `close` may be called."""

    def __init__(self, settings: Settings, library: Library, ended: Callable[[], None] = lambda: None) -> None:
        """Opens nothing: the producer and the consumer are created when they are first needed.

        ended  is called after the producer and the consumer have been closed
        """
        self._settings, self._library, self._ended_with = settings, library, ended
        self._reader = Reader(settings, library)
        self._producer: Transactions | None = None
        self._admin: Admin | None = None
        self._committed: list[list[int | None]] = []  # consumer offsets that the op tried to commit
        self.broken = False
        self._patience_s = settings.patience_s
        self._reopened_s: float | None = None  # when `reopen` was called, until the next op
        self._handlers: Mapping[str, Callable[[Op, float], Op]] = {
            "send": self._micro_ops,
            "poll": self._micro_ops,
            "txn": self._micro_ops,
            "assign": self._assign,
            "subscribe": self._assign,
            "crash": self._crash,
            "debug-topic-partitions": self._debug,
        }

    def invoke(self, op: Op) -> Op:
        """Returns the completion of `op`: ok, fail or info, with the results in `value` and `extra`."""
        handler = self._handlers.get(op.f)
        if handler is None:
            return op.with_(type=FAIL, error=f"unknown: the queue client has no op {op.f!r}")
        if self.broken:
            return op.with_(type=FAIL, error="broken: an earlier op of this client was indeterminate; open a new one")
        self._reader.mark()
        self._committed = []
        deadline = self._deadline()
        done = handler(op, deadline)
        self.broken = self.broken or done.type == INFO
        return self._with_extra(done, deadline)

    def reopen(self, config: Mapping[str, Any]) -> bool:
        """Becomes the client of another process, with a new consumer and the same producer. Returns whether it did.

        Returns False, and changes nothing, without `reuse_producers`, with transactions, and if there is no producer.

        Closing the consumer may take seconds: it leaves its group. The next op has so much less time.

        config  the settings of the other process's client, as for `open_client`
        """
        settings = parse_settings(config)
        if not settings.reuse_producers or settings.txn or self._producer is None:
            return False
        self._reopened_s = time.monotonic()
        self._reader.close(leave=True)
        self._settings, self._reader = settings, Reader(settings, self._library)
        self.broken = False
        return True

    def crash(self) -> None:
        """Disappears like a killed process: does not commit, abort or leave the group."""
        self.broken = True
        self._drop_producer()
        self._reader.close(leave=False)
        self._ended_with()

    def close(self) -> None:
        """Closes the producer and the consumer, and leaves the group. Safe to repeat."""
        self.broken = True
        self._drop_producer()
        self._reader.close(leave=True)
        if self._admin is not None:
            self._admin.close()
            self._admin = None
        self._ended_with()

    def _deadline(self) -> float:
        """Returns when an op that begins now must have ended, on the monotonic clock."""
        now_s = time.monotonic()
        began_s, self._reopened_s = now_s if self._reopened_s is None else self._reopened_s, None
        return max(began_s + self._patience_s, now_s + min(LEAST_S, self._patience_s))

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _with_extra(self, op: Op, deadline: float) -> Op:
        extra: dict[str, Any] = {}
        rebalances = self._reader.rebalances()
        if rebalances:
            extra["rebalance_log"] = rebalances
        if self._committed:
            extra["committed"] = self._committed
        if op.type == OK and op.f == "poll" and op.extra.get("final"):
            extra |= final_ends(self._reader, self._settings, self._ask, lambda: _admin_s(deadline))
        if self._reader.notes:
            extra["notes"] = self._reader.notes
        return op.with_(extra={**op.extra, **extra}) if extra else op

    # --- ops without micro-ops ---

    def _assign(self, op: Op, deadline: float) -> Op:
        try:
            if op.f == "assign":
                self._reader.assign(op.value, bool(op.extra.get("seek_to_beginning")))
            else:
                self._reader.subscribe(op.value)
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("assign", error))
        return op.with_(type=OK)

    def _crash(self, op: Op, deadline: float) -> Op:
        self.crash()
        return op.with_(type=INFO)

    def _ask(self) -> Admin:
        if self._admin is None:
            self._admin = self._library.admin(self._settings)
        return self._admin

    def _debug(self, op: Op, deadline: float) -> Op:
        """Returns the op, completed with the leader, ISR, log start offset and high watermark of each of its keys."""
        try:
            value = key_facts(op.value, self._settings, self._ask(), lambda: _admin_s(deadline))
        except ClientError as error:
            return op.with_(type=FAIL, error=describe("admin", error))
        return op.with_(type=OK, value=value)

    # --- micro-ops ---

    def _micro_ops(self, op: Op, deadline: float) -> Op:
        value = list(op.value)
        if self._settings.txn:
            # Polls alone, of assigned partitions, need no transaction: there is nothing to commit.
            sends = any(mop[0] == "send" for mop in value)
            if sends or self._reader.subscribed or op.extra.get("abort"):
                return self._transaction(op, value, deadline)
        if op.extra.get("patient"):
            return self._patiently(op, value, deadline)
        return self._one_by_one(op, value, deadline)

    def _patiently(self, op: Op, value: list[Any], deadline: float) -> Op:
        """Runs the op with a temporary producer, whose timeouts are as long as the op may take."""
        own, self._producer = self._producer, self._library.producer(self._settings.patient())
        try:
            return self._one_by_one(op, value, deadline)
        finally:
            self._drop_producer()
            self._producer = own

    def _one_by_one(self, op: Op, value: list[Any], deadline: float) -> Op:
        sent: list[Delivery] = []
        open_: list[tuple[int, Delivery]] = []
        try:
            for at, mop in enumerate(op.value):
                if mop[0] == "send":
                    sent.append(self._send(op, mop))
                    open_.append((at, sent[-1]))
                    if self._settings.pipelined:
                        continue
                self._settle(open_, value, deadline)
                open_ = []
                if mop[0] != "send":
                    value[at] = self._poll(deadline)
            self._settle(open_, value, deadline)
            if self._reader.subscribed and not self._settings.auto_commit:
                self._committed = self._reader.committing()
                self._step("commit-offsets", lambda: self._reader.commit(_left(deadline)))
        except Stopped as stopped:
            outcome_of_error = outcome(stopped.situation, stopped.error, self._settings.retries_off)
            ended = INFO if any(self._may_be_appended(delivery) for delivery in sent) else outcome_of_error
            if stopped.error.kind == "fatal" and stopped.situation in ("send", "report"):
                self._drop_producer()
            return self._ended(op, value, ended, describe(stopped.situation, stopped.error), deadline)
        return op.with_(type=OK, value=value)

    def _may_be_appended(self, delivery: Delivery) -> bool:
        """Returns whether the record of a send may be in the log.

        It may be there, unless the send failed with an error that proves the contrary.
        """
        if delivery.error is None:
            return True
        return outcome("report", delivery.error, self._settings.retries_off) != FAIL

    def _ended(self, op: Op, value: list[Any], ended: str, error: str, deadline: float) -> Op:
        if ended == FAIL and self._settings.rewind:
            self._reader.rewind(max(1.0, _left(deadline)))
        return op.with_(type=ended, value=value, error=error)

    def _step(self, situation: Situation, call: Callable[[], None]) -> None:
        try:
            call()
        except ClientError as error:
            raise Stopped(situation, error) from None

    def _send(self, op: Op, mop: list[Any]) -> Delivery:
        settings, (_, key, value) = self._settings, mop
        if self._producer is None:
            self._producer = self._library.producer(settings)
        body = payload.encode(settings.run, key, value, op.index, settings.record_size)
        partition = settings.partition(key)
        try:
            if settings.record_keys:
                assert isinstance(self._producer, Keyed)
                of = record_key(value, settings.record_keys)
                return self._producer.send_keyed(partition, of, body, is_tombstone(value))
            return self._producer.send(partition, body)
        except ClientError as error:
            raise Stopped("send", error) from None

    def _settle(self, sent: list[tuple[int, Delivery]], value: list[Any], deadline: float) -> None:
        """Waits for the delivery reports of some sends. Raises Stopped with the first error.

        sent   (index of the send in `value`, its delivery) for each send
        value  the micro-ops of the op; the offsets of acknowledged sends are written into it
        """
        if not sent or self._producer is None:
            return
        late: ClientError | None = None
        try:
            self._producer.wait([delivery for _, delivery in sent], _left(deadline))
        except ClientError as error:
            late = error
        for at, delivery in sent:
            if delivery.acknowledged:
                value[at] = ["send", value[at][1], [delivery.offset, value[at][2]]]
        first = next((delivery.error for _, delivery in sent if delivery.error is not None), late)
        if first is not None:
            raise Stopped("report", first)

    def _poll(self, deadline: float) -> list[Any]:
        try:
            return ["poll", self._reader.poll(min(self._settings.poll_ms / 1000, _left(deadline)))]
        except ClientError as error:
            raise Stopped("poll", error) from None

    # --- transactions ---

    def _transaction(self, op: Op, value: list[Any], deadline: float) -> Op:
        soft = deadline - ABORT_SHARE * self._patience_s
        try:
            self._begin(soft)
        except Stopped as stopped:
            # Fenced, or the coordinator cannot be reached. The next transaction uses a new producer.
            self._drop_producer()
            return self._ended(op, value, FAIL, describe(stopped.situation, stopped.error), deadline)
        try:
            self._body(op, value, soft)
        except Stopped as stopped:
            return self._abort(op, value, describe(stopped.situation, stopped.error), deadline)
        if op.extra.get("abort"):
            return self._abort(op, value, ON_PURPOSE, deadline)
        producer = self._producer
        assert producer is not None
        try:
            _retried(producer.commit, deadline)
        except ClientError as error:
            why = describe("commit", error)
            if error.kind == "abortable":
                return self._abort(op, value, why, deadline)
            return op.with_(type=INFO, value=value, error=why)
        return op.with_(type=OK, value=value)

    def _begin(self, deadline: float) -> None:
        if self._producer is None:
            producer = self._library.producer(self._settings)
            self._producer = producer
            self._step("init", lambda: _retried(producer.init, deadline))
        self._step("begin", self._producer.begin)

    def _body(self, op: Op, value: list[Any], deadline: float) -> None:
        """Runs the micro-ops of a transaction, then adds the consumer's offsets to the transaction."""
        sent: list[tuple[int, Delivery]] = []
        for at, mop in enumerate(op.value):
            if mop[0] == "send":
                sent.append((at, self._send(op, mop)))
            else:
                self._settle(sent, value, deadline)
                sent = []
                value[at] = self._poll(deadline)
        self._settle(sent, value, deadline)
        moved = self._reader.moved() if self._reader.subscribed else {}
        if moved and not op.extra.get("abort"):
            producer = self._producer
            assert producer is not None
            consumer = self._reader.consumer
            self._committed = self._reader.committing()
            self._step(
                "send-offsets",
                lambda: _retried(lambda left_s: producer.send_offsets(moved, consumer, left_s), deadline),
            )

    def _abort(self, op: Op, value: list[Any], why: str, deadline: float) -> Op:
        """Aborts the transaction, for the reason `why`.

        Returns the op, as `fail` if the abort is acknowledged, otherwise as `info`.
        """
        producer = self._producer
        assert producer is not None
        try:
            _retried(producer.abort, deadline)
        except ClientError as error:
            return op.with_(type=INFO, value=value, error=f"{why}; {describe('abort', error)}")
        return self._ended(op, value, FAIL, why, deadline)


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _admin_s(deadline: float) -> float:
    """Returns the timeout of an admin request. It is never 0, because a request with timeout 0 would not be sent."""
    return min(ADMIN_TIMEOUT_S, max(0.1, _left(deadline)))


def _retried(call: Callable[[float], None], deadline: float) -> None:
    """Calls `call(seconds left)`. Repeats the call after retriable errors until the deadline."""
    while True:
        try:
            call(_left(deadline))
            return
        except ClientError as error:
            # Prevents a busy loop if the call fails at once. 10 ms is librdkafka's own pause between tries.
            if error.kind != "retriable" or _left(deadline) <= 0.1:
                raise
            time.sleep(0.01)


def open_client(config: Mapping[str, Any]) -> Any:
    """Opens the client of one process for the library `config["library"]` (by default confluent).

    config  the client's settings as plain JSON data: see `settings.Settings`
    """
    return opener(str(config.get("library", "confluent")))(config)
