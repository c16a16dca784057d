"""Decides which requests a wire rule with action `answer` may answer with which errors.

Errors that mislead clients are not allowed. For example, an error may mean "nothing was written" although the broker
carried out the request. Every client would then report a false outcome, and the verdict would blame the brokers.
Source: error table of the Kafka protocol guide.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from harness.model.errors_and_exit_codes import BadInput

_ERRORS: Final = """
UNKNOWN_SERVER_ERROR OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE
NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT MESSAGE_TOO_LARGE OFFSET_METADATA_TOO_LARGE NETWORK_EXCEPTION
COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE
NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS
TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP POLICY_VIOLATION
OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH INVALID_TXN_STATE
INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT CONCURRENT_TRANSACTIONS TRANSACTION_COORDINATOR_FENCED
TRANSACTIONAL_ID_AUTHORIZATION_FAILED KAFKA_STORAGE_ERROR UNKNOWN_PRODUCER_ID FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH
OFFSET_NOT_AVAILABLE FENCED_INSTANCE_ID UNSTABLE_OFFSET_COMMIT INVALID_RECORD THROTTLING_QUOTA_EXCEEDED PRODUCER_FENCED
UNKNOWN_TOPIC_ID FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH UNRELEASED_INSTANCE_ID TRANSACTION_ABORTABLE
"""
# Errors of producers, consumers, groups and transactions.
ERRORS: Final = frozenset(_ERRORS.split())
# Errors that make a statement about the log: the record is there already, the offset does not exist, or the broker has
# lost the producer's state. The proxy cannot make such a statement true.
_UNTRUE: Final = frozenset(
    {"DUPLICATE_SEQUENCE_NUMBER", "OFFSET_OUT_OF_RANGE", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"}
)
# Brokers may report these errors after carrying out the request. Any other error promises that they did not do so.
_INDETERMINATE: Final = frozenset(
    {
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE",
        "UNKNOWN_SERVER_ERROR",
    }
)
_READING: Final = frozenset({"Fetch", "ListOffsets", "OffsetFetch", "FindCoordinator", "OffsetForLeaderEpoch"})
_CHANGING: Final = frozenset(
    {
        "Produce",
        "OffsetCommit",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "ConsumerGroupHeartbeat",
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        "EndTxn",
    }
)


def validate(apis: Sequence[str], error: object, carried_out: bool) -> None:
    """Raises BadInput if a wire rule may not answer requests of these APIs with this error.

    carried_out  whether the broker carries out the request, and only its response is replaced by the error
    """
    if not isinstance(error, str) or not error:
        raise BadInput("a wire rule with action: answer needs an error, such as error: NOT_LEADER_OR_FOLLOWER")
    if error not in ERRORS:
        near = difflib.get_close_matches(error.upper(), sorted(ERRORS), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadInput(f"a wire rule's error: Kafka has no error {error!r} for clients{hint}")
    if error in _UNTRUE:
        raise BadInput(
            f"a wire rule cannot answer {error}, because clients would draw a false conclusion about the log from it"
        )
    possible = _READING | _CHANGING
    other = next((name for name in apis if name not in possible), None)
    if other or not apis:
        found = f"not {other}" if other else "but has none"
        raise BadInput(f"a wire rule with action: answer needs an api of {', '.join(sorted(possible))}, {found}")
    # The request of a fetch session (KIP-227) does not name all of its partitions; the response does.
    if "Fetch" in apis and not carried_out:
        raise BadInput("a wire rule can answer a Fetch only with direction: response")
    if carried_out and not _READING.issuperset(apis) and error not in _INDETERMINATE:
        raise BadInput(
            f"a wire rule with direction: response cannot answer {error}, which promises that the request had no "
            f"effect: use direction: request, or one of {', '.join(sorted(_INDETERMINATE))}"
        )
