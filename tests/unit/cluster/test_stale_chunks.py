"""Pages of an older state: what is copied, what counts as changed, and what is put back."""

from __future__ import annotations

import random
from pathlib import Path

from harness.cluster.local.file_damage_kinds import PAGE
from harness.cluster.local.stale_chunks import PAGES_MAX, changed, remember, stale_chunks


def test_what_did_not_exist_counts_as_zeroes() -> None:
    assert changed(b"", b"") == []
    assert changed(b"a" * PAGE, b"a" * PAGE + b"\0" * 10) == []
    assert changed(b"a" * PAGE, b"a" * PAGE + b"b") == [PAGE]
    assert changed(b"a" * 3 * PAGE, b"b" * PAGE) == [0]  # truncated since


def test_half_of_the_changed_pages_are_as_they_were(tmp_path: Path) -> None:
    data = tmp_path / "data"
    log = data / "r-0-1"
    log.mkdir(parents=True)
    segment, other = log / f"{0:020d}.log", data / "s-0-1"
    other.mkdir()
    (other / segment.name).write_bytes(b"x")
    segment.write_bytes(b"a" * (2 * PAGE + 100))
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\nr-0 1 7\n")
    assert remember(data, "r-", random.Random(1)) == {"files": 2}
    segment.write_bytes(b"a" * PAGE + b"b" * 9 * PAGE)
    (log / f"{900:020d}.log").write_bytes(b"new")
    restored = stale_chunks(data, "r-", random.Random(1))["restored"]
    assert list(restored) == [f"r-0-1/{segment.name}"] and len(restored[f"r-0-1/{segment.name}"]) == 5
    now = segment.read_bytes()
    assert len(now) == 10 * PAGE
    older = b"a" * (2 * PAGE + 100) + bytes(8 * PAGE)
    for at in range(0, len(now), PAGE):
        fresh = at not in restored[f"r-0-1/{segment.name}"]
        whole = (b"a" if at == 0 else b"b") * PAGE if fresh else older[at : at + PAGE]
        assert now[at : at + PAGE] == whole
    assert stale_chunks(data, "r-", random.Random(1)) == {}  # the copy is gone
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_checkpoint_of_earlier_times(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    point = data / "recovery-point-offset-checkpoint"
    point.write_text("0\n1\nr-0 1 7\n")
    remember(data, "r-", random.Random(1))
    point.write_text("0\n1\nr-0 1 9\n")
    assert stale_chunks(data, "r-", random.Random(1)) == {"restored": {point.name: [0]}}
    assert point.read_text() == "0\n1\nr-0 1 7\n"


def test_no_more_than_a_limit(tmp_path: Path) -> None:
    log = tmp_path / "data" / "r-0-0"
    log.mkdir(parents=True)
    file = log / f"{0:020d}.log"
    file.write_bytes(b"")
    remember(tmp_path / "data", "r-", random.Random(1))
    file.write_bytes(b"b" * PAGE * 500)
    (pages,) = stale_chunks(tmp_path / "data", "r-", random.Random(1))["restored"].values()
    assert len(pages) == PAGES_MAX
