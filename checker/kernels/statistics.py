"""Statistics that accompany the verdict: sums per bucket, and totals and rates of the whole history.

sent                   number of distinct (key, value) pairs that were sent
acknowledged           number of these that an `ok` op sent
seen                   number of the acknowledged ones that an `ok` op polled
keys_not_read_to_end   number of keys whose log was not read to the end, although it has records that must or may have
                       to exist (under Jepsen's rules: acknowledged records)
consumed               for each n: number of values that `ok` ops of subscribed processes polled n times
intermediate_reads     number of polls that returned only some of the values that one op sent to one key
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checker.kernels.bucket_of_keys import Bucket
from checker.tables.packing import Bools, Ints, begins, order, ranks
from checker.tables.schema import OK, SUBSCRIBE, is_one
from harness.model.op import INFO

LISTED = 20


def _column(table: pa.Table, name: str) -> Ints:
    result: Ints = table.column(name).to_numpy().astype(np.int64, copy=False)
    return result


def _subscribed(bucket: Bucket) -> Bools:
    """Returns, for each row of polls, whether the process was subscribed when it polled.

    It was subscribed if, of its `ok` assigns and subscribes before the poll, the last one is a subscribe.
    """
    assigns = bucket.small.assigns
    done = _column(assigns, "type") == OK
    op, process, how = (_column(assigns, name)[done] for name in ("op", "process", "how"))
    polls = bucket.polls
    if len(op) == 0 or len(polls) == 0 or not bool((how == SUBSCRIBE).any()):
        return np.zeros(len(polls), np.bool_)
    by = order(process, op)
    op, process, how = op[by], process[by], how[by]
    bits = (int(max(int(op.max()), int(polls.op.max()))) + 1).bit_length()
    _, rank = ranks(np.concatenate([process, polls.process]))
    packed = (rank[: len(op)] << bits) | op
    place = np.searchsorted(packed, (rank[len(op) :] << bits) | polls.op) - 1
    inside = np.maximum(place, 0)
    known = (place >= 0) & (process[inside] == polls.process)
    result: Bools = known & (how[inside] == SUBSCRIBE)
    return result


def consumed(bucket: Bucket) -> tuple[Counter[int], list[tuple[int, int, int]]]:
    """Returns (n -> number of values consumed n times, list of (key, value, n) of the values consumed most often).

    The list contains only values that were consumed more than once.
    """
    rows = (bucket.polls.type == OK) & _subscribed(bucket)
    times = np.bincount(bucket.polls.pair[rows], minlength=len(bucket.data.pair_key))
    distribution = Counter({n: int(count) for n, count in enumerate(np.bincount(times)) if n and count})
    several = np.flatnonzero(times > 1)
    top = several[np.argsort(-times[several], kind="stable")][:LISTED]
    listed = zip(bucket.key_codes(top).tolist(), bucket.values(top).tolist(), times[top].tolist(), strict=True)
    return distribution, list(listed)


def intermediate_reads(bucket: Bucket) -> int:
    """Returns the number of polls that returned some, but not all, of the values that one op sent to one key."""
    sends, polls, data = bucket.sends, bucket.polls, bucket.data
    if len(sends) == 0 or len(polls) == 0:
        return 0
    by = order(sends.op, sends.key)
    op, key = sends.op[by], sends.key[by]
    group = np.cumsum(begins(op, key)) - 1
    size = np.bincount(group)
    if int(size.max()) < 2:
        return 0
    of_row = np.empty(len(sends), np.int64)
    of_row[by] = group
    written = data.writer_row[polls.pair]
    of_poll = np.where(written >= 0, of_row[np.maximum(written, 0)], -1)
    several = np.flatnonzero((of_poll >= 0) & (size[np.maximum(of_poll, 0)] > 1))
    poll_op, mop, of_poll, pair = polls.op[several], polls.mop[several], of_poll[several], polls.pair[several]
    by = order(poll_op, mop, of_poll, pair)
    poll_op, mop, of_poll, pair = poll_op[by], mop[by], of_poll[by], pair[by]
    distinct = begins(poll_op, mop, of_poll, pair)
    heads = np.flatnonzero(begins(poll_op, mop, of_poll))
    seen = np.add.reduceat(distinct.astype(np.int64), heads) if len(heads) else heads
    return int(np.count_nonzero(seen < size[of_poll[heads]]))


def of_bucket(bucket: Bucket) -> dict[str, Any]:
    """Returns the statistics of one bucket, which `of_history` combines with those of the other buckets."""
    data = bucket.data
    sent = np.zeros(len(data.pair_key), np.bool_)
    sent[bucket.sends.pair] = True
    acknowledged = np.zeros(len(data.pair_key), np.bool_)
    acknowledged[bucket.sends.pair[bucket.sends.type == OK]] = True
    _, _, complete = bucket.ends.of(data.keys)
    needed = np.zeros(len(data.keys), np.bool_)
    expected = acknowledged if bucket.options.jepsen_compatible else bucket.may_have_to_exist
    needed[data.pair_key[expected]] = True
    distribution, listed = consumed(bucket)
    return {
        "keys": len(data.keys),
        "keys_not_read_to_end": int(np.count_nonzero(needed & ~complete)),
        "sent": int(sent.sum()),
        "acknowledged": int(acknowledged.sum()),
        "seen": int((acknowledged & data.polled_ok).sum()),
        "polled_records": len(bucket.polls),
        "intermediate_reads": intermediate_reads(bucket),
        "consumed": distribution,
        "consumed_most": listed,
    }


def _rate(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def latencies(ops: Iterable[pa.Table]) -> dict[str, dict[str, float]]:
    """Returns f -> quantiles and maximum of the latency of the `ok` ops, in milliseconds from invocation to completion.

    `ops` is the table of ops, in one or more pieces.
    """
    durations: dict[str, list[Ints]] = {}
    for table in ops:
        took = table.column("complete_ns").fill_null(-1).to_numpy() - table.column("invoke_ns").to_numpy()
        good = is_one(table, "type", ("ok",))
        for f in sorted(set(pc.unique(table.column("f")).to_pylist())):
            durations.setdefault(f, []).append(took[good & is_one(table, "f", (f,))])
    result: dict[str, dict[str, float]] = {}
    for f in sorted(durations):
        taken = np.concatenate(durations[f])
        if len(taken):
            p50, p95, p99 = np.percentile(taken, [50, 95, 99]) / 1e6
            result[f] = {
                "p50_ms": round(float(p50), 3),
                "p95_ms": round(float(p95), 3),
                "p99_ms": round(float(p99), 3),
                "max_ms": round(float(taken.max()) / 1e6, 3),
            }
    return result


def of_history(
    meta: Mapping[str, Any],
    sums: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int],
    original: Mapping[int, Any],
) -> dict[str, Any]:
    """Returns the statistics of a history.

    sums      the results of `of_bucket` for all buckets
    counts    anomaly -> number of its witnesses
    original  code -> key or value, for keys and values that are not plain integers
    """
    total = {
        name: sum(part[name] for part in sums)
        for name in (
            "keys",
            "keys_not_read_to_end",
            "sent",
            "acknowledged",
            "seen",
            "polled_records",
            "intermediate_reads",
        )
    }
    distribution: Counter[int] = Counter()
    listed: list[tuple[int, int, int]] = []
    for part in sums:
        distribution.update(part["consumed"])
        listed.extend(part["consumed_most"])
    listed.sort(key=lambda row: -row[2])
    lost, doubled, phantom = (counts.get(name, 0) for name in ("lost-write", "duplicate", "phantom-read"))
    return {
        "ops": meta["ops"],
        "by_f": {f: dict(kinds) for f, kinds in sorted(meta["counts"].items())},
        **total,
        "lost": lost,
        "duplicated": doubled,
        "phantom": phantom,
        "rates": {
            "acknowledged": _rate(total["acknowledged"], total["sent"]),
            "seen": _rate(total["seen"], total["acknowledged"]),
            "lost": _rate(lost, total["acknowledged"]),
            "duplicated": _rate(doubled, total["acknowledged"]),
            "phantom": _rate(phantom, total["polled_records"]),
        },
        "consume_counts": {
            "distribution": {str(n): count for n, count in sorted(distribution.items())},
            "more_than_once": [
                {"key": original.get(key, key), "value": original.get(value, value), "count": n}
                for key, value, n in listed[:LISTED]
            ],
        },
        "started_over": _started_over(meta["final_processes"]),
        "truncated": meta["truncated"],
    }


def _started_over(final_processes: Mapping[str, str]) -> int:
    """Returns how often clients started over in the final polls.

    Each client crashes once on purpose before it begins, and its last process ends without a crash. All other processes
    read nothing for ten seconds, or had an op with an unknown outcome.

    final_processes  process -> type of its last op in the final polls
    """
    crashed = sum(kind == INFO for kind in final_processes.values())
    return max(0, crashed - (len(final_processes) - crashed))
