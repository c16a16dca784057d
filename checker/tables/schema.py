"""The schemas of a history's tables, and their version.

    tables/_schema.json              schema version, source files, counts, notes: see checker.tables.make_tables
    tables/_dictionary.json          texts of the keys and values that are not plain integers
    tables/ops/*.parquet             one row per op: OPS
    tables/sends/<bucket>/*.parquet  one row per send, in ascending order of ops: SENDS
    tables/polls/<bucket>/*.parquet  one row per polled record, in the order polled: POLLS
    tables/commits/<bucket>/*.parquet  consumer offsets: COMMITS
    tables/deliveries/<bucket>/*.parquet        records that share groups delivered: DELIVERIES
    tables/acknowledgements/<bucket>/*.parquet  acknowledgements to share groups: ACKNOWLEDGEMENTS
    tables/<small>.parquet           ASSIGNS, REBALANCES, ENDS, DELETIONS, CLEANED, NEMESIS, and of share groups
                                     SHARE_OPS, SHARE_OFFSETS, DEAD_LETTERS: not split into buckets

With n buckets, a key is in bucket `key mod n`. An op's id is the index of its completion. An op that never completed
counts as `info`, and its id is the index of its invocation. Times are nanoseconds since the run began. A missing time
is -1 in the kernels' tables and null in OPS.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SCHEMA: Final = 3

# Completion types as small integers.
OK: Final = 0
INFO: Final = 1
FAIL: Final = 2
TYPE_CODES: Final = {"ok": OK, "info": INFO, "fail": FAIL}

# Starts the doubt about a history whose times decrease: its times then prove nothing about the order of ops.
TIME_GOES_BACK: Final = "time goes back"

# Ops (by f) whose value is a list of micro-ops.
MICRO: Final = frozenset({"send", "poll", "txn"})
# Codes of the ops that replace a consumer's partitions.
ASSIGN: Final = 0
SUBSCRIBE: Final = 1

_I64 = pa.int64()

OPS: Final = pa.schema(
    [
        ("index", _I64),
        ("invoke_index", _I64),
        ("process", _I64),
        ("type", pa.string()),
        ("f", pa.string()),
        ("invoke_ns", _I64),
        ("complete_ns", _I64),
        ("error", pa.string()),
        ("final", pa.bool_()),
    ]
)

SENDS: Final = pa.schema(
    [
        ("key", _I64),
        ("value", _I64),
        ("offset", _I64),  # -1: unknown
        ("op", _I64),
        ("mop", _I64),
        ("process", _I64),
        ("type", pa.int8()),
        ("txn", pa.bool_()),  # the op's f is txn
        ("invoke_ns", _I64),
        ("complete_ns", _I64),
    ]
)

POLLS: Final = pa.schema(
    [
        ("key", _I64),
        ("value", _I64),  # EMPTY: the poll listed the key without records
        ("offset", _I64),
        ("op", _I64),
        ("mop", _I64),
        ("process", _I64),
        ("type", pa.int8()),
        ("invoke_ns", _I64),
        ("complete_ns", _I64),
    ]
)

ASSIGNS: Final = pa.schema(
    [  # one row per listed key; one row with key EMPTY for an op that lists none
        ("op", _I64),
        ("process", _I64),
        ("type", pa.int8()),
        ("how", pa.int8()),  # ASSIGN or SUBSCRIBE
        ("seek", pa.bool_()),
        ("key", _I64),
    ]
)

REBALANCES: Final = pa.schema([("op", _I64), ("process", _I64), ("event", pa.string()), ("key", _I64)])

ENDS: Final = pa.schema(
    [  # for each assigned key of an ok final poll; position is -1 from debug-topic-partitions
        ("op", _I64),
        ("process", _I64),
        ("final", pa.bool_()),
        ("key", _I64),
        ("position", _I64),
        ("log_start", _I64),
        ("end", _I64),
        ("invoke_ns", _I64),
        ("complete_ns", _I64),
    ]
)

COMMITS: Final = pa.schema(
    [  # consumer offsets that an op committed, or that were fetched when keys were assigned
        ("op", _I64),
        ("invoke_index", _I64),
        ("process", _I64),
        ("type", pa.int8()),
        ("txn", pa.bool_()),  # the op's f is txn
        ("fetched", pa.bool_()),
        ("key", _I64),
        ("offset", _I64),  # the next offset to read; -1: fetched, but none was committed
    ]
)

DELETIONS: Final = pa.schema(
    [("op", _I64), ("type", pa.int8()), ("key", _I64), ("before", _I64), ("complete_ns", _I64)]
)

# How far the log cleaner had cleaned (exclusive), by cleaner-offset-checkpoint at the time of reading.
CLEANED: Final = pa.schema([("op", _I64), ("key", _I64), ("before", _I64)])

NEMESIS: Final = pa.schema(
    [
        ("index", _I64),
        ("time_ns", _I64),
        ("f", pa.string()),
        ("value", pa.string()),
        ("fault", pa.string()),
        ("span", pa.string()),
        ("phase", pa.string()),
    ]
)

# Kinds of the ops of share groups, by f (SHARE_OPS), of acknowledgements, and of the error of an acknowledgement.
SHARE_FS: Final = {
    "share-poll": 0,
    "share-acknowledge": 1,
    "share-close": 2,
    "share-offsets": 3,
    "share-dead-letters": 4,
}
SHARE_POLL, SHARE_ACKNOWLEDGE, SHARE_CLOSE, _, SHARE_DEAD_LETTERS = SHARE_FS.values()
ACK_KINDS: Final = {"accept": 0, "release": 1, "reject": 2, "renew": 3}
ACCEPT, RELEASE, REJECT, RENEW = ACK_KINDS.values()
NO_ERROR: Final = 0
INVALID_STATE: Final = 1  # INVALID_RECORD_STATE
OTHER_ERROR: Final = 2

SHARE_OPS: Final = pa.schema(
    [  # one row per op of a share group
        ("op", _I64),
        ("process", _I64),
        ("type", pa.int8()),
        ("kind", pa.int8()),  # by SHARE_FS
        ("group", _I64),
        ("member", _I64),  # EMPTY: none
        ("final", pa.bool_()),
        ("records", _I64),  # the number of records that a poll returned
        ("invoke_ns", _I64),
        ("complete_ns", _I64),
    ]
)

DELIVERIES: Final = pa.schema(
    [  # in the order in which records were returned
        ("key", _I64),
        ("offset", _I64),
        ("value", _I64),
        ("count", _I64),  # the delivery count
        ("place", _I64),  # position in the poll
        ("renewed", pa.bool_()),  # returned again after its lock was renewed, which is no new delivery
        ("op", _I64),
        ("group", _I64),
        ("member", _I64),
        ("final", pa.bool_()),
        ("invoke_ns", _I64),
        ("complete_ns", _I64),
    ]
)

ACKNOWLEDGEMENTS: Final = pa.schema(
    [
        ("key", _I64),
        ("offset", _I64),
        ("place", _I64),  # position in the op
        ("kind", pa.int8()),  # by ACK_KINDS
        ("type", pa.int8()),  # ok: it holds, fail: it does not, info: unknown
        ("error", pa.int8()),  # NO_ERROR, INVALID_STATE, OTHER_ERROR
        ("by_poll", pa.bool_()),  # a poll reported the result; the acknowledgement was made before
        ("op", _I64),
        ("group", _I64),
        ("member", _I64),
        ("invoke_ns", _I64),
        ("complete_ns", _I64),
    ]
)

SHARE_OFFSETS: Final = pa.schema(
    [("op", _I64), ("group", _I64), ("key", _I64), ("start", _I64), ("invoke_ns", _I64), ("complete_ns", _I64)]
)

DEAD_LETTERS: Final = pa.schema([("op", _I64), ("group", _I64), ("key", _I64), ("offset", _I64)])

SMALL: Final = {
    "assigns": ASSIGNS,
    "rebalances": REBALANCES,
    "ends": ENDS,
    "deletions": DELETIONS,
    "cleaned": CLEANED,
    "nemesis": NEMESIS,
    "share_ops": SHARE_OPS,
    "share_offsets": SHARE_OFFSETS,
    "dead_letters": DEAD_LETTERS,
}
# Added later: folders made by earlier versions do not have them.
OF_SHARE_GROUPS: Final = frozenset({"share_ops", "share_offsets", "dead_letters"})
BUCKETED: Final = {"sends": SENDS, "polls": POLLS}
# SPREAD: all tables that are split into buckets. BESIDE: all tables except sends and polls.
_SPREAD_BESIDE: Final = {"commits": COMMITS, "deliveries": DELIVERIES, "acknowledgements": ACKNOWLEDGEMENTS}
SPREAD: Final = {**BUCKETED, **_SPREAD_BESIDE}
BESIDE: Final = {**SMALL, **_SPREAD_BESIDE}
# The columns that kernels read.
KERNEL: Final = {
    "sends": tuple(SENDS.names),
    "polls": tuple(name for name in POLLS.names if name != "invoke_ns"),
}


def is_one(table: pa.Table, name: str, texts: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Returns, for each row, whether its text in the column `name` is one of `texts`.

    The column may be dictionary-encoded.
    """
    result = np.zeros(table.num_rows, np.bool_)
    begin = 0
    for chunk in table.column(name).chunks:
        place = slice(begin, begin + len(chunk))
        if pa.types.is_dictionary(chunk.type):
            wanted = np.array([text in texts for text in chunk.dictionary.to_pylist()], np.bool_)
            result[place] = wanted[chunk.indices.to_numpy()]
        else:
            result[place] = pc.is_in(chunk, pa.array(texts)).to_numpy(zero_copy_only=False)
        begin += len(chunk)
    return result
