"""Decides which anomalies count against the verdict, under native rules and by Jepsen's list of allowed errors.

Sources: Kafka's documentation of isolation.level; jepsen.tests.kafka (`allowed-error-types`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from harness.model.check_options import CheckOptions

Rows: TypeAlias = Sequence[Mapping[str, Any]]

# --- natively -----------------------------------------------------------------------------------------


def always(rows: Rows, options: CheckOptions) -> bool:
    return True


def never(rows: Rows, options: CheckOptions) -> bool:
    return False


def forbidden(rows: Rows, options: CheckOptions) -> bool:
    """Whether no order of events explains one of the cycles (checker.cycles.event_cycles)."""
    return any(row.get("forbidden") for row in rows)


def unless_uncommitted(rows: Rows, options: CheckOptions) -> bool:
    """Whether uncommitted records must not be read."""
    return not uncommitted_is_read(options)


def uncommitted_is_read(options: CheckOptions) -> bool:
    """Whether consumers may read uncommitted records.

    Without transactions no record is uncommitted: a failed send appended nothing, and an op may poll what it has sent
    before.
    """
    return options.settings.isolation_level == "read_uncommitted" and options.settings.txn is not False


# --- by Jepsen's list ---------------------------------------------------------------------------------


def jepsen_never_allows(options: CheckOptions) -> bool:
    return False


def jepsen_always_allows(options: CheckOptions) -> bool:
    """Kafka promises no isolation of writes between transactions."""
    return True


def jepsen_allows_with_subscribe(options: CheckOptions) -> bool:
    """With subscribe, a rebalance can happen between any two polls."""
    return "subscribe" in options.sub_via


def jepsen_allows_with_ww(options: CheckOptions) -> bool:
    """With ww edges, interleaved writes of transactions produce such cycles: t0 <ww t1 <wr t0."""
    return options.ww_deps
