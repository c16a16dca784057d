"""What is promised of a pipeline's run beside its mode: by how its group begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.checks.pipeline import _at_first, _promised
from harness.model.check_options import Settings
from harness.model.result import AnomalyFound


def found(name: str, *partitions: int) -> AnomalyFound:
    witnesses = tuple({"topic": "r-0", "partition": number} for number in partitions)
    return AnomalyFound(name, "what it is", len(witnesses), True, True, witnesses)


@pytest.mark.parametrize(
    ("name", "reset", "partitions", "promised"),
    [
        ("missing-output", "latest", (4, 5), False),
        ("missing-output", "latest", (4, 0), True),
        ("offset-gap", "latest", (4,), False),
        ("duplicate-output", "latest", (4,), True),
        ("missing-output", "earliest", (4,), True),
    ],
)
def test_at_the_latest_offset_only_new_partitions_may_be_skipped(
    name: str, reset: str, partitions: tuple[int, ...], promised: bool
) -> None:
    assert _promised(found(name, *partitions), Settings(auto_offset_reset=reset), 4) is promised


def test_how_many_partitions_there_were_is_in_the_run(tmp_path: Path) -> None:
    assert _at_first(tmp_path) > 1 << 20
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "pipeline.json").write_text('{"partitions": 4}')
    assert _at_first(tmp_path) == 4
