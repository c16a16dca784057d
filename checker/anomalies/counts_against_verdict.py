"""Decides which anomalies count against the verdict.

Under native rules, the functions with `rows` decide. Under Jepsen's rules, all anomalies count that are not in Jepsen's
list of allowed errors (the functions `jepsen_...`). Sources: Kafka's documentation of isolation.level;
jepsen.tests.kafka (`allowed-error-types`).
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
    """Returns whether one of the cycles is impossible in any order of events (checker.cycles.event_cycles)."""
    return any(row.get("forbidden") for row in rows)


def unless_uncommitted(rows: Rows, options: CheckOptions) -> bool:
    """Returns whether consumers must not read uncommitted records."""
    return not uncommitted_is_read(options)


def uncommitted_is_read(options: CheckOptions) -> bool:
    """Returns whether consumers may read uncommitted records.

    Returns False if there are no transactions, because no record is uncommitted then: a failed send appended nothing,
    and an op may poll what it has sent before.
    """
    return options.settings.isolation_level == "read_uncommitted" and options.settings.txn is not False


# --- by Jepsen's list ---------------------------------------------------------------------------------


def jepsen_never_allows(options: CheckOptions) -> bool:
    return False


def jepsen_always_allows(options: CheckOptions) -> bool:
    """Returns True: Kafka does not promise that the writes of transactions are isolated."""
    return True


def jepsen_allows_with_subscribe(options: CheckOptions) -> bool:
    """Returns whether consumers subscribe, because a rebalance can then happen between any two polls."""
    return "subscribe" in options.sub_via


def jepsen_allows_with_ww(options: CheckOptions) -> bool:
    """Returns whether ww edges are drawn: then interleaved writes of transactions produce cycles, t0 <ww t1 <wr t0."""
    return options.ww_deps
