"""Offset regression: the consumer offsets that a group has committed go back, or hold what was aborted.

Per key, from what ops recorded (`extra.committed`, and `committed` of an assignment's event in the rebalance
log), an op's effect lying between its invocation and its completion:

- back     an `ok` op committed an offset, and an op that began later committed a lower one: a group fences
           the members of older generations, and a new owner begins where the group has committed
- lost     an `ok` op committed an offset, and an assignment that began later found a lower one, or none
- aborted  an assignment found an offset that only transactions which aborted had sent

Under read_uncommitted the offsets of an `ok` transaction may be found late, so these are not missed. Those of
`info` ops may be there or not, and so may those of an op that failed without a transaction. Cannot see
offsets that no op recorded, such as those of automatic commits. Witness {key, kind, committed, found, ops},
one for each regressing op and key; the first op is the one that committed (or aborted). Native rules only.
Source: Kafka documentation, Design, 4.5 (consumer position), 4.7 (offsets in transactions); KIP-98; KIP-447
(fencing by generation, stable offsets).
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
    """Rows of COMMITS: id and invocation of the op, key rank, offset."""

    op: Ints
    begun: Ints
    key: Ints
    offset: Ints

    def where(self, rows: Bools) -> Rows:
        return Rows(*(getattr(self, name)[rows] for name in self.__slots__))


def _rows(bucket: Bucket) -> tuple[Rows, Bools, Bools, Ints]:
    """(rows of this bucket's keys; of each: was it fetched, was it in a transaction, type of its op)."""
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
    """Per (key, time): the highest offset that had been committed by then, and by which op; -1 for none."""
    if len(done.op) == 0:
        return np.full(len(key), -1, np.int64), np.full(len(key), -1, np.int64)
    by = order(done.key, done.op)
    keys, ops, offsets = done.key[by], done.op[by], done.offset[by]
    # The running maximum within each key: ranks of offsets, above those of all keys before.
    distinct, rank = ranks(offsets)
    running = np.maximum.accumulate(keys * len(distinct) + rank)
    highest = distinct[running % len(distinct)]
    rows = np.arange(len(by), dtype=np.int64)
    rose = begins(keys) | np.append(True, running[1:] > running[:-1])
    owner = ops[np.maximum.accumulate(np.where(rose, rows, 0))]
    top = max(int(ops.max()), int(begun.max()) if len(begun) else 0) + 1
    place = np.searchsorted(keys * top + ops, key * top + begun) - 1
    known = place >= 0
    known[known] = keys[place[known]] == key[known]
    place = np.maximum(place, 0)
    return np.where(known, highest[place], -1), np.where(known, owner[place], -1)


def _regressed(bucket: Bucket, done: Rows, later: Rows, kind: int) -> dict[str, Ints]:
    """Rows of `later` with a lower offset than one of `done` that was there before they began."""
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
    """Rows of `fetched` with an offset that aborted transactions had sent, and nobody else."""
    keys = np.concatenate([done.key, aborted.key, fetched.key])
    offsets = np.concatenate([done.offset, aborted.offset, fetched.offset])
    distinct, rank = ranks(offsets)
    code = keys * max(1, len(distinct)) + rank
    sent, gone, found = np.split(code, [len(done.key), len(done.key) + len(aborted.key)])
    by = order(gone, aborted.op) if len(gone) else empty()
    odd = member(found, gone[by]) & ~member(found, np.unique(sent)) & (fetched.offset >= 0)
    place = np.searchsorted(gone[by], found[odd], side="right") - 1
    return {
        "key": bucket.data.keys[fetched.key[odd]],
        "kind": np.full(int(odd.sum()), ABORTED, np.int64),
        "committed": np.full(int(odd.sum()), -1, np.int64),
        "found": fetched.offset[odd],
        "first": aborted.op[by][place],
        "op": fetched.op[odd],
    }


def find(bucket: Bucket) -> pa.Table:
    """Every op that committed or found an offset that it should not."""
    rows, fetched, txn, type_ = _rows(bucket)
    ok, aborted = ~fetched & (type_ == OK), ~fetched & (type_ == FAIL) & txn
    # Until its markers are written, offsets of a transaction are told only to who asks for stable ones.
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


def not_aborted(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Offsets that went back: who else committed what was found may be in a line that is missing."""
    kinds = rows.column("kind").to_pylist()
    return rows.filter(pa.array([kind != KINDS[ABORTED] for kind in kinds], pa.bool_()))


def prose(witness: Witness, phrases: Phrases) -> str:
    key, kind, (a, b) = witness["key"], witness["kind"], witness["ops"]
    committed, found = witness.get("committed"), witness.get("found")
    head = f"key {key}: {phrases.who(a)} committed the offset {committed}{phrases.faults(a)}"
    if kind == "back":
        return joined(
            head, f"{phrases.who(b)}, which began after that, committed the offset {found}{phrases.faults(b)}"
        )
    if kind == "lost":
        offset = "no committed offset" if found is None else f"the committed offset {found}"
        return joined(
            head, f"an assignment in {phrases.who(b)}, which began after that, found {offset}{phrases.faults(b)}"
        )
    return joined(
        f"key {key}: an assignment in {phrases.who(b)} found the committed offset {found}{phrases.faults(b)}",
        f"only transactions that aborted had sent it, such as that of {phrases.who(a)}",
    )


ANOMALY = Anomaly(
    name="offset-regression",
    summary="A consumer group's committed offset went back, or was that of a transaction which aborted.",
    source="Kafka documentation: Design, 4.5 The Consumer, 4.7 Using Transactions; KIP-98; KIP-447",
    prose=prose,
    guarantee=Guarantee(
        (group_log_kept, one_reader),
        "a group keeps what it has committed, and refuses members of older generations",
        f"{DOCUMENTED}: Design, 4.5 The Consumer, 4.7 Using Transactions; offsets.topic.replication.factor, "
        "offsets.commit.required.acks; KIP-98; KIP-447",
    ),
    find=find,
    stands=not_aborted,
    native=True,
)
