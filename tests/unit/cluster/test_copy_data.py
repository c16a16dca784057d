"""Copies of data folders: what is copied, what is left out, and sparse files that stay sparse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cluster.local import copy_data

INDEX_BYTES = 10 << 20


@pytest.fixture
def nodes(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for node in ("n1", "n2"):
        data = found[node] = tmp_path / "nodes" / node / "data"
        for name in ("r-0-0", "r-0-1", "other-0"):
            (data / name).mkdir(parents=True)
            (data / name / f"{0:020d}.log").write_bytes(b"x" * 40_000)
            with (data / name / f"{0:020d}.index").open("wb") as index:
                index.write(b"12345678")
                index.truncate(INDEX_BYTES)
        (data / "meta.properties").write_text("node.id=1\n")
        (data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        (data / "bootstrap.checkpoint").write_text("secret")
    (found["n2"] / "r-0-2.0123456789abcdef0123456789abcdef-delete").mkdir()
    return found


def test_what_is_taken(nodes: dict[str, Path], tmp_path: Path) -> None:
    done = copy_data.keep(tmp_path / "kept", "r-", 1 << 30, nodes)
    assert done["left_out"] == [] and 4 * 40_000 <= done["bytes"] < 1 << 20
    names = {node: sorted(path.name for path in (tmp_path / "kept" / node).iterdir()) for node in nodes}
    files = ["meta.properties", "r-0-0", "r-0-1", "recovery-point-offset-checkpoint"]
    aside = "r-0-2.0123456789abcdef0123456789abcdef-delete"
    assert names == {"n1": files, "n2": sorted([*files, aside])}
    index = tmp_path / "kept" / "n1" / "r-0-0" / f"{0:020d}.index"
    assert index.read_bytes() == b"12345678" + bytes(INDEX_BYTES - 8)
    assert index.stat().st_blocks * 512 < 1 << 20


def test_a_partition_is_taken_from_all_or_from_none(
    nodes: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{node}={data}" for node, data in nodes.items()]
    assert copy_data.main([str(tmp_path / "kept"), "r-", "150000", *rows]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["left_out"] == ["r-0-1"] and output["bytes"] <= 150_000
    assert not list((tmp_path / "kept").glob("*/r-0-1"))
    assert len(list((tmp_path / "kept").glob("*/r-0-0/*.log"))) == 2


def test_of_several_folders_all_are_taken(nodes: dict[str, Path], tmp_path: Path) -> None:
    second = nodes["n1"].with_name("data2")
    (second / "r-1-0").mkdir(parents=True)
    (second / "r-1-0" / f"{0:020d}.log").write_bytes(b"second")
    (second / "recovery-point-offset-checkpoint").write_text("0\n1\nr-1 0 7\n")
    (nodes["n1"] / "recovery-point-offset-checkpoint").write_text("0\n1\nr-0 0 5\n")
    copy_data.keep(tmp_path / "kept", "r-", 1 << 30, nodes)
    kept = tmp_path / "kept" / "n1"
    assert (kept / "r-1-0" / f"{0:020d}.log").read_bytes() == b"second"
    assert (kept / "recovery-point-offset-checkpoint").read_text() == "0\n2\nr-0 0 5\nr-1 0 7\n"
    assert not (tmp_path / "kept" / "n2" / "r-1-0").exists()


def test_what_is_no_checkpoint_is_left_as_it_is() -> None:
    assert copy_data.joined("0\n1\na 0 1\n", "garbage") == "0\n1\na 0 1\n"
    assert copy_data.joined("1\n0\n", "0\n1\na 0 1\n") == "1\n0\n"
