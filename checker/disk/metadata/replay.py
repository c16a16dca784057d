"""Replays the metadata log, and judges each change of a partition, and the snapshots on the way.

A member of an ISR is a replica of the partition. A partition's leader is a member of its ISR. A new leader was in the
ISR or an eligible leader replica before (KIP-966), unless the election was unclean, or completed a reassignment whose
new replicas join the ISR in the same record. A snapshot contains the state that the log before it produces. Sources:
KIP-455, KIP-630, KIP-631, KIP-704, KIP-966; Kafka documentation, Design, 4.7.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checker.disk.metadata import image as images
from checker.disk.metadata.image import CONFIGS, NO_LEADER, PARTITIONS, RECOVERING, TOPICS, Change, Image, Partition
from checker.disk.metadata.node_log import Snapshot, decoded
from checker.disk.metadata.witnesses import ELECTION, ISR, SNAPSHOT, Found
from harness.protocol import metadata_schemas as types
from harness.protocol.flaws import Unreadable
from harness.protocol.metadata_records import MetadataRecord
from harness.protocol.record_batch import Batch

SHOWN: Final = 3  # differences of one snapshot


@dataclass(slots=True)
class Replayed:
    """The result of replaying a log.

    image       the state at its end
    found       witnesses
    base        the offset of the snapshot with which the replay began; 0: it began with the first record
    names       topic name -> ids of all topics that had this name
    epochs      (topic id, partition) -> leader epoch -> leader
    values      (type of resource, resource, setting) -> the values that records have set; None: reset
    counts      records, changes (of partitions), elections, unclean, snapshots (that were compared)
    unreadable  what is wrong with the first record that cannot be read; None: all can be read
    """

    image: Image
    base: int = 0
    found: list[Found] = field(default_factory=list)
    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    epochs: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    values: dict[tuple[int, str, str], list[str | None]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    unreadable: str | None = None

    def name(self, topic_id: str, number: int) -> str:
        return f"{self.image.parts[TOPICS].get(topic_id, topic_id)}-{number}"


def replay(reference: Sequence[Batch], snapshots: Sequence[Snapshot]) -> Replayed:
    """Replays a log.

    reference  its batches, ascending
    snapshots  the snapshots of all servers; if the beginning of the log is gone, the first of them replaces it
    """
    start = reference[0].base if reference else 0
    due = sorted((one for one in snapshots if one.flaw is None), key=lambda one: one.end)
    base = next((one for one in due if one.end >= start), None) if start or (due and due[0].end == 0) else None
    run = Replayed(Image()) if base is None else _from_snapshot(base)
    run.found += [_unreadable(one, one.flaw) for one in snapshots if one.flaw is not None]
    waiting = [one for one in due if one.end >= run.base]
    try:
        for batch in _contiguous(reference, run.base):
            if not batch.sound:
                raise Unreadable(f"the batch of offsets {batch.base} to {batch.last} has a bad checksum")
            for offset, record in decoded(batch):
                if offset >= run.base:
                    _compare(run, waiting, offset)
                    _step(run, offset, record)
            _compare(run, waiting, batch.last + 1)
    except Unreadable as error:
        run.unreadable = str(error)
    return run


def _contiguous(reference: Sequence[Batch], base: int) -> Iterator[Batch]:
    """Yields the batches from the offset `base` on. Raises Unreadable at a gap."""
    expected = base
    for batch in reference:
        if batch.last < base:
            continue
        if batch.base > expected:
            raise Unreadable(f"no server has the offsets {expected} to {batch.base - 1}")
        yield batch
        expected = batch.last + 1


def _from_snapshot(base: Snapshot) -> Replayed:
    run = Replayed(images.of_snapshot(base.records), base.end)
    for topic_id, name in run.image.parts[TOPICS].items():
        run.names[name].add(topic_id)
    for at, one in run.image.parts[PARTITIONS].items():
        run.epochs[at] = {one.leader_epoch: one.leader}
    for at, value in run.image.parts[CONFIGS].items():
        run.values[at].append(value)
    return run


def _step(run: Replayed, offset: int, record: MetadataRecord) -> None:
    run.counts["records"] += 1
    for change in run.image.apply(offset, record):
        run.counts["changes"] += 1
        run.epochs.setdefault((change.topic_id, change.number), {})[change.after.leader_epoch] = change.after.leader
        run.found += _judged(run, change)
    fields = record.fields
    if fields is not None and record.type == types.TOPIC:
        run.names[fields["name"]].add(fields["topic_id"])
    elif fields is not None and record.type == types.CONFIG:
        run.values[fields["resource_type"], fields["resource"], fields["name"]].append(fields["value"])


# --- partitions ---------------------------------------------------------------------------------------


def _judged(run: Replayed, change: Change) -> Iterator[Found]:
    """Yields what is wrong with a change of a partition."""
    before, after = change.before, change.after
    place = run.name(change.topic_id, change.number)
    strangers = sorted(set(after.isr) - set(after.replicas))
    if strangers:
        yield Found(ISR, place, f"ISR {list(after.isr)}", f"only replicas: {list(after.replicas)}", change.offset)
    if after.leader not in (NO_LEADER, *after.isr):
        yield Found(ELECTION, place, f"leader {after.leader}", f"one of the ISR {list(after.isr)}", change.offset)
        return
    if after.leader == NO_LEADER or (before is not None and after.leader == before.leader):
        return
    run.counts["elections"] += 1
    if after.recovery == RECOVERING:
        run.counts["unclean"] += 1
        return
    if before is not None and not _reassigned(before, after) and after.leader not in (*before.isr, *before.elr):
        eligible = f"one of the ISR {list(before.isr)} or the eligible leader replicas {list(before.elr)}"
        yield Found(ELECTION, place, f"leader {after.leader}, in a clean election", eligible, change.offset)


def _reassigned(before: Partition, after: Partition) -> bool:
    return (before.replicas, before.removing, before.adding) != (after.replicas, after.removing, after.adding)


# --- snapshots ----------------------------------------------------------------------------------------


def _unreadable(snapshot: Snapshot, flaw: str) -> Found:
    """A server syncs a snapshot before it gives the file its name (KAFKA-15312)."""
    return Found(SNAPSHOT, f"{snapshot.node}, {snapshot.name}", flaw, "a complete snapshot", snapshot.end)


def _compare(run: Replayed, waiting: list[Snapshot], offset: int) -> None:
    """Compares the snapshots that end at or before an offset with the state before this offset."""
    while waiting and waiting[0].end <= offset:
        snapshot = waiting.pop(0)
        state = images.of_snapshot(snapshot.records)
        if not (state.complete and run.image.complete):
            continue
        run.counts["snapshots"] += snapshot.end > run.base
        differences = list(images.differences(state, run.image))
        place = f"{snapshot.node}, {snapshot.name}"
        for kind, key, here, there in differences[:SHOWN]:
            what = f"{kind} {_key(run, kind, key)}"
            run.found.append(
                Found(SNAPSHOT, place, f"{what}: {_shown(here)}", f"as in the log: {_shown(there)}", snapshot.end)
            )


def _key(run: Replayed, kind: str, key: Any) -> str:
    return run.name(*key) if kind == PARTITIONS else " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _shown(value: Any) -> str:
    if isinstance(value, Partition):
        value = value._asdict()
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {list(one) if isinstance(one, tuple) else one}" for name, one in value.items())
    return "nothing" if value is None else str(value)
