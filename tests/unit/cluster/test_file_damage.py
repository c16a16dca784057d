"""Damage to files depends on the seed, and affects only the run's own files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from harness.cluster.local import file_damage
from harness.protocol import record_batch, segment_file

BATCH = 100  # bytes


def _batches(size: int) -> bytes:
    """Batches that are empty except for their lengths."""
    return (bytes(8) + (BATCH - 12).to_bytes(4, "big") + bytes(BATCH - 12)) * (size // BATCH)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for topic, size in (("r-0-0", 4000), ("r-0-1", 9000), ("other-0-0", 20_000)):
        folder = tmp_path / topic
        folder.mkdir()
        (folder / "0.log").write_bytes(_batches(size))
        (folder / "0.index").write_bytes(b"")
        (folder / "0.timeindex").write_bytes(bytes(48))
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0")
    return tmp_path


def _files(data: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("kind", "touched"),
    [
        ("flip-bits", {"r-0-1/0.log"}),
        ("truncate-tail", {"r-0-1/0.log"}),
        ("damage-index", {f"r-0-{n}/0.{kind}" for n in (0, 1) for kind in ("index", "timeindex")}),
        ("delete-checkpoint", {"recovery-point-offset-checkpoint"}),
    ],
)
def test_only_what_is_named_is_touched(
    data: Path, kind: str, touched: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = _files(data)
    assert file_damage.main([kind, str(data), "r-", "7"]) == 0
    now = _files(data)
    assert {name for name in before if now.get(name) != before[name]} == touched
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("seed", range(20))
def test_every_flip_is_one_bit_that_a_checksum_covers(data: Path, seed: int) -> None:
    before = (data / "r-0-1/0.log").read_bytes()
    done = file_damage.flip_bits(data, "r-", random.Random(seed))
    changed = [old ^ new for old, new in zip(before, (data / "r-0-1/0.log").read_bytes(), strict=True)]
    assert [place for place, byte in enumerate(changed) if byte] == done["flipped"]
    assert all(place % BATCH >= record_batch.COVERED_AT for place in done["flipped"])
    assert all(byte.bit_count() == 1 for byte in changed if byte)


def test_what_is_covered_ends_where_batches_do() -> None:
    assert segment_file.covered(_batches(300)) == [range(21, 100), range(121, 200), range(221, 300)]
    assert segment_file.covered(_batches(300)[:-1]) == [range(21, 100), range(121, 200)]
    assert segment_file.covered(_batches(100) + bytes(200)) == [range(21, 100)]
    assert segment_file.covered(b"") == []


@pytest.mark.parametrize("kind", file_damage.KINDS)
def test_where_there_is_nothing_nothing_is_done(tmp_path: Path, kind: str) -> None:
    assert file_damage.KINDS[kind](tmp_path, "r-", random.Random(1)) == {}


def test_what_is_erased_is_as_empty_as_after_formatting(data: Path) -> None:
    for name in file_damage.FORMATTED[:2]:
        (data / name).write_text("kept")
    (data / "lost+found").mkdir()
    count = len(list(data.iterdir()))
    assert file_damage.erase(data, "r-", random.Random(1)) == {"erased": count - 3}
    assert {path.name for path in data.iterdir()} == set(file_damage.FORMATTED)


@pytest.mark.parametrize("kind", ["format", "format-unsynced"])
def test_reformatting_restores_a_lost_bootstrap_file(data: Path, kind: str) -> None:
    file = data / file_damage.BOOTSTRAP
    file.write_bytes(b"levels")
    done = file_damage.KINDS[kind](data, "r-", random.Random(1))
    assert done["synced"] == (kind == "format")
    assert {path.name for path in data.iterdir()} <= set(file_damage.FORMATTED)
    file.write_bytes(b"")
    file_damage.KINDS[kind](data, "r-", random.Random(1))
    assert file.read_bytes() == b"levels"
