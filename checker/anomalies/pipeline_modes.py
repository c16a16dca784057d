"""The modes of a pipeline, and which of them promise that an anomaly does not happen.

Modes: "exactly-once" and "files" commit offsets and outputs (or references to files) in one transaction,
"at-least-once" commits after the outputs, "at-most-once" before them, "auto-commit" leaves it to a timer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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

    def promise(self, mode: str, transform: str = "") -> bool:
        """Whether a mode promises that the anomaly does not happen.

        What a transform without memory makes of a record does not depend on the mode; a count does.
        """
        if self.of_memory and transform not in ("", AGGREGATE):
            return True
        return mode in self.promising

    def bad(self, mode: str) -> bool:
        """Whether the anomaly counts against the verdict."""
        return self.always_bad or mode in self.promising
