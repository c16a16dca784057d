"""Compares the copies of the metadata log up to an offset that is known to be committed.

Offsets before the high watermark that a leader reported, and before the end of a snapshot, are committed. Followers
append the leader's batches as they are, so at these offsets every copy has the same bytes. Uncommitted ends of logs may
differ. A log may start late, because snapshots have replaced its beginning, and a copy may end early. Sources: KIP-595,
KIP-630.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checker.disk.metadata.node_log import NodeLog
from checker.disk.metadata.witnesses import DIVERGENCE, LOST, Found
from harness.protocol.record_batch import Batch


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of a comparison.

    found      witnesses: for each copy that differs, the first difference
    reference  the batches of the log, ascending: the committed ones as most copies have them, then those of the copy
               that would win an election
    compared   how many committed batches at least two copies have
    records    how many records these batches contain
    """

    found: tuple[Found, ...]
    reference: tuple[Batch, ...]
    compared: int
    records: int


def compare(logs: Sequence[NodeLog], committed: int) -> Agreement:
    """Compares copies of the log. `committed`: the first offset that is not known to be committed."""
    at: dict[int, dict[str, Batch]] = defaultdict(dict)
    for log in logs:
        for batch in log.batches:
            if batch.last < committed:
                at[batch.base][log.node] = batch
    found: dict[str, Found] = {}
    reference, compared, records = list[Batch](), 0, 0
    for base in sorted(at):
        copies = at[base]
        best = _most(copies)
        if not reference or base > reference[-1].last:
            reference.append(best)
        if len(copies) > 1:
            compared += 1
            records += max(best.count, 0)
        for log in logs:
            copy = copies.get(log.node)
            if log.node not in found and (copy is None or not _same(copy, best)) and log.start <= base < log.end:
                others = ", ".join(sorted(node for node, one in copies.items() if _same(one, best)))
                seen, expected = _described(copy), f"{_described(best)}, as on {others}"
                found[log.node] = Found(DIVERGENCE, log.node, seen, expected, base)
    witnesses = [*found.values(), *_lost(logs, committed)]
    return Agreement(tuple(witnesses), (*reference, *_tail(logs, reference)), compared, records)


def _lost(logs: Sequence[NodeLog], committed: int) -> list[Found]:
    """Returns a witness if no copy of the log reaches the committed offset."""
    ends = {log.node: max([log.end, *(snapshot.end for snapshot in log.snapshots)]) for log in logs}
    if not ends or max(ends.values()) >= committed:
        return []
    where = ", ".join(f"{node} {end}" for node, end in sorted(ends.items()))
    return [Found(LOST, "every server", f"the logs end at: {where}", f"offset {committed} was committed", committed)]


def _tail(logs: Sequence[NodeLog], reference: Sequence[Batch]) -> list[Batch]:
    """Returns the batches after the committed ones, from the copy with the highest last epoch and end."""
    longest = max((log for log in logs if log.batches), key=lambda log: (log.batches[-1].epoch, log.end), default=None)
    after = reference[-1].last if reference else -1
    return [] if longest is None else [batch for batch in longest.batches if batch.base > after and batch.sound]


def _same(one: Batch, other: Batch) -> bool:
    return one.content == other.content


def _most(copies: Mapping[str, Batch]) -> Batch:
    """Returns what most copies have; among equally frequent ones, one with a valid checksum."""
    batches = list(copies.values())
    return max(batches, key=lambda batch: (sum(_same(batch, one) for one in batches), batch.sound))


def _described(batch: Batch | None) -> str:
    if batch is None:
        return "no batch"
    crc = int.from_bytes(batch.content[17:21], "big")
    damaged = "" if batch.sound else ", which does not match"
    return f"offsets {batch.base} to {batch.last} of epoch {batch.epoch}, checksum {crc:08x}{damaged}"
