"""Offset regression: a consumer group's committed offset went back, or came from an aborted transaction.

The offsets are those that ops recorded: `extra.committed` of the op, and `committed` of the assignment events in the
rebalance log. An op takes effect between its invocation and its completion. There are three kinds, per key:

- back     an `ok` op committed an offset, and an op that was invoked later committed a lower one. This must not
           happen: a group fences members of older generations, and a new owner starts at the committed offset.
- lost     an `ok` op committed an offset, and an assignment in an op that was invoked later found a lower one, or none
- aborted  an assignment found an offset that only aborted transactions had sent

Under read_uncommitted the offsets committed in an `ok` transaction may become visible late, so they are never reported
as lost. The offsets of `info` ops, and those of ops that failed outside a transaction, may or may not have been
committed. Offsets that no op recorded, such as those of automatic commits, are not considered. There is one witness
{key, kind, committed, found, ops} for each op and key whose offset regressed. `ops` contains the op that committed (or
aborted), then the op whose offset regressed. Native rules only. Source: Kafka documentation, Design, 4.5 (consumer
position), 4.7 (offsets in transactions); KIP-98; KIP-447 (fencing by generation, stable offsets).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, Guarantee, group_log_kept, one_reader
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.witness import nullable, pairs_of, table
from checker.tables.packing import Bools, Ints, begins, empty, member, order, ranks
from checker.tables.schema import FAIL, OK
from harness.model.values_as_text import joined

BACK: Final = 0
LOST: Final = 1
ABORTED: Final = 2
KINDS: Final = ("back", "lost", "aborted")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the table COMMITS, as columns: id and invocation index of the op, key, committed offset.

    A key is given as its index in `Data.keys`.
    """

    op: Ints
    begun: Ints
    key: Ints
    offset: Ints

    def where(self, rows: Bools) -> Rows:
        return Rows(*(getattr(self, name)[rows] for name in self.__slots__))


def _rows(bucket: Bucket) -> tuple[Rows, Bools, Bools, Ints]:
    """Returns (rows, fetched, transactional, type) for the keys of this bucket.

    The last three have one element per row.
    `fetched` tells whether the offset was fetched at an assignment, and not committed. `transactional` tells whether
    the op is a transaction. `type` is the type of the op.
    """
    commits = bucket.small.commits

    def column(name: str) -> Ints:
        result: Ints = commits.column(name).to_numpy().astype(np.int64, copy=False)
        return result

    key = bucket.key_ranks(column("key"))
    mine = key >= 0
    rows = Rows(column("op"), column("invoke_index"), key, column("offset")).where(mine)
    all_txn = bucket.options.settings.txn
    txn = column("txn")[mine] > 0 if all_txn is None else np.full(len(rows.op), all_txn, np.bool_)
    return rows, column("fetched")[mine] > 0, txn, column("type")[mine]


def _highest_before(done: Rows, key: Ints, begun: Ints) -> tuple[Ints, Ints]:
    """Returns, for each (key, time), the highest offset committed earlier, and the op that committed it; -1: none.

    The times are in `begun`, the commits in `done`.
    """
    if len(done.op) == 0:
        return np.full(len(key), -1, np.int64), np.full(len(key), -1, np.int64)
    by = order(done.key, done.op)
    keys, ops, offsets = done.key[by], done.op[by], done.offset[by]
    # The running maximum within each key. Adding a multiple of the number of ranks keeps the keys apart.
    distinct, rank = ranks(offsets)
    running = np.maximum.accumulate(keys * len(distinct) + rank)
    highest = distinct[running % len(distinct)]
    rows = np.arange(len(by), dtype=np.int64)
    rose = begins(keys) | np.append(True, running[1:] > running[:-1])
    owner = ops[np.maximum.accumulate(np.where(rose, rows, 0))]
    top = max(int(ops.max()), int(begun.max()) if len(begun) else 0) + 1
    place = np.searchsorted(keys * top + ops, key * top + begun) - 1
    committed = place >= 0
    committed[committed] = keys[place[committed]] == key[committed]
    place = np.maximum(place, 0)
    return np.where(committed, highest[place], -1), np.where(committed, owner[place], -1)


def _regressed(bucket: Bucket, done: Rows, later: Rows, kind: int) -> dict[str, Ints]:
    """Returns a witness for each row of `later` with a lower offset than an earlier row of `done` for its key.

    `kind`: the kind of these witnesses.
    """
    highest, owner = _highest_before(done, later.key, later.begun)
    odd = later.offset < highest
    return {
        "key": bucket.data.keys[later.key[odd]],
        "kind": np.full(int(odd.sum()), kind, np.int64),
        "committed": highest[odd],
        "found": later.offset[odd],
        "first": owner[odd],
        "op": later.op[odd],
    }


def _aborted(bucket: Bucket, done: Rows, aborted: Rows, fetched: Rows) -> dict[str, Ints]:
    """Returns witnesses for the rows of `fetched` whose offset was committed only by aborted transactions.

    aborted  the commits of aborted transactions
    done     all other commits
    """
    keys = np.concatenate([done.key, aborted.key, fetched.key])
    offsets = np.concatenate([done.offset, aborted.offset, fetched.offset])
    distinct, rank = ranks(offsets)
    code = keys * max(1, len(distinct)) + rank
    sent, rolled_back, found = np.split(code, [len(done.key), len(done.key) + len(aborted.key)])
    by = order(rolled_back, aborted.op) if len(rolled_back) else empty()
    odd = member(found, rolled_back[by]) & ~member(found, np.unique(sent)) & (fetched.offset >= 0)
    place = np.searchsorted(rolled_back[by], found[odd], side="right") - 1
    return {
        "key": bucket.data.keys[fetched.key[odd]],
        "kind": np.full(int(odd.sum()), ABORTED, np.int64),
        "committed": np.full(int(odd.sum()), -1, np.int64),
        "found": fetched.offset[odd],
        "first": aborted.op[by][place],
        "op": fetched.op[odd],
    }


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each op and key whose committed or fetched offset regressed."""
    rows, fetched, txn, type_ = _rows(bucket)
    ok, aborted = ~fetched & (type_ == OK), ~fetched & (type_ == FAIL) & txn
    # Until a transaction's markers are written, its offsets are pending. Consumers that require stable offsets
    # (read_committed) wait for them; others are given the older offset.
    at_once = ok & ~txn if bucket.options.settings.isolation_level == "read_uncommitted" else ok
    done, found = rows.where(ok), rows.where(fetched)
    parts = [
        _regressed(bucket, done, done, BACK),
        _regressed(bucket, rows.where(at_once), found, LOST),
        _aborted(bucket, rows.where(~fetched & ~aborted), rows.where(aborted), found),
    ]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    by = order(joined["op"], joined["key"], joined["kind"])
    joined = {name: column[by] for name, column in joined.items()}
    return table(
        {
            "key": joined["key"],
            "kind": pa.array([KINDS[kind] for kind in joined["kind"].tolist()], pa.string()),
            "committed": nullable(joined["committed"]),
            "found": nullable(joined["found"]),
            "ops": pairs_of(joined["first"], joined["op"]),
        }
    )


def keep_regressions(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Removes the witnesses of kind `aborted`: a missing line may contain another commit of the same offset."""
    kinds = rows.column("kind").to_pylist()
    return rows.filter(pa.array([kind != KINDS[ABORTED] for kind in kinds], pa.bool_()))


def prose(witness: Witness, phrases: Phrases) -> str:
    key, kind, (a, b) = witness["key"], witness["kind"], witness["ops"]
    committed, found = witness.get("committed"), witness.get("found")
    head = f"key {key}: {phrases.who(a)} committed offset {committed}{phrases.faults(a)}"
    if kind == "back":
        return joined(head, f"{phrases.who(b)}, which began after that, committed offset {found}{phrases.faults(b)}")
    if kind == "lost":
        offset = "no committed offset" if found is None else f"committed offset {found}"
        return joined(
            head, f"an assignment in {phrases.who(b)}, which began after that, found {offset}{phrases.faults(b)}"
        )
    return joined(
        f"key {key}: an assignment in {phrases.who(b)} found committed offset {found}{phrases.faults(b)}",
        f"only aborted transactions had sent this offset, such as that of {phrases.who(a)}",
    )


ANOMALY = Anomaly(
    name="offset-regression",
    summary="A consumer group's committed offset went back, or came from an aborted transaction.",
    source="Kafka documentation: Design, 4.5 The Consumer, 4.7 Using Transactions; KIP-98; KIP-447",
    prose=prose,
    guarantee=Guarantee(
        (group_log_kept, one_reader),
        "a group keeps its committed offsets and rejects commits of members of older generations",
        f"{DOCUMENTED}: Design, 4.5 The Consumer, 4.7 Using Transactions; offsets.topic.replication.factor, "
        "offsets.commit.required.acks; KIP-98; KIP-447",
    ),
    find=find,
    if_lines_missing=keep_regressions,
    native=True,
)
