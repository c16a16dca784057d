"""The check of applications on hand-made runs: only records and committed offsets are known. All in one job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from checker.pipeline import judge
from harness.model.check_result import Result

pytestmark = [pytest.mark.spark, pytest.mark.long]
N = 6


def made(folder: Path, outputs: list[int | None], promise: str = "exactly-once", count: int = 1, done: int = N) -> Path:
    """A run whose input records have the ids 0 to 5; `outputs` are the ids of its outputs."""
    (folder / "pipeline").mkdir(parents=True)
    (folder / "events").mkdir()
    about = {"schema": 1, "mode": promise, "transform": "identity", "readers": 1, "application": {"outputs": count}}
    (folder / "pipeline" / "pipeline.json").write_bytes(orjson.dumps(about))
    (folder / "pipeline" / "committed.json").write_bytes(orjson.dumps({"offsets": {"in/0": done}}))
    place = {"partition": 0, "committed": True, "time_ns": 1}
    sides = (("input", "in", list(range(N))), ("output", "out", outputs))
    rows: list[dict[str, Any]] = [
        {"side": side, "topic": topic, "offset": at, "id": id, "key": None if id is None else id % 2, "n": 0, **place}
        for side, topic, ids in sides
        for at, id in enumerate(ids)
    ]
    rows.append({"end": True, "ends": {"in/0": N, "out/0": len(outputs)}, "caught_up": True})
    sent = [
        {"id": id, "key": id % 2, "topic": "in", "partition": 0, "offset": id, "outcome": "ok", "time_ns": 1}
        for id in range(N)
    ]
    for name, lines in (("read-0", rows), ("sent-0", sent)):
        (folder / "pipeline" / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder


ALL: list[int | None] = list(range(N))
CASES: dict[str, tuple[dict[str, Any], str, dict[str, int], str]] = {
    "honest": ({"outputs": ALL}, "valid", {}, ""),
    "another-order": ({"outputs": ALL[::-1]}, "valid", {}, ""),
    "missing": ({"outputs": ALL[1:]}, "invalid", {"missing-output": 1}, ""),
    "missing, promised": ({"outputs": ALL[1:], "promise": "at-least-once"}, "invalid", {"missing-output": 1}, ""),
    "missing, not promised": ({"outputs": ALL[1:], "promise": "at-most-once"}, "valid", {"missing-output": 1}, ""),
    "double": ({"outputs": [*ALL, 3, 3]}, "invalid", {"duplicate-output": 1}, ""),
    "double, not promised": ({"outputs": [*ALL, 3], "promise": "at-least-once"}, "valid", {"duplicate-output": 1}, ""),
    "two of each": ({"outputs": [*ALL, *ALL], "count": 2}, "valid", {}, ""),
    "one of two": ({"outputs": [*ALL, *ALL[2:]], "count": 2}, "invalid", {"missing-output": 2}, ""),
    "three of two": ({"outputs": [*ALL, *ALL, 0], "count": 2}, "invalid", {"duplicate-output": 1}, ""),
    "not committed": ({"outputs": ALL[:4], "done": 4}, "unknown", {}, "2 of 6 input records are at or beyond"),
    "output before its commit": ({"outputs": ALL, "done": 4}, "unknown", {}, "2 of 6 input records are at or beyond"),
    "unnamed": ({"outputs": [*ALL[1:], None]}, "unknown", {}, "1 output could not be assigned to an input record"),
    "stranger": ({"outputs": [*ALL, 99]}, "invalid", {"phantom-output": 1}, ""),
    "only strangers": ({"outputs": [90, 91]}, "unknown", {}, "no output names a record of the input"),
    "none": ({"outputs": []}, "invalid", {"missing-output": 6}, ""),
}


@pytest.fixture(scope="module")
def judged(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("runs")
    runs = {name: made(folder / str(n), **case[0]) for n, (name, case) in enumerate(CASES.items())}
    found = judge.batch(spark, list(runs.values()))
    return {name: found[run] for name, run in runs.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_known_decides(judged: dict[str, Result], name: str) -> None:
    _, valid, anomalies, reason = CASES[name]
    result = judged[name]
    assert result.valid == valid, result
    assert {found.name: found.count for found in result.anomalies} == anomalies
    assert any(reason in each for each in result.reasons) if reason else not result.reasons
