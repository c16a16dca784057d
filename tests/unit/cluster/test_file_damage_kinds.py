"""Each kind of damage changes what it should in one part of a log, depending on the seed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness.cluster.local import file_damage_kinds, log_folders
from harness.protocol.segment_file import covered

BATCH = 300


def _batches(count: int) -> bytes:
    head = bytes(8) + (BATCH - 12).to_bytes(4, "big")
    return (head + bytes(range(1, 101)) * 3)[:BATCH] * count


@pytest.fixture
def data(tmp_path: Path) -> Path:
    log = tmp_path / "r-0-0"
    log.mkdir()
    for base in (0, 100, 200):
        (log / f"{base:020d}.log").write_bytes(_batches(40))
        (log / f"{base:020d}.index").write_bytes(bytes(80))
        (log / f"{base:020d}.timeindex").write_bytes(bytes(120))
        (log / f"{base:020d}.snapshot").write_bytes(bytes(100))
    (log / "00000000000000000300.log").touch()  # rolled, and still empty
    (log / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\nr-0 0 200\nother 0 5\n")
    (tmp_path / ".kafka_cleanshutdown").touch()
    other = tmp_path / "other-0"
    other.mkdir()
    (other / f"{0:020d}.log").write_bytes(_batches(4))
    return tmp_path


def _files(data: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def _hurt(data: Path, kind: str, seed: int = 1) -> set[str]:
    """The changed files."""
    before = _files(data)
    assert file_damage_kinds.KINDS[kind](data, "r-", random.Random(seed))
    now = _files(data)
    return {name for name in before if now.get(name) != before[name]}


LAST, FIRST = "r-0-0/00000000000000000200", "r-0-0/00000000000000000000"
EVERY = [f"r-0-0/{base:020d}" for base in (0, 100, 200)]


@pytest.mark.parametrize(
    ("kind", "touched"),
    [
        ("flip-last", {f"{LAST}.log"}),
        ("flip-first", {f"{FIRST}.log"}),
        ("tail-last", {f"{LAST}.log"}),
        ("zero-last", {f"{LAST}.log"}),
        ("zero-first", {f"{FIRST}.log"}),
        ("index-bad", {f"{name}.index" for name in EVERY}),
        ("timeindex-bad", {f"{name}.timeindex" for name in EVERY}),
        ("index-short", {f"{name}.{kind}" for name in EVERY for kind in ("index", "timeindex")}),
        ("index-gone", {f"{name}.{kind}" for name in EVERY for kind in ("index", "timeindex")}),
        ("snapshot-bad", {f"{name}.snapshot" for name in EVERY}),
        ("epochs-bad", {"r-0-0/leader-epoch-checkpoint"}),
        ("no-point", {"recovery-point-offset-checkpoint"}),
        ("no-marker", {".kafka_cleanshutdown"}),
        ("no-point-no-marker", {"recovery-point-offset-checkpoint", ".kafka_cleanshutdown"}),
        ("point-bad", {"recovery-point-offset-checkpoint"}),
        ("point-high", {"recovery-point-offset-checkpoint"}),
    ],
)
def test_only_the_part_is_touched(data: Path, kind: str, touched: set[str]) -> None:
    assert _hurt(data, kind) == touched


def test_every_kind_is_tested() -> None:
    marks = test_only_the_part_is_touched.pytestmark  # type: ignore[attr-defined]
    folders = {"folder-fails", "folder-back"}
    assert {row[0] for row in marks[0].args[1]} == set(file_damage_kinds.KINDS) - folders


def test_a_folder_that_fails_and_comes_back(data: Path) -> None:
    own = data / "data"
    second = data / "data2"
    (second / "r-0-1").mkdir(parents=True)
    own.mkdir()
    assert file_damage_kinds.KINDS["folder-fails"](own, "r-", random.Random(1))
    assert second.is_file() and log_folders.look(own, "r-")["logs"] == {}
    assert file_damage_kinds.KINDS["folder-fails"](own, "r-", random.Random(1)) == {}
    assert file_damage_kinds.KINDS["folder-back"](own, "r-", random.Random(1))
    assert list(log_folders.look(own, "r-")["logs"]) == ["r-0-1"]


@pytest.mark.parametrize("kind", file_damage_kinds.KINDS)
def test_without_such_a_part_nothing_was_done(tmp_path: Path, kind: str) -> None:
    assert file_damage_kinds.KINDS[kind](tmp_path, "r-", random.Random(1)) == {}


@pytest.mark.parametrize("seed", range(20))
def test_a_flip_is_one_bit_that_a_checksum_covers(data: Path, seed: int) -> None:
    before = (data / f"{LAST}.log").read_bytes()
    _hurt(data, "flip-last", seed)
    after = (data / f"{LAST}.log").read_bytes()
    places = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(places) == 1 and (before[places[0]] ^ after[places[0]]).bit_count() == 1
    assert any(places[0] in batch for batch in covered(before))


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_tail_ends_within_the_last_batch(data: Path, seed: int) -> None:
    _hurt(data, "tail-last", seed)
    size = (data / f"{LAST}.log").stat().st_size
    assert 39 * BATCH < size < 40 * BATCH


def test_the_data_on_disk_is_summarised(data: Path) -> None:
    found = log_folders.look(data, "r-")
    assert found == {
        "clean": True,
        "logs": {
            "r-0-0": {
                "segments": [[0, 12000], [100, 12000], [200, 12000], [300, 0]],
                "epochs": ["0 0"],
                "snapshots": 3,
                "indexes": [3, 3],
                "point": 200,
            }
        },
    }
    _hurt(data, "point-bad")
    assert log_folders.look(data, "r-")["logs"]["r-0-0"]["point"] is None
