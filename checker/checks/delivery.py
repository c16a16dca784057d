"""The delivery check: counts records by the outcome of their send and by the number of copies in the log.

    outcome       the outcome of the send: acknowledged, failed or unknown
    copies        the number of offsets at which the record was read: "0", "1", ... (100 means 100 or more)
    lost          number of records that were acknowledged and are not in the log
    phantoms      number of records that were not acknowledged and are in the log
    duplicates    number of records that are in the log more than once
    out_of_order  number of records that overtook another record: the same process had sent the other record to the same
                  key earlier, but the first copy of the other record has a higher offset

The check only counts and judges nothing; the counts are in `statistics["delivery"]`. Which counts are legal depends on
the settings, and the queue check judges that. The verdict is unknown if the history is incomplete, because counts of
absent records are wrong then. A record is acknowledged even if the acknowledgement has no offset (acks=0). The check
was written for the study workloads/experiments/delivery-study.yaml.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from checker.tables.buckets_of_a_history import Part, Source
from checker.tables.columns import Data
from checker.tables.packing import begins, order
from checker.tables.schema import FAIL, OK
from checker.verdict import unknown_reasons
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result

OUTCOMES: Final = ("acknowledged", "failed", "unknown")
COPIES_MAX: Final = 100


def counts(part: Part) -> tuple[Counter[tuple[str, int]], int]:
    """Returns the counts of one bucket: records by (outcome, number of copies), and records out of order."""
    data, _ = part.load()
    copies, first = _copies(data)
    sends = data.sends
    acknowledged = (sends.type == OK) | (sends.offset >= 0)
    outcome = np.where(acknowledged, 0, np.where(sends.type == FAIL, 1, 2))
    found = np.minimum(copies[sends.pair], COPIES_MAX)
    cells, number = np.unique(outcome * (COPIES_MAX + 1) + found, return_counts=True)
    counted = {
        (OUTCOMES[cell // (COPIES_MAX + 1)], cell % (COPIES_MAX + 1)): n
        for cell, n in zip(cells.tolist(), number.tolist(), strict=True)
    }
    return Counter(counted), _out_of_order(data, first)


def _copies(data: Data) -> tuple[Any, Any]:
    """Returns, for each value, (the number of offsets at which it was read, the lowest of these offsets; -1: none)."""
    read = data.polls.where(data.polls.offset >= 0)
    by = order(read.pair, read.offset)
    pair, offset = read.pair[by], read.offset[by]
    new = begins(pair, offset)
    copies = np.bincount(pair[new], minlength=len(data.pair_key))
    first = np.full(len(data.pair_key), -1, np.int64)
    heads = np.flatnonzero(begins(pair))
    first[pair[heads]] = offset[heads]
    return copies, first


def _out_of_order(data: Data, first: Any) -> int:
    """Returns the number of sends with a lower offset than an earlier send of the same process to the same key.

    `first` is the lowest offset of each value.
    """
    sends = data.sends.where(first[data.sends.pair] >= 0)
    if len(sends) == 0:
        return 0
    by = order(sends.process, sends.key, sends.op, sends.mop)
    place, new = first[sends.pair[by]], begins(sends.process[by], sends.key[by])
    # Each group is shifted above the one before it, so that a single running maximum suffices.
    lift = (np.cumsum(new) - 1) * (int(place.max()) + 1)
    highest = np.maximum.accumulate(place + lift)
    return int(np.count_nonzero((place + lift)[1:] < highest[:-1]))


def check(source: Source, options: CheckOptions) -> Result:
    """Counts the records of a history. The verdict is valid unless the history is incomplete. Raises BadHistory."""
    cells: Counter[tuple[str, int]] = Counter()
    out_of_order = 0
    for counted, odd in source.map(counts):
        cells.update(counted)
        out_of_order += odd
    delivery: dict[str, Any] = {
        outcome: {str(n): cells[outcome, n] for n in sorted(n for reported, n in cells if reported == outcome)}
        for outcome in OUTCOMES
    }
    delivery["lost"] = cells["acknowledged", 0]
    delivery["phantoms"] = sum(n for (outcome, at), n in cells.items() if at and outcome != "acknowledged")
    delivery["duplicates"] = sum(n for (_, at), n in cells.items() if at > 1)
    delivery["in_log"] = sum(number for (_, n), number in cells.items() if n)
    delivery["copies"] = sum(n * number for (_, n), number in cells.items())
    delivery["out_of_order"] = out_of_order
    reasons = (*source.meta["doubts"], *unknown_reasons.truncated_history(source.meta))
    return Result("unknown" if reasons else "valid", None, reasons, (), {"delivery": delivery}, VERSION)
