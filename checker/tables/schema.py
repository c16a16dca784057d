"""The schemas of a history's tables, and their version.

    tables/_schema.json              schema version, source files, counts, notes: see checker.tables.make_tables
    tables/_dictionary.json          texts of the keys and values that are not plain integers
    tables/ops/*.parquet             one row per op: OPS
    tables/sends/<bucket>/*.parquet  one row per send, in ascending order of ops: SENDS
    tables/polls/<bucket>/*.parquet  one row per polled record, in the order polled: POLLS
    tables/commits/<bucket>/*.parquet  consumer offsets: COMMITS
    tables/<small>.parquet           ASSIGNS, REBALANCES, ENDS, DELETIONS, CLEANED, NEMESIS: not split into buckets

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

SMALL: Final = {
    "assigns": ASSIGNS,
    "rebalances": REBALANCES,
    "ends": ENDS,
    "deletions": DELETIONS,
    "cleaned": CLEANED,
    "nemesis": NEMESIS,
}
BUCKETED: Final = {"sends": SENDS, "polls": POLLS}
# SPREAD: all tables that are split into buckets. BESIDE: all tables except sends and polls.
SPREAD: Final = {**BUCKETED, "commits": COMMITS}
BESIDE: Final = {**SMALL, "commits": COMMITS}
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
