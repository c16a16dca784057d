"""Decides which anomalies count against the verdict.

Under native rules (this project's own), the functions that take `rows`, the witnesses, decide. Under Jepsen's rules, an
anomaly counts unless Jepsen's list of allowed errors contains it (the functions `jepsen_...`). Sources: Kafka's
documentation of isolation.level; jepsen.tests.kafka (`allowed-error-types`).
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
    """Returns whether one of the cycles cannot result from any order of events (checker.cycles.event_cycles)."""
    return any(row.get("forbidden") for row in rows)


def unless_uncommitted(rows: Rows, options: CheckOptions) -> bool:
    """Returns False if consumers may read uncommitted records, else True."""
    return not uncommitted_is_read(options)


def uncommitted_is_read(options: CheckOptions) -> bool:
    """Returns whether consumers may read uncommitted records.

    Without transactions the result is False at every isolation level, because no record is uncommitted then.
    """
    return options.settings.isolation_level == "read_uncommitted" and options.settings.txn is not False


# --- by Jepsen's list ---------------------------------------------------------------------------------


def jepsen_never_allows(options: CheckOptions) -> bool:
    return False


def jepsen_always_allows(options: CheckOptions) -> bool:
    """Returns True, because Kafka does not isolate the writes of transactions from each other."""
    return True


def jepsen_allows_with_subscribe(options: CheckOptions) -> bool:
    """Returns whether consumers subscribe to topics. If they do, a rebalance can happen between any two polls."""
    return "subscribe" in options.sub_via


def jepsen_allows_with_ww(options: CheckOptions) -> bool:
    """Returns whether the dependency graph has ww edges.

    If it has, transactions whose writes are interleaved form cycles such as t0 <ww t1 <wr t0.
    """
    return options.ww_deps
