"""Real files of three Kafka versions: the decoders agree with kafka.tools.DumpLogSegments."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from checker.disk import checkpoints, contents, data_folder, indexes, snapshots
from checker.disk.comparison import compare
from harness.protocol import compression, records, segment_file
from harness.protocol.record_batch import Batch
from tests.unit.checker.disk.real import NODES, VERSIONS, dumped, unpacked

PARTITIONS = [("codecs", 0), ("compacted", 0), ("short", 0), ("txn", 0)]


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def data(version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(version, tmp_path_factory.mktemp(version))


def test_three_versions_are_there() -> None:
    assert VERSIONS == ("3.9.1", "4.1.1", "4.3.1")


def test_batches_are_those_of_the_dump(version: str, data: Path) -> None:
    seen: Counter[str] = Counter()
    for name, lines in dumped(version).items():
        if not name.endswith(".log"):
            continue
        with (data / name).open("rb") as file:
            found = list(segment_file.read(file, name))
        expected = [line for line in lines if "baseOffset" in line]
        assert len(found) == len(expected), name
        for batch, line in zip(found, expected, strict=True):
            assert isinstance(batch, Batch) and batch.sound
            crc = int.from_bytes(batch.content[17:21], "big")
            assert {
                "baseOffset": batch.base,
                "lastOffset": batch.last,
                "count": batch.count,
                "baseSequence": batch.base_sequence,
                "lastSequence": batch.last_sequence,
                "producerId": batch.producer_id,
                "producerEpoch": batch.producer_epoch,
                "partitionLeaderEpoch": batch.epoch,
                "position": batch.at,
                "CreateTime": batch.max_timestamp,
                "size": batch.size,
                "magic": batch.magic,
                "crc": crc,
            } == {key: int(line[key]) for key in line if key in _NUMBERS}
            assert line["isTransactional"] == str(batch.transactional).lower()
            assert line["isControl"] == str(batch.control).lower()
            assert line["compresscodec"].lower() == compression.NAMES[batch.codec]
            assert len(list(records.records(batch))) == batch.count
            seen[compression.NAMES[batch.codec]] += 1
    assert set(seen) == set(compression.NAMES)


_NUMBERS = {
    "baseOffset",
    "lastOffset",
    "count",
    "baseSequence",
    "lastSequence",
    "producerId",
    "producerEpoch",
    "partitionLeaderEpoch",
    "position",
    "CreateTime",
    "size",
    "magic",
    "crc",
}


def test_indexes_are_those_of_the_dump(version: str, data: Path) -> None:
    kinds: Counter[str] = Counter()
    for name, lines in dumped(version).items():
        path = data / name
        base, kind = int(path.stem) if path.stem.isdecimal() else 0, path.suffix
        if kind == ".index":
            index = indexes.offset_index(path.read_bytes(), base, name)
            rows = [(int(line["offset"]), int(line["position"])) for line in lines if "position" in line]
            pairs = list(zip(index.offsets.tolist(), index.others.tolist(), strict=True))
        elif kind == ".timeindex":
            index = indexes.time_index(path.read_bytes(), base, name)
            rows = [(int(line["offset"]), int(line["timestamp"])) for line in lines if "timestamp" in line]
            pairs = list(zip(index.offsets.tolist(), index.others.tolist(), strict=True))
        elif kind == ".txnindex":
            entries, flaws = indexes.transaction_index(path.read_bytes(), name)
            assert flaws == ()
            names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
            expected = [tuple(int(line[each]) for each in names) for line in lines if "producerId" in line]
            assert [(one.producer_id, one.first, one.last, one.stable) for one in entries] == expected
            kinds[kind] += len(expected)
            continue
        else:
            continue
        # The dump of an index with free space ends with entries of zeros.
        assert pairs == [row for number, row in enumerate(rows) if number < len(pairs)], name
        assert all(row == (base, 0) for row in rows[len(pairs) :]), name
        assert index.flaws == () and index.rising == len(pairs)
        kinds[kind] += len(pairs)
    assert all(kinds[kind] for kind in (".index", ".timeindex", ".txnindex"))


def test_snapshots_are_those_of_the_dump(version: str, data: Path) -> None:
    count = 0
    for name, lines in dumped(version).items():
        if not name.endswith(".snapshot"):
            continue
        found, flaws = snapshots.snapshot((data / name).read_bytes(), name)
        expected = [line for line in lines if "producerId" in line]
        assert flaws == () and len(found) == len(expected)
        for one, line in zip(found, expected, strict=True):
            since = line["currentTxnFirstOffset"].removeprefix("OptionalLong").strip("[]")
            assert one.open_since == (-1 if since == ".empty" else int(since))
            assert (one.id, one.epoch, one.coordinator_epoch, one.last_sequence, one.last_offset) == tuple(
                int(line[key])
                for key in ("producerId", "producerEpoch", "coordinatorEpoch", "lastSequence", "lastOffset")
            )
            assert one.timestamp == int(line["lastTimestamp"])
            count += 1
    assert count > 10


def test_replicas_are_whole_and_the_same(data: Path) -> None:
    nodes = data_folder.nodes(data)
    assert tuple(nodes) == NODES
    assert data_folder.partitions(nodes["n1"]) == PARTITIONS
    found = {topic: compare(nodes, topic, partition) for topic, partition in PARTITIONS}
    for one in found.values():
        assert one.same and one.flaws == () and one.differences == () and one.absent == ()
        assert len(one.replicas) == 3
    ends = {topic: (one.replicas["n1"].log_start, one.replicas["n1"].end) for topic, one in found.items()}
    assert ends == {"codecs": (0, 50), "compacted": (0, 40), "short": (12, 40), "txn": (0, 53)}
    txn = found["txn"].replicas["n3"]
    assert (txn.records, txn.control, txn.aborted, txn.open) == (45, 8, 4, 1)
    assert all(one.compacted and one.records < 40 for one in found["compacted"].replicas.values())


def test_what_transactions_came_to(data: Path) -> None:
    replica = data_folder.replica(data / "n1", "txn", 0)
    assert replica is not None
    log = contents.read(replica, lambda value: len(value or b""))
    outcomes = Counter(log.outcomes)
    assert outcomes == {contents.COMMITTED: 20, contents.ABORTED: 20, contents.OPEN: 5}


def test_files_of_the_node(data: Path) -> None:
    assert data_folder.properties(data / "n1")["node.id"] == "1"
    assert [(data / node / checkpoints.CLEAN).exists() for node in NODES] == [True, True, False]
    marks, flaws = data_folder.checkpoint(data / "n2", checkpoints.HIGH_WATERMARKS)
    assert flaws == () and marks["codecs", 0] == 50
    starts, _ = data_folder.checkpoint(data / "n2", checkpoints.LOG_STARTS)
    assert starts["short", 0] == 12
    content = (data / "n1" / "txn-0" / checkpoints.PARTITION).read_bytes()
    metadata, flaws = checkpoints.properties(content, "")
    assert flaws == () and set(metadata) == {"version", "topic_id"}
