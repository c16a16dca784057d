"""kafka-python as a client program: see docs/use/your-own-client.md.

Requests are served one after another by the main thread; acknowledgements of records arrive in the library's thread.
Rebalance listeners run there too, and may not block it: meanwhile another thread serves requests, up to "continue".
Before 3.0, listeners run in the main thread, which then serves these requests itself.
"""

import base64
import json
import os
import sys
import threading

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import BrokerResponseError, KafkaError, KafkaTimeoutError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

BEFORE_3 = int(kafka.__version__.partition(".")[0]) < 3
if not BEFORE_3:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

CAPABILITIES = ["produce", "consume", "idempotence", "transactions", "groups", "send-offsets"]
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    **({} if BEFORE_3 else {"cooperative-sticky": CooperativeStickyAssignor}),
}
OUTPUT = os.fdopen(os.dup(1), "w", buffering=1)
LOCK = threading.Lock()


def write(message):
    with LOCK:
        OUTPUT.write(json.dumps(message) + "\n")
        OUTPUT.flush()


def error_of(raised):
    code = getattr(raised, "message", None) if isinstance(raised, BrokerResponseError) else None
    error = {"code": code or type(raised).__name__, "text": str(raised)}
    if isinstance(raised, ProducerFencedError):
        error["kind"] = "fatal"
    elif getattr(raised, "retriable", False) or isinstance(raised, KafkaTimeoutError):
        error["kind"] = "retriable"
    elif isinstance(raised, KafkaError):
        error["kind"] = "abortable"
    return error


def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


def decoded(text):
    return None if text is None else base64.b64decode(text)


def named(partitions):
    return [{"topic": each.topic, "partition": each.partition} for each in partitions]


def offsets_of(positions):
    return {TopicPartition(p["topic"], p["partition"]): OffsetAndMetadata(p["offset"], "", -1) for p in positions}


if BEFORE_3:

    class Rebalances(kafka.ConsumerRebalanceListener):
        def __init__(self, client):
            self.client = client

        def on_partitions_assigned(self, assigned):
            self.client.rebalance_before_3("assigned", assigned)

        def on_partitions_revoked(self, revoked):
            self.client.rebalance_before_3("revoked", revoked)

else:

    class Rebalances(kafka.AsyncConsumerRebalanceListener):
        def __init__(self, client):
            self.client = client

        async def on_partitions_assigned(self, assigned):
            await self.client.rebalance("assigned", assigned)

        async def on_partitions_revoked(self, revoked):
            await self.client.rebalance("revoked", revoked)

        async def on_partitions_lost(self, lost):
            await self.client.rebalance("lost", lost)


class Client:
    def __init__(self):
        self.producer = self.consumer = self.polling = None
        self.sends = []

    def serve(self):
        """Serve requests up to the end of the input, or up to "continue"."""
        for line in iter(sys.stdin.readline, ""):
            request = json.loads(line)
            if request["do"] == "continue":
                return
            try:
                answer = getattr(self, "do_" + request["do"])(request)
            except Exception as raised:
                write({"id": request["id"], "error": error_of(raised)})
            else:
                if answer is not None:
                    write({"id": request["id"], "ok": answer})
        os._exit(0)

    def rebalance_before_3(self, event, partitions):
        if partitions and self.polling is not None:
            write({"id": self.polling, "event": event, "partitions": named(partitions)})
            self.serve()

    async def rebalance(self, event, partitions):
        if partitions and self.polling is not None:
            write({"id": self.polling, "event": event, "partitions": named(partitions)})
            serving = threading.Thread(target=self.serve)
            serving.start()
            while serving.is_alive():
                await self.network.sleep(0.002)

    def do_hello(self, request):
        library = {"library": "kafka-python", "version": kafka.__version__}
        return {"protocol": 1, **library, "capabilities": CAPABILITIES}

    def do_open(self, request):
        config = {
            "bootstrap_servers": request["bootstrap"].split(","),
            "client_id": request["client_id"],
            "request_timeout_ms": request["request_timeout_ms"],
            "reconnect_backoff_max_ms": 1000,
            **({} if BEFORE_3 else {"bootstrap_timeout_ms": 5000}),
            **security(request["security"]),
        }
        if request["role"] == "producer":
            config |= {
                "acks": "all" if request["acks"] == "all" else int(request["acks"]),
                "enable_idempotence": request["idempotence"],
                "delivery_timeout_ms": max(request["delivery_timeout_ms"], request["request_timeout_ms"]),
                "transactional_id": request["transactional_id"],
                "transaction_timeout_ms": request["transaction_timeout_ms"],
                "max_block_ms": 3000,
            }
            if request["retries"] is not None:
                config["retries"] = request["retries"]
            self.producer = KafkaProducer(**config | request["properties"])
            return {}
        if request["group_protocol"] != "classic":
            raise ValueError("kafka-python has the classic group protocol only")
        config |= {
            "group_id": request["group"],
            "isolation_level": request["isolation_level"],
            "auto_offset_reset": request["auto_offset_reset"],
            "enable_auto_commit": request["auto_commit"],
            "session_timeout_ms": request["session_timeout_ms"],
            "heartbeat_interval_ms": request["session_timeout_ms"] // 6,
            "request_timeout_ms": max(request["request_timeout_ms"], request["session_timeout_ms"] + 1000),
            "fetch_max_wait_ms": 100,
        }
        if request["assignor"]:
            config["partition_assignment_strategy"] = [ASSIGNORS[request["assignor"]]]
        self.consumer = KafkaConsumer(**config | request["properties"])
        if not BEFORE_3:
            self.network = self.consumer._net  # the library's event loop, which is not asyncio's
        return {}

    def do_send(self, request):
        future = self.producer.send(
            request["topic"],
            value=decoded(request["value"]),
            key=decoded(request["key"]),
            partition=request["partition"],
        )
        self.sends = [each for each in self.sends if not each.is_done] + [future]
        number = request["id"]
        future.add_callback(
            lambda sent: write({"id": number, "ok": {"offset": sent.offset if sent.offset >= 0 else None}})
        )
        future.add_errback(lambda raised: write({"id": number, "error": error_of(raised)}))

    def do_flush(self, request):
        self.producer.flush(timeout=request["timeout_ms"] / 1000)
        return {}

    def do_init_transactions(self, request):
        self.producer.init_transactions()
        return {}

    def do_begin(self, request):
        self.producer.begin_transaction()
        return {}

    def do_commit(self, request):
        self.producer.commit_transaction()
        return {}

    def do_abort(self, request):
        self.producer.abort_transaction()
        return {}

    def do_send_offsets(self, request):
        member = self.consumer.config["group_id"] if BEFORE_3 else self.consumer.group_metadata()
        self.producer.send_offsets_to_transaction(offsets_of(request["offsets"]), member)
        return {}

    def do_assign(self, request):
        self.consumer.assign([TopicPartition(each["topic"], each["partition"]) for each in request["partitions"]])
        return self.do_seek(request)

    def do_seek(self, request):
        for each in request["partitions"]:
            partition = TopicPartition(each["topic"], each["partition"])
            if each["offset"] == "earliest":
                self.consumer.seek_to_beginning(partition)
            elif each["offset"] == "latest":
                self.consumer.seek_to_end(partition)
            elif each["offset"] != "committed":
                self.consumer.seek(partition, each["offset"])
        return {}

    def do_subscribe(self, request):
        self.consumer.subscribe(request["topics"], listener=Rebalances(self))
        return {}

    def do_poll(self, request):
        self.polling = request["id"]
        try:
            polled = self.consumer.poll(timeout_ms=request["wait_ms"], max_records=request["records_max"])
        finally:
            self.polling = None
        records = [
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": encoded(record.key),
                "value": encoded(record.value),
            }
            for batch in polled.values()
            for record in batch
        ]
        return {"records": records, **({} if records else self.do_positions(request))}

    def do_positions(self, request):
        positions = []
        for each in self.consumer.assignment():
            position = self.consumer._subscription.assignment[each].position  # position() would ask the brokers
            if position is not None:
                positions.append({"topic": each.topic, "partition": each.partition, "offset": position.offset})
        return {"positions": positions}

    def do_commit_offsets(self, request):
        self.consumer.commit(offsets_of(request["offsets"]), timeout_ms=request["timeout_ms"])
        return {}

    def do_close(self, request):
        if request["role"] == "producer":
            producer, self.producer = self.producer, None
            if producer is not None:
                producer.close(timeout=0)
            return {}
        consumer, self.consumer = self.consumer, None
        self.polling = request["id"]
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=request["timeout_ms"] if request["leave"] else 0)
        self.polling = None
        return {}


def security(properties):
    names = {
        "security.protocol": "security_protocol",
        "sasl.mechanism": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile",
    }
    unknown = sorted(set(properties) - names.keys())
    if unknown:
        raise ValueError(f"kafka-python has no setting {', '.join(unknown)}")
    return {names[name]: value for name, value in properties.items()}


if __name__ == "__main__":
    os.dup2(2, 1)  # whatever the library prints goes to standard error
    Client().serve()
