"""What Kafka promises to share groups, and how witnesses of their anomalies are described."""

from __future__ import annotations

from typing import Final

from checker.anomalies.guarantees import (
    DURABLE,
    LOG,
    Guarantee,
    nothing_removed,
    share_read_committed,
    share_state_kept,
)
from checker.anomalies.prose import Phrases, Prose, Witness
from harness.model.values_as_text import joined

KIP_932: Final = "KIP-932; KafkaShareConsumer"
KIP_1191: Final = "KIP-1191, dead letter queues"
_KEPT: Final = (*LOG, share_state_kept)

TRACKED: Final = Guarantee(
    _KEPT, "the state of each record of a share group is replicated in __share_group_state", KIP_932
)
DELIVERED: Final = Guarantee(
    (*DURABLE, share_state_kept, nothing_removed),
    "a share group delivers each record until it is accepted, rejected, or was delivered as often as the limit allows",
    KIP_932,
)
COMMITTED: Final = Guarantee(
    (*LOG, share_read_committed), "a share group with read_committed gets no records of aborted transactions", KIP_932
)
PARKED: Final = Guarantee(_KEPT, "each rejected or archived record is copied to the dead letter queue", KIP_1191)
BY_BROKER: Final = Guarantee((), "the leader of a share partition hands out records in the order of offsets", KIP_932)


def described(what: str) -> Prose:
    """Returns a function that describes a witness by its record, the sentence `what`, and its ops.

    `what` may name fields of the witness in braces.
    """

    def prose(witness: Witness, phrases: Phrases) -> str:
        at = f" offset {witness['offset']}" if witness.get("offset") is not None else ""
        head = f"group {witness['group']}, key {witness['key']}{at}: {what.format_map(witness)}"
        ops = witness.get("ops") or ()
        return joined(head, *(f"{phrases.who(op)}{phrases.faults(op)}" for op in dict.fromkeys(ops)))

    return prose
