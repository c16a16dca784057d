"""The catalogue of all anomalies by name. A new anomaly needs a file of its own, tests, and one line here.

The catalogue is used by the checks, for the verdict and its guarantees, for the documentation, and by reports.
"""

from __future__ import annotations

from typing import Final

from checker.anomalies import (
    batch_order,
    concurrent_owners,
    dead_letter_missing,
    delivery_count,
    duplicate,
    feature_regression,
    g1a,
    inconsistent_offsets,
    int_nonmonotonic_poll,
    int_nonmonotonic_send,
    int_poll_skip,
    int_send_skip,
    log_divergence,
    lost_write,
    nonmonotonic_poll,
    nonmonotonic_send,
    offset_not_kept,
    offset_regression,
    overlapping_delivery,
    phantom_read,
    poll_skip,
    precommitted_read,
    record_not_kept,
    recovery_divergence,
    redelivered_after_accept,
    released_not_redelivered,
    replica_difference,
    share_aborted_read,
    share_lost,
    stale_send,
    start_offset_regression,
    torn_transaction,
    transaction_not_kept,
    unexplained_invalid_state,
    unseen,
    version_does_not_start,
)
from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.cycle_anomalies import CYCLES
from checker.anomalies.metadata_log import METADATA
from checker.anomalies.pipeline_offsets import OFFSETS
from checker.anomalies.pipeline_outputs import OUTPUTS
from checker.anomalies.stuck import STUCK

CATALOGUE: Final[dict[str, Anomaly]] = {
    "lost-write": lost_write.ANOMALY,
    "G1a": g1a.ANOMALY,
    "precommitted-read": precommitted_read.ANOMALY,
    "phantom-read": phantom_read.ANOMALY,
    "inconsistent-offsets": inconsistent_offsets.ANOMALY,
    "duplicate": duplicate.ANOMALY,
    "unseen": unseen.ANOMALY,
    "int-poll-skip": int_poll_skip.ANOMALY,
    "int-nonmonotonic-poll": int_nonmonotonic_poll.ANOMALY,
    "poll-skip": poll_skip.ANOMALY,
    "nonmonotonic-poll": nonmonotonic_poll.ANOMALY,
    "nonmonotonic-send": nonmonotonic_send.ANOMALY,
    "offset-regression": offset_regression.ANOMALY,
    "concurrent-owners": concurrent_owners.ANOMALY,
    "stale-send": stale_send.ANOMALY,
    "int-nonmonotonic-send": int_nonmonotonic_send.ANOMALY,
    "int-send-skip": int_send_skip.ANOMALY,
    "torn-transaction": torn_transaction.ANOMALY,
    **CYCLES,
    **OUTPUTS,
    **OFFSETS,
    "recovery-divergence": recovery_divergence.ANOMALY,
    "replica-difference": replica_difference.ANOMALY,
    "log-divergence": log_divergence.ANOMALY,
    "share-lost": share_lost.ANOMALY,
    "redelivered-after-accept": redelivered_after_accept.ANOMALY,
    "overlapping-delivery": overlapping_delivery.ANOMALY,
    "delivery-count": delivery_count.ANOMALY,
    "released-not-redelivered": released_not_redelivered.ANOMALY,
    "share-aborted-read": share_aborted_read.ANOMALY,
    "start-offset-regression": start_offset_regression.ANOMALY,
    "unexplained-invalid-state": unexplained_invalid_state.ANOMALY,
    "batch-order": batch_order.ANOMALY,
    "dead-letter-missing": dead_letter_missing.ANOMALY,
    "feature-regression": feature_regression.ANOMALY,
    "record-not-kept": record_not_kept.ANOMALY,
    "offset-not-kept": offset_not_kept.ANOMALY,
    "transaction-not-kept": transaction_not_kept.ANOMALY,
    "version-does-not-start": version_does_not_start.ANOMALY,
    **METADATA,
    **{row.name: row for row in STUCK.values()},
}
