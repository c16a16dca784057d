"""What an error proves: the one table from error and situation to `fail` or `info`.

`fail` only when it is certain that the step appended nothing to any log; whatever has no row is `info`.
How the steps of one op add up to its outcome is in `queue.py`: one acknowledged or uncertain send makes an
op that is not transactional at least `info`; of a transaction, only an acknowledged abort makes it `fail`
once it has begun.

Sources, by the names used in the rows:
  rdkafka.h     doc comments of librdkafka 2.16 (rd_kafka_produce, rd_kafka_purge, RD_KAFKA_RESP_ERR_*)
  aiokafka      its producer.py and message_accumulator.py, 0.14: what `send` raises, it has not queued
  request       librdkafka src/rdkafka_request.c, rd_kafka_handle_Produce_error and rd_kafka_err_action
  introduction  librdkafka INTRODUCTION.md, "Message reliability" and "Transactional producer"
  protocol      the error table of the Kafka protocol guide, and org.apache.kafka.common.protocol.Errors
  KIP-98        exactly once delivery and transactional messaging
  KIP-447       producer scalability for exactly once semantics: what fences an offset commit

Retries. "Off" (retries=0) is not one attempt with librdkafka: errors that make it look for another leader
(NOT_LEADER_FOR_PARTITION, LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PART, ...) are retried without being
counted (request: `incr_retry = 0`). A leader that has appended a batch and then loses the lead while it
waits for the followers answers NOT_LEADER_OR_FOLLOWER too, so the batch may be in the log though a later
attempt was rejected. So only rejections that every attempt must meet, since they follow from the record and
the configuration alone, are definite; NOT_ENOUGH_REPLICAS, which depends on the moment, is not.
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
    """outcome `fail` holds always, or only with `retries_off`; otherwise the outcome is `info`."""

    outcome: Literal["fail", "info"]
    why: str
    source: str
    retries_off: bool = False


ANY: Final = "*"

_REFUSED = Row("fail", "produce() refused it, so it was never queued", "rdkafka.h: rd_kafka_produce")
_NOT_QUEUED = Row("fail", "it raises before it has queued the record", "aiokafka: AIOKafkaProducer.send")
_STATIC = Row(
    "fail",
    "rejected for what the record and the configuration are, which every attempt meets",
    "protocol; request: permanent, not persisted",
    retries_off=True,
)
_READS = Row("fail", "a step that appends nothing", "protocol: Fetch, Metadata and ListOffsets only read")
_NOT_COMMITTED = Row(
    "fail",
    "the coordinator refuses a commit from outside the generation",
    "protocol: OffsetCommit; KIP-447",
)
_MOMENT = Row(
    "info",
    "true of one attempt only; another may have appended, retries counted or not",
    "request: incr_retry",
)
_SENT = Row("info", "it was transmitted, and the answer is not known", "request: possibly persisted")
_CLIENT_GONE = Row("info", "the process is gone, with what it may have polled", "docs/use/your-own-client.md")
_COMMIT = Row("info", "commit has been asked for: only an acknowledged abort undoes it", "KIP-98; introduction")

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
    # Broker's rejections.
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
    ("report", "INVALID_MSG"): _MOMENT,  # CORRUPT_MESSAGE: of the bytes that this attempt brought
    ("report", "_UNKNOWN_TOPIC"): _MOMENT,
    ("report", "_UNKNOWN_PARTITION"): _MOMENT,
    # A record that waits for a retry is in the queue as well, so "purged in queue" is no proof; the clients
    # purge only in an abort, whose acknowledgement decides.
    ("report", "_PURGE_QUEUE"): _MOMENT,
    ("report", "_PURGE_INFLIGHT"): _SENT,
    ("report", "NOT_LEADER_FOR_PARTITION"): Row(
        "info", "a leader that loses the lead after its append answers so, too", "protocol"
    ),
    ("report", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"): Row("info", "appended, not replicated", "protocol"),
    ("report", "REQUEST_TIMED_OUT"): Row("info", "appended, not replicated in time", "protocol"),
    ("report", "_MSG_TIMED_OUT"): Row(
        "info", "the same for a record never sent and one sent without an answer", "request; rdkafka.h"
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
        "fail", "the library refuses the record before it queues it", "harness.clients.exec.never_sent, by library"
    ),
    # Before a transaction has begun, none of the op's records exist.
    ("init", ANY): Row("fail", "nothing of the op has been sent yet", "KIP-98: InitProducerId"),
    ("begin", ANY): Row("fail", "begin is local, and nothing of the op has been sent", "rdkafka.h"),
    # Of a transaction, the acknowledgement decides.
    ("send-offsets", ANY): Row("info", "the abort's acknowledgement decides", "KIP-98; introduction"),
    ("commit", ANY): _COMMIT,
    ("abort", ANY): Row(
        "info",
        "an abort without acknowledgement proves nothing",
        "definite only if nothing can have been appended",
    ),
    # Reads. An op that also sends is judged by its sends.
    ("poll", "_JVM"): Row("info", "the client is gone, with what it may have polled", "java.lang.OutOfMemoryError"),
    ("poll", "_CLIENT_DIED"): _CLIENT_GONE,
    ("poll", "_CLIENT_SILENT"): _CLIENT_GONE,
    ("poll", "_CLIENT_BROKE_PROTOCOL"): _CLIENT_GONE,
    ("poll", ANY): _READS,
    ("assign", ANY): _READS,
    ("admin", ANY): _READS,
    # An uncertain commit may have moved the group past records that no ok op has reported.
    ("commit-offsets", "ILLEGAL_GENERATION"): _NOT_COMMITTED,
    ("commit-offsets", "UNKNOWN_MEMBER_ID"): _NOT_COMMITTED,
    ("commit-offsets", "REBALANCE_IN_PROGRESS"): _NOT_COMMITTED,
    ("commit-offsets", "FENCED_INSTANCE_ID"): _NOT_COMMITTED,
    ("commit-offsets", "_ASSIGNMENT_LOST"): _NOT_COMMITTED,
    ("commit-offsets", "GROUP_AUTHORIZATION_FAILED"): _NOT_COMMITTED,
}

# librdkafka's names of errors, which the table has, by those that Java and aiokafka give them.
RENAMED: Final[Mapping[str, str]] = {
    "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
    "MESSAGE_SIZE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "INVALID_TOPIC_EXCEPTION": "TOPIC_EXCEPTION",
    "INVALID_TOPIC": "TOPIC_EXCEPTION",
    "CORRUPT_MESSAGE": "INVALID_MSG",
}

UNKNOWN: Final = Row("info", "no row: nothing is certain", "definite only if nothing can have been appended")


def row(situation: Situation, code: str) -> Row:
    """The row of an error: its own, the situation's, or the default."""
    return TABLE.get((situation, code)) or TABLE.get((situation, ANY)) or UNKNOWN


def outcome(situation: Situation, error: ClientError, retries_off: bool) -> str:
    """`fail` if the step has certainly appended nothing, else `info`."""
    found = row(situation, error.code)
    return FAIL if found.outcome == FAIL and (retries_off or not found.retries_off) else INFO


def describe(situation: Situation, error: ClientError) -> str:
    """An op's `error`: the situation, the code and the library's words."""
    return f"{situation}: {error.code}: {error.text}"
