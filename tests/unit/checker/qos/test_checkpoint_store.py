"""The state after a kill, settings and offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checker.qos import checkpoint_store, comparison_settings, losses
from checker.qos.comparison_settings import Settings
from checker.qos.window_state import Book
from harness.model.errors_and_exit_codes import BadInput
from harness.model.transforms import TRANSFORMS

SETTINGS = Settings(("t",), ("u",), "localhost:1", window_ms=60_000, padding_ms=30_000)


def finish(kept: checkpoint_store.Store, batch: int) -> None:
    kept.begin(batch)
    kept.finish(Book(batch=batch), [{"batch": batch, "start_ms": batch}])


def lines(folder: Path) -> list[int]:
    return [json.loads(line)["batch"] for line in (folder / checkpoint_store.WINDOWS).read_text().splitlines()]


def test_a_batch_is_whole_or_not_there(tmp_path: Path) -> None:
    kept = checkpoint_store.opened(tmp_path / "c", SETTINGS)
    for batch in range(4):
        finish(kept, batch)
    # Killed during the next batch: its lines exist, its folder does not; one line is incomplete.
    kept.begin(4)
    kept.tell([{"batch": 4}])
    with (kept.folder / checkpoint_store.WINDOWS).open("a") as file:
        file.write('{"batch": 4, "sta')
    kept.close()
    again = checkpoint_store.opened(tmp_path / "c", SETTINGS)
    assert again.book().batch == 3
    assert lines(again.folder) == [0, 1, 2, 3]
    finish(again, 4)
    assert lines(again.folder) == [0, 1, 2, 3, 4]
    assert sorted(path.name for path in (again.folder / "state").iterdir()) == ["3", "4"]
    again.close()


def test_other_checkpoints_are_refused(tmp_path: Path) -> None:
    kept = checkpoint_store.opened(tmp_path / "c", SETTINGS)
    with pytest.raises(BadInput, match="another process is using it"):
        checkpoint_store.opened(tmp_path / "c", SETTINGS)
    kept.close()
    other = Settings(("t",), ("v",), "localhost:2", window_ms=60_000, padding_ms=30_000)
    with pytest.raises(BadInput, match=r'another comparison: output was \["u"\] and is now \["v"\]'):
        checkpoint_store.opened(tmp_path / "c", other)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "precious.txt").touch()
    with pytest.raises(BadInput, match="not a checkpoint"):
        checkpoint_store.opened(tmp_path / "d", SETTINGS)
    (tmp_path / "c" / "spark" / "commits").mkdir(parents=True)
    (tmp_path / "c" / "spark" / "commits" / "0").touch()
    with pytest.raises(BadInput, match="state is missing"):
        checkpoint_store.opened(tmp_path / "c", SETTINGS)


def test_offsets_are_those_of_the_topics(tmp_path: Path) -> None:
    kept = checkpoint_store.opened(tmp_path / "c", SETTINGS)
    assert kept.offsets(0) is None
    path = tmp_path / "c" / "spark" / "offsets"
    path.mkdir(parents=True)
    (path / "0").write_text('v1\n{"conf":{"a":{}}}\n{"t":{"0":5},"u":{"0":3}}\n{"logOffset":1}\n17')
    assert kept.offsets(0) == {"t": {"0": 5}, "u": {"0": 3}}
    kept.close()


def test_losses_lie_between_where_a_batch_begins_and_the_earliest_offset() -> None:
    begin = {"t": {"0": 10, "1": 10, "2": 10, "3": 10}}
    end = {"t": {"0": 50, "1": 50, "2": 4, "3": 20}}
    earliest = {"t": {"0": 10, "1": 30, "2": 0, "3": 40}}
    assert losses.between(begin, end, earliest) == ({("t", "1"): (10, 30), ("t", "3"): (10, 20)}, 1)


def test_durations_and_topics() -> None:
    durations = ("60s", "500ms", "1.5m", "2h", "30")
    assert [comparison_settings.duration_ms("-", text) for text in durations] == [
        60_000,
        500,
        90_000,
        7_200_000,
        30_000,
    ]
    for text in ("", "s", "-5s", "0s", "25h", "1 s", "٣s"):
        with pytest.raises(BadInput, match="--window"):
            comparison_settings.duration_ms("--window", text)
    assert comparison_settings.topics("--input", "a, b.c") == ("a", "b.c")
    for text in ("", "a,", "a/b", "a,a", ".."):
        with pytest.raises(BadInput, match="--input"):
            comparison_settings.topics("--input", text)


def test_expressions_where_none_are_given() -> None:
    assert comparison_settings.defaults(None, False).output_key == comparison_settings.DEFAULT_KEY
    assert comparison_settings.defaults(None, True).output_key == "id"
    assert comparison_settings.defaults("fan-out", True).part == "n"
    assert "$.n" in comparison_settings.defaults("fan-out", False).part
    assert comparison_settings.defaults("aggregate", False).part == "0"
    assert set(comparison_settings.EXPECT) == set(TRANSFORMS)
    with pytest.raises(BadInput, match="--pipeline many: no such transform; choose one of identity"):
        comparison_settings.defaults("many", False)
