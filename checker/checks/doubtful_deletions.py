"""Reasons for `unknown`: records are missing, and perhaps they were legally deleted.

They apply under the harness's own rules (native rules), not in Jepsen-compatible mode.

Each bucket of keys makes a report (`Doubts`). This module turns the reports into sentences that name a key and say what
to record to get a definite verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from checker.anomalies import lost_write
from checker.kernels import retention, unexcused_poll_steps
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.log_starts_and_ends import moved_starts
from harness.model.check_options import Settings
from harness.model.values_as_text import many

_MISSING: Final = {
    lost_write.COMPACTION: "the log cleaner may have removed them, and the history does not record how far it had "
    "cleaned; record cleaner-offset-checkpoint of the brokers before the cleanup policy is reverted",
    lost_write.UNFINISHED: "a DeleteRecords request of unknown outcome may have deleted them, and the log start was "
    "not checked afterwards; read the log once more from its beginning",
    lost_write.RESET: "the broker deleted records by itself, and a consumer whose position was deleted may have "
    "continued at the end of the log; read the log again with --auto-offset-reset earliest",
    lost_write.UNSEEN: "the brokers may have deleted them by age or size, and the log start was never checked; end the "
    "history with a check of every log (debug-topic-partitions, or final polls)",
    lost_write.REPLACED: "later records of unknown outcome with their keys may have replaced them, and the log cleaner "
    "removed them; run again",
    lost_write.UNPLACED: "they were sent with acks=0, so it is unknown whether they were in the deleted part of "
    "the log or never in the log; send with acks=1 or acks=all, or read the log before records are deleted",
}


@dataclass(frozen=True, slots=True)
class Doubts:
    """The report of one bucket of keys. A code is the integer that stands for a key in the tables.

    explained  codes of the keys for which the settings (such as retention limits) explain where the log starts
    missing    number of missing values that may have been deleted, per key and cause
    skipped    codes of the keys in which a consumer skipped records that may have been deleted
    """

    explained: tuple[int, ...] = ()
    missing: tuple[lost_write.Unsure, ...] = ()
    skipped: tuple[int, ...] = ()


def doubts_of(bucket: Bucket) -> Doubts:
    """Returns the report of one bucket."""
    skipped = sorted(set(bucket.data.keys[unexcused_poll_steps.unsure_skips(bucket)].tolist()))
    return Doubts(tuple(retention.explained(bucket)), tuple(lost_write.unsure(bucket)), tuple(skipped))


def reasons(
    doubts: Iterable[Doubts],
    ends: pa.Table,
    deletions: pa.Table,
    nemesis: pa.Table,
    settings: Settings,
    original: Mapping[int, Any],
) -> list[str]:
    """Returns the reasons why the verdict is unknown, as sentences. `original` maps codes to keys."""
    doubts = list(doubts)
    found = _moved(doubts, ends, deletions, nemesis, settings, original)
    for cause, why in _MISSING.items():
        rows = sorted((one.key, one.count) for doubt in doubts for one in doubt.missing if one.cause == cause)
        if rows:
            count, key = sum(row[1] for row in rows), original.get(rows[0][0], rows[0][0])
            are = "is" if count == 1 else "are"
            found.append(f"{many(count, 'record')} of {_keys(key, len(rows))} {are} missing: {why}")
    skipped = sorted(key for doubt in doubts for key in doubt.skipped)
    if skipped:
        key = original.get(skipped[0], skipped[0])
        found.append(
            f"consumers skipped records of {_keys(key, len(skipped))} that may have been deleted: the history does not "
            "record how far the log cleaner, DeleteRecords or retention had deleted, or what auto.offset.reset was"
        )
    return found


def _keys(key: Any, count: int) -> str:
    return f"key {key}" if count == 1 else f"{count} keys (for example key {key})"


def _moved(
    doubts: Iterable[Doubts],
    ends: pa.Table,
    deletions: pa.Table,
    nemesis: pa.Table,
    settings: Settings,
    original: Mapping[int, Any],
) -> list[str]:
    """Returns the reason for `unknown` if some logs start above offset 0 and nothing in the history explains why.

    Returns an empty list if there is no such log.
    """
    explained = {key for doubt in doubts for key in doubt.explained}
    moved = [one for one in moved_starts(ends, deletions) if one.key not in explained]
    if not moved:
        return []
    first = moved[0]
    key = original.get(first.key, first.key)
    text = f"the log of key {key} starts at offset {first.start}, and nothing in the history explains why"
    if len(moved) > 1:
        text += f" ({len(moved)} such logs in all)"
    if retention.clocks_changed(nemesis):
        text += "; a fault changed clocks, so it is unknown whether brokers considered its records too old"
    elif settings.record_bytes is None and retention.size_limit(settings) is not None:
        text += "; it is unknown whether the log exceeded its size limit, because the size of records is not recorded"
    return [text]
