"""Copies of metadata logs: what is copied, and the leader epochs of partitions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cluster.local import copy_metadata

NAME = f"{0:020d}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "n1" / "data"
    log = folder / copy_metadata.LOG
    log.mkdir(parents=True)
    for name in (f"{NAME}.log", f"{NAME}.index", f"{NAME}-0000000001.checkpoint", "quorum-state", "x.checkpoint.part"):
        (log / name).write_text(name)
    (log / "leader-epoch-checkpoint").write_text("0\n0\n")
    for partition in ("t-0", "t-1", "t-2.0123-delete"):
        (folder / partition).mkdir()
        (folder / partition / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    (folder / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: abc\n")
    second = folder.with_name("data2") / "t-3"
    second.mkdir(parents=True)
    (second / "leader-epoch-checkpoint").write_text("")
    return folder


def test_segments_snapshots_and_leader_epochs_are_copied(data: Path, tmp_path: Path) -> None:
    size = copy_metadata.keep(tmp_path / "kept", 1 << 20, {"n1": data, "n2": tmp_path / "gone"})
    log = tmp_path / "kept" / "n1" / copy_metadata.LOG
    copied = sorted(path.name for path in log.iterdir())
    assert copied == [f"{NAME}-0000000001.checkpoint", f"{NAME}.log", "quorum-state"]
    assert size == sum(path.stat().st_size for path in log.iterdir())
    epochs = json.loads((tmp_path / "kept" / "n1" / copy_metadata.EPOCHS).read_text())
    assert epochs == {"t-0": ["abc", "0\n1\n3 0\n"], "t-1": ["", "0\n1\n3 0\n"], "t-3": ["", ""]}
    assert list((tmp_path / "kept" / "n2" / copy_metadata.LOG).iterdir()) == []


def test_logs_that_are_too_large_are_not_copied(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copy_metadata.main([str(tmp_path / "kept"), "10", f"n1={data}"]) == 1
    assert "at most" in capsys.readouterr().err and not (tmp_path / "kept").exists()
    assert copy_metadata.main([str(tmp_path / "kept"), "1000", f"n1={data}"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] > 10
