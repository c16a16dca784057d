"""The anomalies by name: one line each. A new one is one new file, its test, and its line here."""

from __future__ import annotations

from typing import Final

from checker.anomalies import (
    duplicate,
    g1a,
    inconsistent_offsets,
    int_nonmonotonic_poll,
    int_nonmonotonic_send,
    int_poll_skip,
    int_send_skip,
    lost_write,
    nonmonotonic_poll,
    nonmonotonic_send,
    offset_regression,
    phantom_read,
    poll_skip,
    precommitted_read,
    stale_send,
    unseen,
)
from checker.anomalies.model import Anomaly

ANOMALIES: Final[dict[str, Anomaly]] = {
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
    "stale-send": stale_send.ANOMALY,
    "int-nonmonotonic-send": int_nonmonotonic_send.ANOMALY,
    "int-send-skip": int_send_skip.ANOMALY,
}
