"""Maps an error in a step of an op to the outcome `fail` or `info`.

The outcome is `fail` only if the step has certainly appended nothing to any log. Errors without a row in TABLE are
`info`. `queue.py` combines the steps of an op: without a transaction, an op with an acknowledged or
indeterminate send cannot be `fail`; once a transaction has begun, only an acknowledged abort makes its op `fail`.

Sources, by the names used in the rows:
  rdkafka.h     doc comments of librdkafka 2.16 (rd_kafka_produce, rd_kafka_purge, RD_KAFKA_RESP_ERR_*)
  aiokafka      its producer.py and message_accumulator.py, 0.14: if `send` raises, the record is not queued
  request       librdkafka src/rdkafka_request.c, rd_kafka_handle_Produce_error and rd_kafka_err_action
  introduction  librdkafka INTRODUCTION.md, "Message reliability" and "Transactional producer"
  protocol      the error table of the Kafka protocol guide, and org.apache.kafka.common.protocol.Errors
  KIP-98        exactly once delivery and transactional messaging
  KIP-447       producer scalability for exactly once semantics: when an offset commit is fenced

Retries. With librdkafka, "off" (retries=0) does not mean a single attempt: librdkafka does not count retries after
errors that make it look for another leader (NOT_LEADER_FOR_PARTITION, LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PART, ...;
request: `incr_retry = 0`). Also, a leader that has appended a batch and loses leadership while it waits for the
followers answers NOT_LEADER_OR_FOLLOWER, so the batch may be in the log although a later attempt was rejected.
Therefore a rejection is definite only if it follows from the record and the configuration alone, because then every
attempt is rejected. NOT_ENOUGH_REPLICAS is not definite: it depends on when the attempt is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from harness.model.op import FAIL, INFO
from harness.protocol.error_codes import ClientError

Situation = Literal[
    "send",  # the library refused the record
    "report",  # a delivery report, or its absence
    "init",  # init_transactions
    "begin",
    "poll",
    "commit-offsets",  # to the group, outside a transaction
    "send-offsets",  # to the transaction
    "commit",
    "abort",
    "assign",  # assign, subscribe, seek
    "admin",
]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of TABLE: the outcome of an error, with its reason and source.

    retries_off  whether an outcome `fail` holds only if retries are off; if they are on, it is `info` instead
    """

    outcome: Literal["fail", "info"]
    why: str
    source: str
    retries_off: bool = False


ANY: Final = "*"

_REFUSED = Row("fail", "produce() refused the record, so it was never queued", "rdkafka.h: rd_kafka_produce")
_NOT_QUEUED = Row("fail", "raised before the record was queued", "aiokafka: AIOKafkaProducer.send")
_STATIC = Row(
    "fail",
    "rejected solely because of the record and the configuration, so every attempt would be rejected",
    "protocol; request: permanent, not persisted",
    retries_off=True,
)
_READS = Row("fail", "the step appends nothing", "protocol: Fetch, Metadata and ListOffsets only read")
_NOT_COMMITTED = Row(
    "fail",
    "the coordinator refuses commits from outside the current generation",
    "protocol: OffsetCommit; KIP-447",
)
_MOMENT = Row(
    "info",
    "concerns one attempt only; librdkafka does not count all retries, so another attempt may have appended the record",
    "request: incr_retry",
)
_SENT = Row("info", "the record was transmitted, and the response is not known", "request: possibly persisted")
_CLIENT_GONE = Row("info", "the process is gone, with records that it may have polled", "docs/use/your-own-client.md")
_COMMIT = Row("info", "the commit was requested; only an acknowledged abort undoes it", "KIP-98; introduction")

TABLE: Final[dict[tuple[Situation, str], Row]] = {
    ("send", "_QUEUE_FULL"): _REFUSED,
    ("send", "MSG_SIZE_TOO_LARGE"): _REFUSED,
    ("send", "_UNKNOWN_PARTITION"): _REFUSED,
    ("send", "_UNKNOWN_TOPIC"): _REFUSED,
    ("send", "_STATE"): _REFUSED,
    ("send", "_FATAL"): _REFUSED,
    ("send", "_FENCED"): _REFUSED,
    ("send", "_INVALID_ARG"): _REFUSED,
    ("send", "_TIMED_OUT"): _NOT_QUEUED,
    ("send", "_TRANSPORT"): _NOT_QUEUED,
    ("send", "UNKNOWN_TOPIC_OR_PART"): _NOT_QUEUED,
    ("send", "LEADER_NOT_AVAILABLE"): _NOT_QUEUED,
    # Rejections by the broker.
    ("report", "MSG_SIZE_TOO_LARGE"): _STATIC,
    ("report", "RECORD_LIST_TOO_LARGE"): _STATIC,
    ("report", "INVALID_REQUIRED_ACKS"): _STATIC,
    ("report", "INVALID_TIMESTAMP"): _STATIC,
    ("report", "UNSUPPORTED_FOR_MESSAGE_FORMAT"): _STATIC,
    ("report", "UNSUPPORTED_COMPRESSION_TYPE"): _STATIC,
    ("report", "TOPIC_EXCEPTION"): _STATIC,
    ("report", "TOPIC_AUTHORIZATION_FAILED"): _STATIC,
    ("report", "CLUSTER_AUTHORIZATION_FAILED"): _STATIC,
    ("report", "NOT_ENOUGH_REPLICAS"): _MOMENT,
    ("report", "UNKNOWN_TOPIC_OR_PART"): _MOMENT,
    ("report", "LEADER_NOT_AVAILABLE"): _MOMENT,
    ("report", "KAFKA_STORAGE_ERROR"): _MOMENT,
    ("report", "INVALID_MSG"): _MOMENT,  # CORRUPT_MESSAGE: concerns the bytes of this attempt only
    ("report", "_UNKNOWN_TOPIC"): _MOMENT,
    ("report", "_UNKNOWN_PARTITION"): _MOMENT,
    # A record that waits for a retry is in the queue too, so "purged in queue" proves nothing. The clients purge
    # only within an abort, whose acknowledgement decides the outcome.
    ("report", "_PURGE_QUEUE"): _MOMENT,
    ("report", "_PURGE_INFLIGHT"): _SENT,
    ("report", "NOT_LEADER_FOR_PARTITION"): Row(
        "info", "also the answer of a leader that appended the record and then lost leadership", "protocol"
    ),
    ("report", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"): Row("info", "appended, not replicated", "protocol"),
    ("report", "REQUEST_TIMED_OUT"): Row("info", "appended, not replicated in time", "protocol"),
    ("report", "_MSG_TIMED_OUT"): Row(
        "info", "reported both for records never sent and for records sent but not answered", "request; rdkafka.h"
    ),
    ("report", "_TIMED_OUT"): _SENT,
    ("report", "_TRANSPORT"): _SENT,
    ("report", "NETWORK_EXCEPTION"): _SENT,
    ("report", "INVALID_PRODUCER_EPOCH"): _SENT,
    ("report", "OUT_OF_ORDER_SEQUENCE_NUMBER"): _SENT,
    ("report", "DUPLICATE_SEQUENCE_NUMBER"): _SENT,
    ("report", "_FENCED"): _SENT,
    ("report", "_FATAL"): _SENT,
    ("report", "_DESTROY"): _SENT,
    ("report", "_NEVER_SENT"): Row(
        "fail", "the library rejects the record before it queues it", "harness.clients.exec.never_sent, by library"
    ),
    # Before a transaction has begun, none of the op's records has been sent.
    ("init", ANY): Row("fail", "no record of the op has been sent yet", "KIP-98: InitProducerId"),
    ("begin", ANY): Row("fail", "begin is local, and no record of the op has been sent yet", "rdkafka.h"),
    # Within a transaction, the acknowledgement of its end decides.
    ("send-offsets", ANY): Row("info", "only an acknowledged abort is definite", "KIP-98; introduction"),
    ("commit", ANY): _COMMIT,
    ("abort", ANY): Row(
        "info",
        "an abort without acknowledgement proves nothing",
        "definite only if nothing can have been appended",
    ),
    # Reads. The outcome of an op that also sends depends on its sends.
    ("poll", "_JVM"): Row(
        "info", "the client's JVM is gone, with records that it may have polled", "java.lang.OutOfMemoryError"
    ),
    ("poll", "_CLIENT_DIED"): _CLIENT_GONE,
    ("poll", "_CLIENT_SILENT"): _CLIENT_GONE,
    ("poll", "_CLIENT_BROKE_PROTOCOL"): _CLIENT_GONE,
    ("poll", ANY): _READS,
    ("assign", ANY): _READS,
    ("admin", ANY): _READS,
    # An indeterminate commit may have moved the group past records that no ok op has reported.
    ("commit-offsets", "ILLEGAL_GENERATION"): _NOT_COMMITTED,
    ("commit-offsets", "UNKNOWN_MEMBER_ID"): _NOT_COMMITTED,
    ("commit-offsets", "REBALANCE_IN_PROGRESS"): _NOT_COMMITTED,
    ("commit-offsets", "FENCED_INSTANCE_ID"): _NOT_COMMITTED,
    ("commit-offsets", "_ASSIGNMENT_LOST"): _NOT_COMMITTED,
    ("commit-offsets", "GROUP_AUTHORIZATION_FAILED"): _NOT_COMMITTED,
}

# Error names of Java and aiokafka -> librdkafka's names, which TABLE uses.
RENAMED: Final[Mapping[str, str]] = {
    "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
    "MESSAGE_SIZE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "INVALID_TOPIC_EXCEPTION": "TOPIC_EXCEPTION",
    "INVALID_TOPIC": "TOPIC_EXCEPTION",
    "CORRUPT_MESSAGE": "INVALID_MSG",
}

UNKNOWN: Final = Row("info", "an error without a row proves nothing", "definite only if nothing can have been appended")


def row(situation: Situation, code: str) -> Row:
    """Returns the row of TABLE for an error code in a situation (a kind of step).

    If TABLE has no row for this error code, returns the situation's row for all other errors, or else `UNKNOWN`.
    """
    return TABLE.get((situation, code)) or TABLE.get((situation, ANY)) or UNKNOWN


def outcome(situation: Situation, error: ClientError, retries_off: bool) -> str:
    """Returns `fail` if a step that ended with this error has certainly appended nothing, otherwise `info`.

    `retries_off`: whether the client's retries are off.
    """
    found = row(situation, error.code)
    return FAIL if found.outcome == FAIL and (retries_off or not found.retries_off) else INFO


def describe(situation: Situation, error: ClientError) -> str:
    """Returns the `error` text for an op: the situation, the error code and the library's message."""
    return f"{situation}: {error.code}: {error.text}"
