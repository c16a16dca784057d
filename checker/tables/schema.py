"""The tables that a history becomes, and their schema version.

    tables/meta.json                 schema version, source files, counts, notes: see `ingest`
    tables/dictionary.json           texts of the keys and values that are not plain integers
    tables/ops/*.parquet             one row per op: OPS
    tables/sends/<bucket>/*.parquet  one row per send: SENDS, ops ascending
    tables/polls/<bucket>/*.parquet  one row per polled record, in the order it was seen: POLLS
    tables/commits/<bucket>/*.parquet  consumer offsets: COMMITS
    tables/<small>.parquet           ASSIGNS, REBALANCES, ENDS, DELETIONS, CLEANED, NEMESIS: not spread over buckets

A key is in bucket `key mod n`. An op's id is the index of its completion, or of its invocation when it never
completed (it then counts as `info`). Times are nanoseconds since the run began; -1 stands for none in the
kernels' tables, null in OPS.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SCHEMA: Final = 3

# Types of completions as small integers.
OK: Final = 0
INFO: Final = 1
FAIL: Final = 2
TYPE_CODES: Final = {"ok": OK, "info": INFO, "fail": FAIL}

# How a doubt about a history's times is worded: beside it, what they say of the order of ops proves nothing.
TIME_GOES_BACK: Final = "time goes back"

# The fs whose value is a list of micro-ops.
MICRO: Final = frozenset({"send", "poll", "txn"})
# The fs that replace what a consumer reads.
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
        ("offset", _I64),  # -1: not known
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
        ("value", _I64),  # EMPTY: the poll named the key and held no record of it
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
    [  # one row per key listed; a row with key EMPTY for an op that lists none
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
    [  # what an ok final poll said of each assigned key; position and end -1 from debug-topic-partitions
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
    [  # consumer offsets that an op committed to the group, or that were fetched as it was assigned keys
        ("op", _I64),
        ("invoke_index", _I64),
        ("process", _I64),
        ("type", pa.int8()),
        ("txn", pa.bool_()),  # the op's f is txn
        ("fetched", pa.bool_()),
        ("key", _I64),
        ("offset", _I64),  # the next one to read; -1: fetched, and there was none
    ]
)

DELETIONS: Final = pa.schema(
    [("op", _I64), ("type", pa.int8()), ("key", _I64), ("before", _I64), ("complete_ns", _I64)]
)

# How far the log cleaner had gone (exclusive), as cleaner-offset-checkpoint said when it was looked at.
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
# All that is spread over buckets; what ops say beside their records is collected together.
SPREAD: Final = {**BUCKETED, "commits": COMMITS}
BESIDE: Final = {**SMALL, "commits": COMMITS}
# The columns that kernels read.
KERNEL: Final = {
    "sends": tuple(SENDS.names),
    "polls": tuple(name for name in POLLS.names if name != "invoke_ns"),
}


def is_one(table: pa.Table, name: str, texts: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Per row: whether a column of texts, plain or as a dictionary, holds one of these."""
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
