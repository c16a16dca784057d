"""What was still there when logs were read once more from the beginning to the end."""

from __future__ import annotations

import numpy as np

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.log_starts_and_ends import FOREVER, rereads_of
from checker.tables.packing import Bools, Ints


def standing(bucket: Bucket) -> tuple[Bools, Ints]:
    """(per pair: it was read then, per key rank: from which op on, at the earliest; FOREVER where never)."""
    data, polls = bucket.data, bucket.polls
    again = rereads_of(bucket.small.ends, bucket.small.assigns)
    place = bucket.key_ranks(again.key)
    ours = place >= 0
    place, process, since = place[ours], again.process[ours], again.since[ours]
    earliest = np.full(len(data.keys), FOREVER, np.int64)
    np.minimum.at(earliest, place, since)
    read = np.zeros(len(data.pair_key), np.bool_)
    for reader in np.unique(process):
        first = np.full(len(data.keys), FOREVER, np.int64)
        mine = process == reader
        first[place[mine]] = since[mine]
        rows = polls.process == reader
        read[polls.pair[rows][polls.op[rows] > first[polls.key[rows]]]] = True
    return read, earliest
