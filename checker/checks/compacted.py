"""The compacted check: counts what the log cleaner did to the records of a run with the compacted workload.

    replaced    number of records that a later committed record with their key has replaced
    removed     how many of these were gone when the logs were reread at the end
    last        number of records that are the last of their key
    tombstones  how many of these are tombstones
    kept        how many of the last records were found at the end

The queue check judges whether a record is missing that the cleaner had to keep (`lost-write`), and whether an aborted
one was read (`g1a`). If the cleaner removed nothing, the run did not test compaction, and the verdict is unknown.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.compaction import last_of_record_keys, replaced_by_record_key
from checker.kernels.final_rereads import found_on_reread
from checker.tables.buckets_of_a_history import Part, Source
from checker.verdict import unknown_reasons
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result
from harness.model.record_keys import TOMBSTONE_EVERY

COUNTS = ("replaced", "removed", "last", "tombstones", "kept")


def counts(part: Part, options: CheckOptions) -> Counter[str]:
    """Returns the counts of one bucket."""
    data, small = part.load()
    bucket = Bucket(data, small, data.visible_info(), options)
    surely, _ = bucket.once(replaced_by_record_key)
    last = bucket.once(last_of_record_keys)
    found, _ = bucket.once(found_on_reread)
    dead = data.pair_value % TOMBSTONE_EVERY == TOMBSTONE_EVERY - 1
    flags = (surely, surely & ~found, last, last & dead, last & found)
    return Counter({name: int(np.count_nonzero(each)) for name, each in zip(COUNTS, flags, strict=True)})


def check(source: Source, options: CheckOptions) -> Result:
    """Counts the records of a history. Raises BadHistory."""
    total: Counter[str] = Counter()
    for each in source.map(partial(counts, options=options)):
        total.update(each)
    figures = {name: total[name] for name in COUNTS}
    reasons = [*source.meta["doubts"], *unknown_reasons.truncated_history(source.meta)]
    if not total["removed"]:
        reasons.append(
            "the log cleaner removed no record, so compaction was not tested; use a longer --time-limit, or more "
            "records for fewer keys (--record-keys, --key-count)"
        )
    return Result("unknown" if reasons else "valid", None, tuple(reasons), (), {"compacted": figures}, VERSION)
