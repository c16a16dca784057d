"""Protocol errors that the log client encounters: their names, and which of them permit a retry.

Source: https://kafka.apache.org/protocol#protocol_error_codes
"""

from __future__ import annotations

from typing import Final, Literal

TopicPartition = tuple[str, int]

# "plain": the client library does not say whether the error is retriable, abortable or fatal.
Kind = Literal["retriable", "abortable", "fatal", "plain"]


class ClientError(Exception):
    """An error that the client library raised, or that the cluster returned and the library passed on.

    code  the error's name: as in the protocol ("NOT_ENOUGH_REPLICAS"), with a leading underscore if the library itself
          raised it ("_MSG_TIMED_OUT")
    kind  what the library says should be done: retry the call, abort the transaction, or close the producer
    """

    def __init__(self, code: str, text: str, kind: Kind = "plain") -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text, self.kind = code, text, kind


NAMES: Final = {
    1: "OFFSET_OUT_OF_RANGE",
    2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    10: "MESSAGE_TOO_LARGE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    32: "INVALID_TIMESTAMP",
    35: "UNSUPPORTED_VERSION",
    44: "POLICY_VIOLATION",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    51: "CONCURRENT_TRANSACTIONS",
    56: "KAFKA_STORAGE_ERROR",
    59: "UNKNOWN_PRODUCER_ID",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    78: "OFFSET_NOT_AVAILABLE",
    87: "INVALID_RECORD",
    90: "INVALID_PRODUCER_EPOCH",  # PRODUCER_FENCED, which newer coordinators return instead
}
# The request had no effect; a retry may have one.
RETRIABLE: Final = frozenset({3, 5, 6, 13, 14, 15, 16, 19, 51, 56, 74, 75, 78})
# The request may have had an effect.
UNCERTAIN: Final = frozenset({7, 20})


def name(code: int) -> str:
    return NAMES.get(code, f"ERROR_{code}")
