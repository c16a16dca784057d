"""The table of checks by name. A workload names the checks that it needs, and the worst of their verdicts counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from checker.checks import (
    compacted,
    delivery,
    liveness,
    log_model,
    metadata,
    offsets,
    pipeline,
    queue,
    recovery,
    share,
    upgrade,
)
from checker.tables.buckets_of_a_history import Source
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result

CHECKS: Final[dict[str, Callable[[Source, CheckOptions], Result]]] = {
    "queue": queue.check,
    "delivery": delivery.check,
    "compacted": compacted.check,
    "pipeline": pipeline.check,
    "offsets": offsets.check,
    "recovery": recovery.check,
    "log-model": log_model.check,
    "share": share.check,
    "upgrade": upgrade.check,
    "metadata": metadata.check,
    "liveness": liveness.check,
}
