"""Jepsen's verdict: which error types count as bad (jepsen.tests.kafka, `allowed-error-types`)."""

from __future__ import annotations

from typing import Final

from harness.model.options import CheckOptions

# Kafka promises no isolation of writes between transactions.
ALWAYS_ALLOWED: Final = frozenset(
    {"int-send-skip", "G0", "G0-process", "G0-realtime", "PL-1-cycle-exists", "strong-PL-1-cycle-exists"}
)
# With subscribe, a rebalance may come between any two polls.
ALLOWED_WITH_SUBSCRIBE: Final = frozenset({"poll-skip", "nonmonotonic-poll"})
# With ww edges, writes that are not isolated close such cycles: t0 <ww t1 <wr t0.
ALLOWED_WITH_WW: Final = frozenset(
    {"G1c", "G1c-process", "G1c-realtime", "PL-2-cycle-exists", "strong-PL-2-cycle-exists"}
)


def allowed(options: CheckOptions) -> frozenset[str]:
    """The error types that are not bad by themselves."""
    result = ALWAYS_ALLOWED
    if "subscribe" in options.sub_via:
        result |= ALLOWED_WITH_SUBSCRIBE
    if options.ww_deps:
        result |= ALLOWED_WITH_WW
    return result
