"""The native verdict: why what is missing may have been deleted, or lost, and nobody can tell.

A bucket says what is missing in doubt, where a consumer passed over what may have been deleted, and which log
starts settings explain; the rest is here, each a sentence with the key and what would tell.
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

_MISSING: Final = {
    lost_write.COMPACTION: "the log cleaner may have taken them, and how far it had gone is not on record: "
    "record cleaner-offset-checkpoint of the brokers before the policy is taken back",
    lost_write.UNFINISHED: "a delete-records request of unknown outcome may have taken them, and nobody looked at "
    "the log start later: read the log once more from its beginning",
    lost_write.RESET: "the broker deleted records by itself, and a reader whose place was deleted goes on at the end "
    "of the log: read it again with --auto-offset-reset earliest",
    lost_write.UNSEEN: "the brokers may have deleted them by age or size, and nobody looked at the log start: end the "
    "history with a look at every log (debug-topic-partitions, or final polls)",
    lost_write.UNPLACED: "they were sent with acks=0, so whether they were in the part of the log that was deleted, or "
    "never in the log, is not known: send with acks=1 or acks=all, or read before records are deleted",
}


@dataclass(frozen=True, slots=True)
class Doubts:
    """What one bucket gives back.

    explained  codes of keys whose log start the settings explain
    missing    values that something may have deleted
    skipped    codes of keys of which a consumer passed over what may have been deleted
    """

    explained: tuple[int, ...] = ()
    missing: tuple[lost_write.Unsure, ...] = ()
    skipped: tuple[int, ...] = ()


def doubts_of(bucket: Bucket) -> Doubts:
    """What is in doubt in one bucket."""
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
    """Why the verdict is withheld. `original`: keys by their codes."""
    doubts = list(doubts)
    found = _moved(doubts, ends, deletions, nemesis, settings, original)
    for cause, why in _MISSING.items():
        rows = sorted((one.key, one.count) for doubt in doubts for one in doubt.missing if one.cause == cause)
        if rows:
            count, key = sum(row[1] for row in rows), original.get(rows[0][0], rows[0][0])
            found.append(f"{count} records of {_keys(key, len(rows))} are missing: {why}")
    skipped = sorted(key for doubt in doubts for key in doubt.skipped)
    if skipped:
        key = original.get(skipped[0], skipped[0])
        found.append(
            f"consumers passed over records of {_keys(key, len(skipped))} that may have been deleted: how far the "
            "log cleaner, delete-records or retention had gone, or how consumers reset (auto.offset.reset), is not on "
            "record"
        )
    return found


def _keys(key: Any, count: int) -> str:
    return f"key {key}" if count == 1 else f"{count} keys (of key {key}, for one)"


def _moved(
    doubts: Iterable[Doubts],
    ends: pa.Table,
    deletions: pa.Table,
    nemesis: pa.Table,
    settings: Settings,
    original: Mapping[int, Any],
) -> list[str]:
    """Which logs lost their beginning to nobody knows what."""
    explained = {key for doubt in doubts for key in doubt.explained}
    moved = [one for one in moved_starts(ends, deletions) if one.key not in explained]
    if not moved:
        return []
    first = moved[0]
    key = original.get(first.key, first.key)
    text = f"the log of key {key} starts at {first.start}, and nothing in the history deleted it"
    if len(moved) > 1:
        text += f" (so for {len(moved)} keys)"
    if retention.clocks_changed(nemesis):
        text += "; clocks were changed, so whether brokers took its records for too old cannot be known"
    elif settings.record_bytes is None and retention.size_limit(settings) is not None:
        text += "; whether it had grown too large cannot be known: how many bytes a record takes is not on record"
    return [text]
