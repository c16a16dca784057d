"""A client program over confluent-kafka, honest or with one deliberate mistake: `line_client.py [MISTAKE]`.

The protocol is described in docs/use/your-own-client.md. A mistake overrides one method of `Client`.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

CAPABILITIES = ["produce", "consume", "idempotence", "transactions", "groups", "groups-consumer", "send-offsets"]
LOGICAL = {
    "earliest": confluent_kafka.OFFSET_BEGINNING,
    "latest": confluent_kafka.OFFSET_END,
    "committed": confluent_kafka.OFFSET_STORED,
}
Request = dict[str, Any]


def error_of(error: KafkaError) -> dict[str, Any]:
    kinds = {"fatal": error.fatal(), "abortable": error.txn_requires_abort(), "retriable": error.retriable()}
    kind = next((name for name, holds in kinds.items() if holds), None)
    return {"code": error.name(), "text": error.str(), **({"kind": kind} if kind else {})}


def partitions_of(request: Request, name: str) -> list[TopicPartition]:
    return [
        TopicPartition(each["topic"], each["partition"], LOGICAL.get(each["offset"], each["offset"]))
        for each in request[name]
    ]


def named(partitions: list[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": each.topic, "partition": each.partition} for each in partitions]


class Client:
    library = "confluent-kafka"

    def __init__(self) -> None:
        self.producer: Any = None
        self.consumer: Any = None
        self.polling: int | None = None
        self.unanswered = 0
        self.line = b""

    # --- lines ---

    def write(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def request(self) -> Request:
        """The next request; delivery reports are served while there is none."""
        while b"\n" not in self.line:
            if self.unanswered:
                self.producer.poll(0.002)
            os.set_blocking(0, not self.unanswered)
            try:
                data = os.read(0, 1 << 16)
            except BlockingIOError:
                continue
            if not data:
                os._exit(0)
            self.line += data
        first, _, self.line = self.line.partition(b"\n")
        request: Request = json.loads(first)
        return request

    def serve(self) -> None:
        """Up to the end of the input, or up to `continue`."""
        while (request := self.request())["do"] != "continue":
            try:
                answer = getattr(self, request["do"])(request)
            except KafkaException as raised:
                self.write({"id": request["id"], "error": error_of(raised.args[0])})
            else:
                if answer is not None:
                    self.write({"id": request["id"], "ok": answer})

    # --- requests ---

    def hello(self, request: Request) -> dict[str, Any]:
        version = confluent_kafka.version()
        text = version if isinstance(version, str) else version[0]
        return {"protocol": 1, "library": self.library, "version": text, "capabilities": CAPABILITIES}

    def open(self, request: Request) -> dict[str, Any]:
        config = {
            "bootstrap.servers": request["bootstrap"],
            "client.id": request["client_id"],
            **request["security"],
        }
        if request["role"] == "producer":
            config |= {
                "acks": request["acks"],
                "enable.idempotence": request["idempotence"],
                "delivery.timeout.ms": request["delivery_timeout_ms"],
                "request.timeout.ms": request["request_timeout_ms"],
                "linger.ms": 0,
            }
            if request["retries"] is not None:
                config["retries"] = request["retries"]
            if request["transactional_id"]:
                config["transactional.id"] = request["transactional_id"]
                config["transaction.timeout.ms"] = request["transaction_timeout_ms"]
            self.producer = Producer(config | request["properties"])
            return {}
        config |= {
            "group.id": request["group"],
            "group.protocol": request["group_protocol"],
            "isolation.level": request["isolation_level"],
            "auto.offset.reset": request["auto_offset_reset"],
            "enable.auto.commit": request["auto_commit"],
            "fetch.wait.max.ms": 100,
        }
        if request["group_protocol"] == "classic":
            config["session.timeout.ms"] = request["session_timeout_ms"]
            if request["assignor"]:
                config["partition.assignment.strategy"] = request["assignor"]
        self.consumer = Consumer(config | request["properties"])
        return {}

    def send(self, request: Request) -> None:
        self.unanswered += 1
        self.producer.produce(
            request["topic"],
            partition=request["partition"],
            value=None if request["value"] is None else base64.b64decode(request["value"]),
            on_delivery=lambda error, message: self.delivered(request, error, message),
        )

    def delivered(self, request: Request, error: KafkaError | None, message: Any) -> None:
        self.unanswered -= 1
        if error is not None:
            self.write({"id": request["id"], "error": error_of(error)})
        else:
            offset = message.offset()
            self.write({"id": request["id"], "ok": {"offset": offset if offset >= 0 else None}})

    def flush(self, request: Request) -> dict[str, Any]:
        self.producer.flush(request["timeout_ms"] / 1000)
        return {}

    def init_transactions(self, request: Request) -> dict[str, Any]:
        self.producer.init_transactions(request["timeout_ms"] / 1000)
        return {}

    def begin(self, request: Request) -> dict[str, Any]:
        self.producer.begin_transaction()
        return {}

    def commit(self, request: Request) -> dict[str, Any]:
        self.producer.commit_transaction(request["timeout_ms"] / 1000)
        return {}

    def abort(self, request: Request) -> dict[str, Any]:
        self.producer.abort_transaction(request["timeout_ms"] / 1000)
        return {}

    def send_offsets(self, request: Request) -> dict[str, Any]:
        offsets, group = partitions_of(request, "offsets"), self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction(offsets, group, request["timeout_ms"] / 1000)
        return {}

    def assign(self, request: Request) -> dict[str, Any]:
        self.consumer.assign(partitions_of(request, "partitions"))
        return {}

    def seek(self, request: Request) -> dict[str, Any]:
        for each in partitions_of(request, "partitions"):
            self.consumer.seek(each)
        return {}

    def subscribe(self, request: Request) -> dict[str, Any]:
        def told(event: str) -> Callable[[Any, list[TopicPartition]], None]:
            return lambda consumer, partitions: self.rebalance(event, partitions)

        self.consumer.subscribe(
            request["topics"], on_assign=told("assigned"), on_revoke=told("revoked"), on_lost=told("lost")
        )
        return {}

    def rebalance(self, event: str, partitions: list[TopicPartition]) -> None:
        if self.polling is None or not partitions:
            return
        message: dict[str, Any] = {"id": self.polling, "event": event, "partitions": named(partitions)}
        if event == "assigned":
            committed = self.consumer.committed(partitions, timeout=1.0)
            offsets = [each.offset if each.offset >= 0 else None for each in committed]
            pairs = zip(named(committed), offsets, strict=True)
            message["committed"] = [{**partition, "offset": offset} for partition, offset in pairs]
        self.write(message)
        self.serve()

    def poll(self, request: Request) -> dict[str, Any]:
        self.polling = request["id"]
        first = self.consumer.poll(request["wait_ms"] / 1000)
        more = self.consumer.consume(request["records_max"] - 1, 0) if first is not None else []
        self.polling = None
        records = [self.record(each) for each in [first, *more] if each is not None and each.error() is None]
        return {"records": records, **({} if records else self.positions(request))}

    def record(self, message: Any) -> dict[str, Any]:
        value = message.value()
        return {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "value": None if value is None else base64.b64encode(value).decode(),
        }

    def positions(self, request: Request) -> dict[str, Any]:
        positions = self.consumer.position(self.consumer.assignment())
        known = [each for each in positions if each.offset >= 0]
        return {"positions": [{**one, "offset": at.offset} for one, at in zip(named(known), known, strict=True)]}

    def commit_offsets(self, request: Request) -> dict[str, Any]:
        self.consumer.commit(offsets=partitions_of(request, "offsets"), asynchronous=False)
        return {}

    def close(self, request: Request) -> dict[str, Any]:
        if request["role"] == "producer":
            self.producer = None
            self.unanswered = 0
            return {}
        self.polling = request["id"]
        self.consumer.close()
        self.consumer, self.polling = None, None
        return {}


class AcknowledgesEarly(Client):
    """Answers before the broker does, and holds records back in the meantime."""

    def open(self, request: Request) -> dict[str, Any]:
        if request["role"] == "producer":
            request["properties"] |= {"linger.ms": 400}
        return super().open(request)

    def send(self, request: Request) -> None:
        super().send(request)
        self.write({"id": request["id"], "ok": {"offset": None}})

    def delivered(self, request: Request, error: KafkaError | None, message: Any) -> None:
        self.unanswered -= 1


class SwallowsErrors(Client):
    """Reports success whatever became of a record."""

    def open(self, request: Request) -> dict[str, Any]:
        if request["role"] == "producer":
            request["delivery_timeout_ms"] = 1000
            request["request_timeout_ms"] = 900
        return super().open(request)

    def delivered(self, request: Request, error: KafkaError | None, message: Any) -> None:
        self.unanswered -= 1
        self.write({"id": request["id"], "ok": {"offset": None if error else message.offset()}})


class HandsOverTwice(Client):
    """Hands the last record of every fifth batch over once more with the next batch."""

    batches, again = 0, None

    def poll(self, request: Request) -> dict[str, Any]:
        answer = super().poll(request)
        if answer["records"] and self.again is not None:
            answer["records"], self.again = [self.again, *answer["records"]], None
        elif answer["records"]:
            self.batches += 1
            self.again = answer["records"][-1] if self.batches % 5 == 0 else None
        return answer


class SkipsAfterARebalance(Client):
    """Drops the first records of partitions that were assigned to it."""

    fresh: frozenset[tuple[str, int]] = frozenset()

    def rebalance(self, event: str, partitions: list[TopicPartition]) -> None:
        super().rebalance(event, partitions)
        if event == "assigned":
            self.fresh = frozenset((each.topic, each.partition) for each in partitions)

    def poll(self, request: Request) -> dict[str, Any]:
        answer = super().poll(request)
        before = self.fresh
        self.fresh -= {(each["topic"], each["partition"]) for each in answer["records"]}
        lost = dict.fromkeys(before, 2)
        kept = []
        for each in answer["records"]:
            at = (each["topic"], each["partition"])
            if lost.get(at, 0) > 0:
                lost[at] -= 1
            else:
                kept.append(each)
        return {**answer, "records": kept}


class CommitsWhatItAborted(Client):
    """Commits every transaction that it is asked to abort."""

    def abort(self, request: Request) -> dict[str, Any]:
        return self.commit(request)


class ClaimsNothingWasSent(Client):
    """Says of every twentieth record that was acknowledged that it was too large to be sent."""

    library = "kafka-python"  # whose documentation would prove it
    sends = 0

    def delivered(self, request: Request, error: KafkaError | None, message: Any) -> None:
        self.sends += 1
        if self.sends % 20:
            super().delivered(request, error, message)
            return
        self.unanswered -= 1
        self.write({"id": request["id"], "error": {"code": "MESSAGE_TOO_LARGE", "text": "too large", "sent": "no"}})


MISTAKES = {
    "acknowledges-early": AcknowledgesEarly,
    "swallows-errors": SwallowsErrors,
    "hands-over-twice": HandsOverTwice,
    "skips-after-a-rebalance": SkipsAfterARebalance,
    "commits-what-it-aborted": CommitsWhatItAborted,
    "claims-nothing-was-sent": ClaimsNothingWasSent,
}

if __name__ == "__main__":
    MISTAKES.get(sys.argv[1] if len(sys.argv) > 1 else "", Client)().serve()
