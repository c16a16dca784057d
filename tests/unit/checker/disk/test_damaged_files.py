"""Damage to real files is told with its place, never served as good, and never ends in a traceback."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker.disk import checkpoints, contents, data_folder, indexes, snapshots
from checker.disk.comparison import Comparison, compare
from checker.disk.replica_survey import survey
from harness.protocol import record_batch, records, segment_file
from harness.protocol.flaws import Unreadable
from tests.unit.checker.disk.real import NODES, VERSIONS, unpacked


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(VERSIONS[-1], tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def data(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "data"))


def compared(data: Path, topic: str) -> Comparison:
    return compare({node: data / node for node in NODES}, topic, 0)


def changed(path: Path, change: Callable[[bytearray], object]) -> None:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def log(data: Path, topic: str, place: int, node: str = "n2") -> Path:
    found = data_folder.replica(data / node, topic, 0)
    assert found is not None
    return found.segments[place].log


def test_a_flipped_bit_that_the_checksum_covers(data: Path) -> None:
    path = log(data, "codecs", 1)
    changed(path, lambda content: content.__setitem__(100, content[100] ^ 4))
    found = compared(data, "codecs")
    assert not found.same
    (difference,) = found.differences
    assert (difference.node, difference.offset, difference.committed) == ("n2", int(path.stem), True)
    assert "bad checksum" in difference.has
    assert [(node, flaw.at) for node, flaw in found.flaws] == [("n2", 0)]
    assert found.replicas["n2"].unsound == 1


def test_a_flipped_bit_of_the_leader_epoch(data: Path) -> None:
    """No checksum covers it; the other replicas and the checkpoint show it."""
    changed(log(data, "codecs", 1), lambda content: content.__setitem__(15, content[15] ^ 32))
    found = compared(data, "codecs")
    assert not found.same and found.differences[0].node != found.differences[0].reference
    assert any("leader epoch 32" in flaw.what for node, flaw in found.flaws if node == "n2")


def test_a_flipped_bit_of_a_length(data: Path) -> None:
    """What follows is found again."""
    path = log(data, "codecs", 0)
    changed(path, lambda content: content.__setitem__(10, content[10] ^ 1))
    found = compared(data, "codecs")
    assert not found.same
    (flaw,) = [flaw for node, flaw in found.flaws]
    assert flaw.at == 0 and "the next sound batch is at byte" in flaw.what
    assert found.replicas["n2"].records == found.replicas["n1"].records - 5


def test_a_zeroed_page(data: Path) -> None:
    path = log(data, "txn", -1)
    changed(path, lambda content: content.__setitem__(slice(0, 700), bytes(700)))
    found = compared(data, "txn")
    assert not found.same
    assert any("zeros" in flaw.what and flaw.at == 0 for _, flaw in found.flaws)


def test_a_torn_tail(data: Path) -> None:
    path = log(data, "txn", -1, "n3")
    changed(path, lambda content: content.__delitem__(slice(-30, None)))
    found = compared(data, "txn")
    assert found.same  # as far as it reaches
    assert found.behind == {"n3": 48}
    assert ["the file ends before" in flaw.what for node, flaw in found.flaws] == [True]


def test_a_segment_is_missing(data: Path) -> None:
    path = log(data, "codecs", 2)
    path.unlink()
    found = compared(data, "codecs")
    assert not found.same and found.differences[0].has == "nothing"
    assert any("missing" in flaw.what for node, flaw in found.flaws if node == "n2")


def test_a_log_that_went_another_way(data: Path) -> None:
    """Another batch at the end: below the high watermark it counts, above it does not."""
    path = log(data, "txn", -1)
    content = path.read_bytes()
    last = [batch for batch in segment_file.read(io.BytesIO(content), "") if isinstance(batch, record_batch.Batch)][-1]
    record = bytearray(content[: last.at])
    path.write_bytes(record + _rewritten(last.content))
    found = compared(data, "txn")
    (difference,) = found.differences
    assert difference.offset == last.base and difference.has.endswith("different bytes")
    assert not found.same
    for node in NODES:
        checkpoint = data / node / checkpoints.HIGH_WATERMARKS
        checkpoint.write_text(checkpoint.read_text().replace("txn 0 53", "txn 0 48"))
    assert compared(data, "txn").same
    assert not compare({node: data / node for node in NODES}, "txn", 0, high_watermark=53).same


def _rewritten(content: bytes) -> bytes:
    """The batch with another byte in a value, and a checksum that holds."""
    import google_crc32c

    changed = bytearray(content)
    changed[-20] ^= 1
    changed[17:21] = google_crc32c.value(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (".index", "position"),
        (".timeindex", "timestamp"),
        (".txnindex", "transaction"),
        (".snapshot", "checksum"),
    ],
)
def test_garbage_in_what_stands_beside(data: Path, kind: str, message: str) -> None:
    folder = data / "n1" / "txn-0"
    path = next(path for path in sorted(folder.glob(f"*{kind}")) if path.stat().st_size)
    changed(path, lambda content: content.__setitem__(slice(2, 10), b"\xa5" * 8))
    found = compared(data, "txn")
    assert found.same
    assert [(node, flaw.file.endswith(kind), message in flaw.what) for node, flaw in found.flaws] == [
        ("n1", True, True)
    ]


def test_entries_from_before_a_truncation_are_no_damage(data: Path) -> None:
    """Nothing removes them from the index of a segment that is being written."""
    index = log(data, "codecs", -1, "n3").with_suffix(".index")
    changed(
        index, lambda content: content.__setitem__(slice(0, 8), (40).to_bytes(4, "big") + (4192).to_bytes(4, "big"))
    )
    assert compared(data, "codecs").flaws == ()
    (data / "n3" / checkpoints.CLEAN).touch()
    assert len(compared(data, "codecs").flaws) == 1


def test_checkpoints_that_are_none(data: Path) -> None:
    (data / "n1" / checkpoints.RECOVERY_POINTS).write_text("0\n2\ntxn 0 ten\n")
    (data / "n1" / checkpoints.HIGH_WATERMARKS).write_bytes(b"\xff\xfe")
    (data / "n1" / "txn-0" / checkpoints.EPOCHS).write_text("0\n2\n3 0\n2 24\n")
    (data / "n1" / "txn-0" / checkpoints.PARTITION).write_text("")
    messages = [flaw.what for node, flaw in compared(data, "txn").flaws]
    assert len(messages) == 6
    assert any("is not an entry" in what for what in messages) and any(
        "it should have '2' entries" in what for what in messages
    )


def test_nothing_there(tmp_path: Path) -> None:
    found = compare({"n1": tmp_path / "gone"}, "t", 0)
    assert found.same and found.absent == ("n1",) and found.replicas == {}
    (tmp_path / "n2" / "t-0").mkdir(parents=True)
    found = compare({"n2": tmp_path / "n2"}, "t", 0)
    assert [flaw.what for _, flaw in found.flaws] == ["it has no segment"]


# --- anything at all ------------------------------------------------------------------------------------

Change = tuple[str, float, int]
CHANGES = st.lists(
    st.tuples(st.sampled_from(["flip", "cut", "zero", "insert"]), st.floats(0, 1), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


def damaged(content: bytes, changes: list[Change]) -> bytes:
    damaged_bytes = bytearray(content)
    for kind, where, number in changes:
        at = int(where * max(len(damaged_bytes) - 1, 0))
        if kind == "flip" and damaged_bytes:
            damaged_bytes[at] ^= 1 << number % 8
        elif kind == "cut":
            del damaged_bytes[at:]
        elif kind == "zero":
            damaged_bytes[at : at + number] = bytes(len(damaged_bytes[at : at + number]))
        else:
            damaged_bytes[at:at] = bytes([number]) * (number % 9)
    return bytes(damaged_bytes)


def decoded(name: str, content: bytes) -> None:
    """Decode a file of any kind."""
    kind = Path(name).suffix
    if kind == ".log":
        for batch in segment_file.read(io.BytesIO(content), name):
            if isinstance(batch, record_batch.Batch):
                with contextlib.suppress(Unreadable):
                    list(records.records(batch))
                with contextlib.suppress(Unreadable):
                    records.marker(batch)
    elif kind == ".index":
        indexes.offset_index(content, 0, name)
    elif kind == ".timeindex":
        indexes.time_index(content, 0, name)
    elif kind == ".txnindex":
        indexes.transaction_index(content, name)
    elif kind == ".snapshot":
        snapshots.snapshot(content, name)
    else:
        checkpoints.offsets(content, name)
        checkpoints.epochs(content, name)
        checkpoints.properties(content, name)


@settings(max_examples=150, deadline=None)
@given(changes=CHANGES, place=st.integers(0, 10_000))
def test_no_file_makes_a_decoder_raise(pristine: Path, changes: list[Change], place: int) -> None:
    files = sorted(path for path in (pristine / "n3").rglob("*") if path.is_file() and path.stat().st_size)
    path = files[place % len(files)]
    decoded(path.name, damaged(path.read_bytes(), changes))


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, start=st.integers(0, 600))
def test_records_behind_a_checksum_that_holds(pristine: Path, changes: list[Change], start: int) -> None:
    """A batch that says nonsense and whose checksum holds all the same."""
    import google_crc32c

    batches = [
        batch
        for name in ("codecs", "txn")
        for file in sorted((pristine / "n1" / f"{name}-0").glob("*.log"))
        for batch in segment_file.read(io.BytesIO(file.read_bytes()), "")
        if isinstance(batch, record_batch.Batch)
    ]
    chosen = batches[start % len(batches)]
    body = chosen.content[:21] + damaged(chosen.content[21:], changes)
    if len(body) < record_batch.HEAD:
        return
    content = bytearray(body)
    content[8:12] = (len(content) - 12).to_bytes(4, "big")
    content[17:21] = google_crc32c.value(bytes(content[21:])).to_bytes(4, "big")
    decoded("x.log", bytes(content))


@settings(max_examples=25, deadline=None)
@given(changes=CHANGES, seed=st.integers(0, 10_000))
def test_no_folder_makes_a_survey_raise(
    pristine: Path, tmp_path_factory: pytest.TempPathFactory, changes: list[Change], seed: int
) -> None:
    at = tmp_path_factory.mktemp("any") / "n3"
    shutil.copytree(pristine / "n3", at)
    draw = random.Random(seed)
    topic = draw.choice(["codecs", "txn", "compacted", "short"])
    files = sorted([*at.glob(f"{topic}-0/*"), *(path for path in at.iterdir() if path.is_file())])
    for path in draw.sample(files, 3):
        path.write_bytes(damaged(path.read_bytes(), changes))
    found = survey("n3", at, topic, 0)
    replica = data_folder.replica(at, topic, 0)
    assert found is not None and replica is not None and len(found.flaws) <= 100
    contents.read(replica, lambda value: len(value or b""))
    compare({"n1": pristine / "n1", "n3": at}, topic, 0)
    shutil.rmtree(at.parent)
