"""Reads one server's metadata log and snapshots, as `harness.run.metadata_log` copied them into a run folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from checker.disk import checkpoints, data_folder, replica_batches
from checker.disk.checkpoints import Epoch
from harness.protocol import metadata_records, segment_file
from harness.protocol.flaws import Flaw, Unreadable
from harness.protocol.metadata_records import LEADER_CHANGE, SNAPSHOT_FOOTER, MetadataRecord
from harness.protocol.record_batch import Batch
from harness.protocol.records import records

TOPIC: Final = "__cluster_metadata"
EPOCHS: Final = "leader-epochs.json"
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the metadata: it replaces the log before the offset `end`.

    records  the records of the snapshot, without control records
    flaw     what is wrong with the file; None if it is complete
    """

    node: str
    name: str
    end: int
    epoch: int
    records: tuple[MetadataRecord, ...]
    flaw: str | None


@dataclass(frozen=True, slots=True)
class NodeLog:
    """One server's metadata log.

    batches        the batches, ascending, also those with bad checksums
    flaws          ranges of bytes that are not batches
    snapshots      ascending by offset
    leader         (epoch, leader id) of the quorum according to the file quorum-state; None if it names no leader
    leader_epochs  partition ("topic-0") -> (topic id or "", leader epochs in its leader-epoch-checkpoint)
    """

    node: str
    batches: tuple[Batch, ...]
    flaws: tuple[Flaw, ...]
    snapshots: tuple[Snapshot, ...]
    leader: tuple[int, int] | None
    leader_epochs: Mapping[str, tuple[str, tuple[Epoch, ...]]]

    @property
    def start(self) -> int:
        return self.batches[0].base if self.batches else 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0


def read(node: str, folder: Path) -> NodeLog | None:
    """Reads the log of a server from its folder in the run. Returns None if there is no log."""
    replica = data_folder.replica(folder, TOPIC, 0)
    if replica is None:
        return None
    batches, flaws = list[Batch](), list[Flaw]()
    for segment in replica.segments:
        for found in replica_batches.of_segment(replica, segment):
            if isinstance(found, Flaw):
                flaws.append(found)
            elif not batches or found.base > batches[-1].last:
                batches.append(found)
            else:
                what = f"a batch of offsets {found.base} to {found.last} after offset {batches[-1].last}"
                flaws.append(Flaw(replica.named(segment.log), found.at, what))
    snapshots = [one for path in sorted(replica.folder.iterdir()) if (one := _snapshot(node, path)) is not None]
    return NodeLog(
        node,
        tuple(batches),
        tuple(flaws),
        tuple(snapshots),
        _quorum_state(replica.folder / "quorum-state"),
        _leader_epochs(folder / EPOCHS),
    )


def decoded(batch: Batch) -> Iterator[tuple[int, MetadataRecord]]:
    """Yields (offset, record) for the records of a data batch; nothing for a control batch. Raises Unreadable."""
    if batch.control:
        return
    for record in records(batch):
        yield record.offset, metadata_records.decode(record.value or b"")


def elected(batch: Batch) -> int | None:
    """Returns the id of the leader with which an epoch begins, if the batch contains it. Raises Unreadable."""
    if batch.control:
        for record in records(batch):
            if metadata_records.control_type(record) == LEADER_CHANGE:
                return metadata_records.new_leader(record)
    return None


def _snapshot(node: str, path: Path) -> Snapshot | None:
    named = _SNAPSHOT.fullmatch(path.name)
    if named is None:
        return None
    found, flaw, complete = list[MetadataRecord](), None, False
    try:
        with path.open("rb") as file:
            for batch in segment_file.read(file, path.name):
                if isinstance(batch, Flaw):
                    raise Unreadable(batch.what)
                if not batch.sound:
                    raise Unreadable(f"the batch of offsets {batch.base} to {batch.last} has a bad checksum")
                found += [record for _, record in decoded(batch)]
                if batch.control:
                    complete |= any(metadata_records.control_type(one) == SNAPSHOT_FOOTER for one in records(batch))
    except (OSError, Unreadable) as error:
        flaw = str(error)
    if flaw is None and not complete:
        flaw = f"no end, in {path.stat().st_size} bytes"
    return Snapshot(node, path.name, int(named[1]), int(named[2]), tuple(found), flaw)


def _quorum_state(path: Path) -> tuple[int, int] | None:
    """Returns (epoch, leader id) from the file quorum-state, which is JSON; None if it names no leader."""
    with suppress(OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        state: dict[str, Any] = orjson.loads(path.read_bytes())
        epoch, leader = int(state["leaderEpoch"]), int(state["leaderId"])
        return (epoch, leader) if leader >= 0 else None
    return None


def _leader_epochs(path: Path) -> dict[str, tuple[str, tuple[Epoch, ...]]]:
    found = {}
    with suppress(OSError, orjson.JSONDecodeError):
        for name, (topic_id, text) in orjson.loads(path.read_bytes()).items():
            epochs, _ = checkpoints.epochs(text.encode(), f"{name}/{checkpoints.EPOCHS}")
            found[str(name)] = (str(topic_id), epochs)
    return found
