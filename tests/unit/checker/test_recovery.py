"""The recovery check's findings about starts and replicas."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from checker.checks import replicas
from checker.checks.recovery import accepted, acts, differences, due, starts
from checker.disk.comparison import Comparison, Difference
from harness.model.check_options import Settings

SEGMENTS = [[0, 100], [52, 100], [104, 100], [156, 80]]


def _log(point: int | None) -> dict[str, Any]:
    return {"segments": SEGMENTS, "point": point}


def _start(
    expect: dict[str, Any],
    recovered: list[int],
    phrases: tuple[str, ...] = (),
    ended: bool = False,
    point: int | None = 156,
) -> dict[str, Any]:
    log_lines = {
        "segments": {"r-0-0": recovered} if recovered else {},
        "said": {name: ["line"] for name in phrases},
        "all_ms": 87,
    }
    return {
        "do": "start",
        "number": 2,
        "nodes": ["n1"],
        "expect": expect,
        "log": {"n1": log_lines},
        "before": {"n1": {"logs": {"r-0-0": _log(point)}}},
        "started_s": {"n1": 8.0},
        "ended": ["n1"] if ended else [],
    }


@pytest.mark.parametrize(
    ("point", "recovers", "expected"),
    [
        (156, "none", []),
        (156, "point", [156]),
        (155, "point", [104, 156]),  # in the middle of a segment: recovery starts at its beginning
        (None, "point", [0, 52, 104, 156]),
        (0, "point", [0, 52, 104, 156]),
        (1_000_000, "point", [156]),
        (156, "all", [0, 52, 104, 156]),
    ],
)
def test_the_segment_that_holds_the_recovery_point_and_those_behind_it(
    point: int | None, recovers: str, expected: list[int]
) -> None:
    assert due(_log(point), recovers) == expected


@pytest.mark.parametrize(
    "act",
    [
        _start({"recovers": "point"}, [156]),
        _start({"recovers": "none"}, []),
        _start({"recovers": "any"}, [52]),
        _start({"recovers": "all", "says": ["corrupt"]}, [0, 52], ("corrupt",)),  # truncated, so the rest is not read
        _start({"recovers": "any", "ends": True, "says": ["malformed"]}, [], ("malformed",), ended=True),
        _start({"recovers": "any", "ends": True, "says": ["no-room|no-page"]}, [], ("no-page",), ended=True),
        {"do": "kill", "nodes": ["n1"]},
    ],
)
def test_a_start_as_it_should_be(act: dict[str, Any]) -> None:
    assert differences(act) == []


@pytest.mark.parametrize(
    "act",
    [
        _start({"recovers": "point"}, []),
        _start({"recovers": "point"}, [104, 156]),
        _start({"recovers": "none"}, [156]),
        _start({"recovers": "all"}, [0, 52]),
        _start({"recovers": "point", "says": ["corrupt"]}, [156]),
        _start({"recovers": "point", "never": ["corrupt"]}, [156], ("corrupt",)),
        _start({"recovers": "point"}, [156], ended=True),
        _start({"recovers": "any", "ends": True}, []),
    ],
)
def test_an_unexpected_start_is_reported_once(act: dict[str, Any]) -> None:
    assert len(differences(act)) == 1


def test_a_row_for_each_start() -> None:
    (row,) = starts([_start({}, [104, 156]), {"do": "kill", "nodes": ["n1"]}])
    assert (row["segments"], row["recovered"], row["recovered_bytes"], row["load_ms"]) == (4, 2, 180, 87)


def _compared(committed: bool | None, behind: dict[str, int]) -> Comparison:
    difference = Difference("n2", "n1", 7, "a batch", "another batch", committed)
    return Comparison("r-0", 0, {}, (), "n1", 10, (0, 10), (difference,), behind)


def test_replicas_that_differ_below_the_high_watermark_are_an_anomaly() -> None:
    kept = Settings(acks="all", replication=3, min_insync_replicas=2, unclean_election=False)
    found = replicas.judged([_compared(True, {})], kept)
    assert [one.name for one in found.anomalies] == ["replica-difference"]
    assert found.anomalies[0].promised and not found.reasons
    assert replicas.judged([_compared(False, {})], kept).anomalies == ()
    assert replicas.judged([_compared(False, {"n3": 4})], kept).reasons


def test_without_kept_data_replicas_are_not_compared(tmp_path: Path) -> None:
    for place in (tmp_path, None):
        looked = replicas.look(place, Settings())
        assert not looked.anomalies and "were not compared" in looked.reasons[0]


def _sequences(retry: list[int], gap: int, end: int) -> list[dict[str, Any]]:
    sequences = {"retry": retry, "gap": gap, "end": end}
    return [{"number": 0, "offsets": [0, 1, 2]}, {"number": 5, "sequences": sequences}]


@pytest.mark.parametrize(
    ("acts", "count"),
    [
        (_sequences([0, 2], 45, 3), 0),
        (_sequences([46, -1], 45, 3), 0),
        (_sequences([0, 3], 45, 4), 2),  # appended again
        (_sequences([0, 2], 0, 4), 1),  # and one after a gap
        ([{"number": 1}], 0),
    ],
)
def test_old_sequence_numbers_must_be_refused(acts: list[dict[str, Any]], count: int) -> None:
    assert len(accepted(acts)) == count


def test_an_act_that_failed_is_known_by_what_was_asked() -> None:
    requested = {"do": "fill", "number": 0, "of": 2, "rule": {"lost": False, "reported": False}}
    rows = [
        {"f": "step", "phase": "invoke", "value": json.dumps(requested)},
        {"f": "step", "phase": "complete", "value": '{"took_effect": false}'},
        {"f": "heal", "phase": "invoke", "value": "null"},
        {"f": "step", "phase": "invoke", "value": '{"do": "start", "number": 1, "of": 2}'},
        {
            "f": "step",
            "phase": "complete",
            "value": '{"do": "start", "number": 1, "of": 2, "took_effect": true}',
        },
    ]
    done = acts(SimpleNamespace(small=lambda name: pa.Table.from_pylist(rows)))  # type: ignore[arg-type]
    assert done[0] == {**requested, "took_effect": False} and done[1]["do"] == "start"
    assert differences(done[1]) == [] and list(starts(done)) == []
