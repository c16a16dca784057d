"""The modes of a pipeline, and which of them promise that an anomaly does not happen.

A mode promises it as far as the brokers keep the logs that a pipeline rests on: its input and output, what its
group has committed, what its transactions have decided. What its clients do by themselves needs none of them.

Modes: "exactly-once" and "files" commit offsets and outputs (or references to files) in one transaction,
"at-least-once" commits after the outputs, "at-most-once" before them, "auto-commit" leaves it to a timer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from checker.anomalies.guarantees import (
    DOCUMENTED,
    LOG,
    Guarantee,
    exactly_once_log,
    group_log_kept,
    nothing_removed,
    transaction_log_kept,
)
from harness.model.check_options import Settings

ONCE: Final = frozenset({"exactly-once", "files"})
LEAST: Final = ONCE | {"at-least-once"}
MOST: Final = ONCE | {"at-most-once"}
BY_HAND: Final = LEAST | MOST
MODES: Final = BY_HAND | {"auto-commit"}
AGGREGATE: Final = "aggregate"

KIP_98: Final = "KIP-98, transactions with consumer offsets in them"
KIP_447: Final = "KIP-447, fencing by the group's generation"
SEMANTICS: Final = "Kafka documentation, message delivery semantics"
CONSUMER: Final = "Kafka documentation, KafkaConsumer: offsets and consumer position"

_KEPT: Final = (*LOG, group_log_kept, transaction_log_kept)
_SOURCE: Final = f"{DOCUMENTED}: Design, 4.7 Replication; KIP-98; KIP-966"
CARRIED: Final = Guarantee(_KEPT, "the logs of records, commits and transactions keep what was replicated", _SOURCE)
WHOLE: Final = Guarantee(
    (*_KEPT, nothing_removed), "they keep it, and nothing removes it", f"{_SOURCE}; cleanup.policy"
)
ONE_COPY: Final = Guarantee(
    (*_KEPT, exactly_once_log), "they keep it, and have each record once", f"{_SOURCE}; enable.idempotence"
)
SENT: Final = Guarantee(LOG, "what failed does not come to stand in the log again", _SOURCE)


def of_pipeline(settings: Settings) -> Settings:
    """What the pipeline's own clients go by, whatever those that write its input do."""
    return replace(settings, acks="all", idempotence=True, txn=True, max_in_flight=None)


@dataclass(frozen=True, slots=True)
class Modes:
    """When an anomaly of a pipeline is promised not to happen.

    promising   the modes that promise that it does not happen
    always_bad  whether it counts against the verdict in the other modes, too
    of_memory   whether it hangs on the mode only where the transform has a memory
    """

    promising: frozenset[str]
    always_bad: bool = True
    of_memory: bool = False

    def promise(self, mode: str, transform: str = "") -> bool | None:
        """Whether a mode promises that the anomaly does not happen; None where the mode is not known.

        What a transform without memory makes of a record does not depend on the mode; a count does.
        """
        if self.of_memory and transform not in ("", AGGREGATE):
            return True
        if not mode:
            return True if self.promising == MODES else None
        return mode in self.promising

    def bad(self, mode: str) -> bool:
        """Whether the anomaly counts against the verdict."""
        return self.always_bad or mode in self.promising
