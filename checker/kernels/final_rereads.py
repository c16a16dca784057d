"""Finds which records were still in a log when a consumer reread the log from its beginning to its end."""

from __future__ import annotations

import numpy as np

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.log_starts_and_ends import FOREVER, rereads_of
from checker.tables.packing import Bools, Ints
from checker.tables.schema import OK


def found_on_reread(bucket: Bucket) -> tuple[Bools, Ints]:
    """Returns what was found when consumers reread logs from their beginning: (found, since).

    found  for each value: whether a consumer polled it when it reread the log
    since  for each key: the op in which the first consumer began to reread the log; FOREVER if none did
    """
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


def missed(bucket: Bucket) -> tuple[Bools, Bools]:
    """Finds the acknowledged values that a consumer did not find when it reread the log from its beginning.

    Returns (surely missing, perhaps missing): two flags for each (key, value) pair. Only values that no deletion can
    have removed are considered: their offset is between the log start and the log end that the consumer saw, and not
    below the offset of any DeleteRecords request.

    A value is perhaps missing if the log start had moved and auto.offset.reset is not `earliest`. The consumer's
    position may then have been deleted while it was reading. In this case the consumer continued at the end of the
    log, and did not read the records in between.
    """
    data, sends, polls, small = bucket.data, bucket.sends, bucket.polls, bucket.small
    surely, perhaps = np.zeros((2, len(data.pair_key)), np.bool_)
    earliest = bucket.options.settings.auto_offset_reset == "earliest"
    requests = {name: small.deletions.column(name).to_numpy() for name in ("key", "before")}
    place = bucket.key_ranks(requests["key"])
    requested = np.zeros(len(data.keys), np.int64)
    before = np.where(requests["before"] < 0, FOREVER, requests["before"])
    np.maximum.at(requested, place[place >= 0], before[place >= 0])
    acked = (sends.type == OK) & (sends.offset >= 0)
    offset, acked_by = np.full((2, len(data.pair_key)), FOREVER, np.int64)
    offset[sends.pair[acked]], acked_by[sends.pair[acked]] = sends.offset[acked], sends.op[acked]
    again = rereads_of(small.ends, small.assigns)
    checks = {name: small.ends.column(name).to_numpy() for name in ("key", "process", "log_start", "end")}
    for reader in np.unique(again.process):
        rank = bucket.key_ranks(again.key[again.process == reader])
        since = np.full(len(data.keys), -1, np.int64)
        since[rank[rank >= 0]] = again.since[again.process == reader][rank >= 0]
        mine = checks["process"] == reader
        place = bucket.key_ranks(checks["key"][mine])
        log_start, end = np.zeros((2, len(data.keys)), np.int64)
        np.maximum.at(log_start, place[place >= 0], checks["log_start"][mine][place >= 0])
        start = np.maximum(requested, log_start)
        np.maximum.at(end, place[place >= 0], checks["end"][mine][place >= 0])
        rows = polls.process == reader
        read = np.zeros(len(data.pair_key), np.bool_)
        read[polls.pair[rows][polls.op[rows] > since[polls.key[rows]]]] = True
        key = data.pair_key
        unread = (acked_by < since[key]) & (offset >= start[key]) & (offset < end[key]) & ~read
        certain = earliest | (log_start == 0)[key]
        surely |= unread & certain
        perhaps |= unread & ~certain
    return surely, perhaps
