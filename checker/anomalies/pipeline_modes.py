"""Decides which modes of a pipeline rule out an anomaly.

A mode says when the pipeline commits its input offsets (see below). It rules an anomaly out as long as the brokers keep
the logs that the pipeline depends on: its input and output, its group's committed offsets, and the outcome of its
transactions. Anomalies that only the clients can cause do not depend on these logs.

Modes: "exactly-once" and "files" commit offsets and outputs (or references to files) in one transaction,
"at-least-once" commits offsets after the outputs, "at-most-once" before them, and "auto-commit" by a timer.
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

KIP_98: Final = "KIP-98, transactions that include consumer offsets"
KIP_447: Final = "KIP-447, fencing by the group's generation"
SEMANTICS: Final = "Kafka documentation, message delivery semantics"
CONSUMER: Final = "Kafka documentation, KafkaConsumer: offsets and consumer position"

_KEPT: Final = (*LOG, group_log_kept, transaction_log_kept)
_SOURCE: Final = f"{DOCUMENTED}: Design, 4.7 Replication; KIP-98; KIP-966"
CARRIED: Final = Guarantee(_KEPT, "the logs of records, commits and transactions keep what was replicated", _SOURCE)
WHOLE: Final = Guarantee(
    (*_KEPT, nothing_removed),
    "the logs of records, commits and transactions keep what was replicated, and nothing removes it",
    f"{_SOURCE}; cleanup.policy",
)
ONE_COPY: Final = Guarantee(
    (*_KEPT, exactly_once_log),
    "the logs of records, commits and transactions keep what was replicated, and each record is appended once",
    f"{_SOURCE}; enable.idempotence",
)
SENT: Final = Guarantee(LOG, "records whose send failed do not appear in the log", _SOURCE)


def of_pipeline(settings: Settings) -> Settings:
    """Returns a run's settings with those of the pipeline's own producer.

    These replace the settings of the producers that write the pipeline's input.
    """
    return replace(settings, acks="all", idempotence=True, txn=True, max_in_flight=None)


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes in which an anomaly of a pipeline must not happen.

    promising   the modes that rule the anomaly out
    always_bad  whether the anomaly counts against the verdict in the other modes, too
    of_memory   whether every mode rules the anomaly out if the transform is stateless
    """

    promising: frozenset[str]
    always_bad: bool = True
    of_memory: bool = False

    def promise(self, mode: str, transform: str = "") -> bool | None:
        """Returns whether a mode rules the anomaly out; None if the mode is unknown.

        An anomaly with `of_memory` is ruled out in every mode if the transform is stateless.
        """
        if self.of_memory and transform not in ("", AGGREGATE):
            return True
        if not mode:
            return True if self.promising == MODES else None
        return mode in self.promising

    def bad(self, mode: str) -> bool:
        """Returns whether the anomaly counts against the verdict in this mode."""
        return self.always_bad or mode in self.promising
