"""The bugs that the log model can simulate: for each, what goes wrong, and the source of the idea."""

from __future__ import annotations

from typing import Final

LOG_BUGS: Final[dict[str, str]] = {
    "hw-mid-batch": "a fetch returns a batch although the high watermark lies within this batch (Bradstreet and Wong)",
    "active-rolled-wrong": "when retention deletes the active segment too, the new segment gets the base offset of "
    "the deleted one, not the log end offset (Bradstreet and Wong)",
    "retention-not-idempotent": "retention applies the limits of time and size before the log start offset, so a "
    "second pass deletes more (KAFKA-12177)",
    "tiered-deleted-early": "local segments are deleted before their remote copies are committed (Bradstreet and Wong)",
    "tiered-above-hw": "segments above the high watermark are copied to the remote tier (Bradstreet and Wong)",
    "aborted-served": "read_committed returns records of aborted transactions (KIP-98)",
    "retry-appended": "an idempotent producer's retry is appended again (KIP-98)",
    "start-goes-back": "after a clean restart the log start offset is that of the first segment, not the one that "
    "DeleteRecords set (KIP-107)",
    "compaction-loses-latest": "compaction keeps the second last record of a key, not the last one",
    "small-limit-empty": "a fetch whose byte limit is below the first batch's size never returns records (KIP-74)",
}
