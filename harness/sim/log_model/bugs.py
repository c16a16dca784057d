"""Bugs that the log model can be given: what goes wrong, and where the idea comes from."""

from __future__ import annotations

from typing import Final

LOG_BUGS: Final[dict[str, str]] = {
    "hw-mid-batch": "a batch is served though the high watermark is in its middle (Bradstreet and Wong)",
    "active-rolled-wrong": "where retention takes the active segment too, the new one gets its base offset, "
    "not log end (Bradstreet and Wong)",
    "retention-not-idempotent": "retention looks at time and size before log start: a second pass deletes "
    "more (KAFKA-12177)",
    "tiered-deleted-early": "local segments go before their copies are committed (Bradstreet and Wong)",
    "tiered-above-hw": "segments above the high watermark are copied (Bradstreet and Wong)",
    "aborted-served": "read_committed sees records of aborted transactions (KIP-98)",
    "retry-appended": "an idempotent producer's retry is appended again (KIP-98)",
    "start-goes-back": "after a clean restart log start is that of the first segment, not what DeleteRecords "
    "made it (KIP-107)",
    "compaction-loses-latest": "of a key with several records compaction keeps the last but one",
    "small-limit-empty": "a fetch with a limit below the first batch gives nothing, for ever (KIP-74)",
}
