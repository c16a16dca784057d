"""Concurrent owners: a partition belonged to two members of a consumer group at the same time.

A member *owns* a key from an `assigned` event in its rebalance log on, until its next event of that key. That a member
believes so proves nothing: it may have been paused, and its session may have ended at the coordinator, which then gave
the partition to another member. The proof is the coordinator's own answer. It accepts a commit only from a member of
the current generation (with KIP-848: with the current member epoch), and a member that was removed from the group gets
a `lost` or `revoked` event before it is assigned anything again.

There is therefore a witness if two members owned a key, and each had an `ok` commit of the key in an op that was
invoked after both assignments. When the first of these commits was accepted, both were members: the other's later
commit was accepted without a new assignment, so it had not been removed meanwhile. Neither had confirmed a revocation,
since the events of the key are recorded before a member confirms it.

Automatic commits are not considered, because no op records them. Nothing is found unless `Settings.commits_fenced`:
before KIP-447, offsets in transactions were accepted without the member's generation, and some clients do not record
revocations.

A witness is {key, ops, committed}: `ops` are the op with the first member's assignment, the op with its last commit,
and the same two ops of the second member; `committed` are the offsets of the two commits. There is at most one witness
per key and second assignment. Native rules only. Sources: Kafka documentation, Design, 4.5 The Consumer; KIP-429;
KIP-447; KIP-848.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from checker.anomalies.anomaly_row import Anomaly
from checker.anomalies.guarantees import DOCUMENTED, Guarantee, group_log_kept, one_reader
from checker.anomalies.prose import Phrases, Witness
from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.missing_lines import may_lie_between
from checker.kernels.witness import int_lists, pairs_of, table
from checker.tables.packing import Ints, empty, order, ranks
from checker.tables.schema import OK, is_one
from harness.model.values_as_text import joined


@dataclass(frozen=True, slots=True)
class Ownerships:
    """The assignments of keys to members that then committed, sorted by key and assignment.

    key      rank of the key
    assigned op that recorded the assignment
    invoked  index of the invocation of the member's last commit of the key, before the next event of the key
    commit   op of this commit
    offset   the committed offset
    """

    key: Ints
    assigned: Ints
    invoked: Ints
    commit: Ints
    offset: Ints


def _ownerships(bucket: Bucket) -> Ownerships:
    commits, events = _commits(bucket), _events(bucket)
    owners, owner = ranks(np.concatenate([events["process"], commits["process"]]))
    bits = int(max(column.max(initial=0) for column in (events["op"], commits["op"])) + 1).bit_length()

    def code(rows: Mapping[str, Ints], rank: Ints, op: Ints) -> Ints:
        return ((rows["key"] * len(owners) + rank) << bits) | op

    rows = len(events["op"])
    event_code, commit_code = (code(events, owner[:rows], events["op"]), code(commits, owner[rows:], commits["op"]))
    by = order(event_code)
    event_code, assigns, op = event_code[by], events["assigns"][by], events["op"][by]
    # An op may have several events of a key: the search finds the last one.
    place = np.searchsorted(event_code, commit_code, side="right") - 1
    owned = place >= 0
    owned[owned] = (event_code[place[owned]] >> bits) == (commit_code[owned] >> bits)
    owned[owned] = assigns[place[owned]] > 0
    place, key, commit, invoked = (each[owned] for each in (place, commits["key"], commits["op"], commits["invoked"]))
    by = order(place, commit)
    last = by[np.append(place[by][1:] != place[by][:-1], np.ones(min(1, len(by)), np.bool_))]
    last = last[order(key[last], op[place[last]])]
    return Ownerships(key[last], op[place[last]], invoked[last], commit[last], commits["offset"][owned][last])


def _events(bucket: Bucket) -> dict[str, Ints]:
    """Returns the rebalance events of the bucket's keys as columns: key (rank), process, op, assigns (0 or 1)."""
    rows = bucket.small.rebalances
    key = bucket.key_ranks(_column(rows, "key"))
    columns = {"key": key, "process": _column(rows, "process"), "op": _column(rows, "op")}
    columns["assigns"] = is_one(rows, "event", ("assigned",)).astype(np.int64)
    return {name: column[key >= 0] for name, column in columns.items()}


def _commits(bucket: Bucket) -> dict[str, Ints]:
    """Returns the commits that prove membership, as columns: key (rank), process, op, invoked (index), offset."""
    rows = bucket.small.commits
    key = bucket.key_ranks(_column(rows, "key"))
    counts = (key >= 0) & (_column(rows, "type") == OK) & (_column(rows, "fetched") == 0)
    columns = {"key": key, "invoked": _column(rows, "invoke_index")}
    columns |= {name: _column(rows, name) for name in ("process", "op", "offset")}
    return {name: column[counts] for name, column in columns.items()}


def _column(rows: pa.Table, name: str) -> Ints:
    column: Ints = rows.column(name).to_numpy().astype(np.int64)
    return column


def find(bucket: Bucket) -> pa.Table:
    """Returns a witness for each assignment of a key that another member still owned."""
    fenced = bucket.options.settings.commits_fenced
    owned = _ownerships(bucket) if fenced else Ownerships(*[empty() for _ in Ownerships.__slots__])
    if len(owned.key) == 0:
        return table({"key": empty(), "ops": int_lists(empty(), empty()), "committed": pairs_of(empty(), empty())})
    # The latest commit of any earlier assignment of the key. Those of the same member are earlier than its assignment.
    top = int(owned.invoked.max()) + 1
    latest = np.maximum.accumulate(owned.key * top + owned.invoked)
    rows = np.arange(len(latest), dtype=np.int64)
    holder = np.maximum.accumulate(np.where(np.append(True, latest[1:] > latest[:-1]), rows, 0))
    first, second = holder[:-1], rows[1:]
    both = owned.key[first] == owned.key[second]
    both &= (owned.invoked[first] > owned.assigned[second]) & (owned.invoked[second] > owned.assigned[second])
    first, second = first[both], second[both]
    ops = np.stack([owned.assigned[first], owned.commit[first], owned.assigned[second], owned.commit[second]], axis=1)
    lengths = np.full(len(first), 4, np.int64)
    return table(
        {
            "key": bucket.data.keys[owned.key[second]],
            "ops": int_lists(ops.reshape(-1), lengths),
            "committed": pairs_of(owned.offset[first], owned.offset[second]),
        }
    )


def keep_without_gap(bucket: Bucket, rows: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Keeps the witnesses without missing lines in between: a missing line may contain a revocation."""
    ops = rows.column("ops").combine_chunks().flatten().to_numpy().reshape(-1, 4)
    return rows.filter(pa.array(~may_lie_between(bucket.small.meta, ops.min(axis=1), ops.max(axis=1))))


def prose(witness: Witness, phrases: Phrases) -> str:
    key, (assigned, commit, second, second_commit) = witness["key"], witness["ops"]
    offset, second_offset = witness["committed"]
    return joined(
        f"key {key}: {phrases.who(assigned)} was assigned the partition{phrases.faults(assigned)}",
        f"{phrases.who(second)} was assigned it, too{phrases.faults(second)}",
        f"after that, the group accepted commits of both, offset {offset} in {phrases.who(commit)} and offset "
        f"{second_offset} in {phrases.who(second_commit)}, and neither had recorded a revocation",
    )


ANOMALY = Anomaly(
    name="concurrent-owners",
    summary="A partition was assigned to two members of a consumer group at the same time.",
    source="Kafka documentation: Design, 4.5 The Consumer; KIP-429; KIP-848",
    prose=prose,
    guarantee=Guarantee(
        (group_log_kept, one_reader),
        "a group assigns a partition to a member only after its former owner gave it up or was removed, and rejects "
        "commits of removed members",
        f"{DOCUMENTED}: Design, 4.5 The Consumer; KIP-429; KIP-447; KIP-848",
    ),
    find=find,
    if_lines_missing=keep_without_gap,
    native=True,
)
