"""The check of applications on hand-made runs: only records and committed offsets are known. All in one job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from checker.anomalies.catalogue import CATALOGUE
from checker.pipeline import judge
from harness.model.check_result import Result
from harness.report.text.phrases import OpPhrases

pytestmark = [pytest.mark.spark, pytest.mark.long]
N = 6
ALL: list[int | None] = list(range(N))


def made(
    folder: Path,
    outputs: list[int | None],
    promise: str = "exactly-once",
    count: int = 1,
    done: int = N,
    state: str | None = None,
    values: list[str] | None = None,
    shown: list[str | None] | None = None,
    acknowledged: int = N,
    inputs: list[int | None] | None = None,
) -> Path:
    """A run whose input records have the ids 0 to 5, and the key 0 or 1, in turn.

    outputs       the ids of the outputs
    count         the number of outputs of each input
    done          the committed offset
    state         what the state is
    values        the values of the inputs that the state is computed from
    shown         the states that the outputs show
    acknowledged  the number of records that the writers report as acknowledged
    inputs        the ids in the input; ALL if not given
    """
    ids = ALL if inputs is None else inputs
    (folder / "pipeline").mkdir(parents=True)
    (folder / "events").mkdir()
    application: dict[str, Any] = {"outputs": count, **({} if state is None else {"state": state})}
    about = {"schema": 1, "mode": promise, "transform": "identity", "readers": 1, "application": application}
    (folder / "pipeline" / "pipeline.json").write_bytes(orjson.dumps(about))
    (folder / "pipeline" / "committed.json").write_bytes(orjson.dumps({"offsets": {"in/0": done}}))
    place = {"partition": 0, "committed": True, "time_ns": 1}
    sides = (("input", "in", ids, values), ("output", "out", outputs, shown))
    rows: list[dict[str, Any]] = [
        {"side": side, "topic": topic, "offset": at, "id": id, "key": None if id is None else id % 2, "n": 0, **place}
        | ({} if states is None else {"state": states[at]})
        for side, topic, named, states in sides
        for at, id in enumerate(named)
    ]
    rows.append({"end": True, "ends": {"in/0": len(ids), "out/0": len(outputs)}, "caught_up": True})
    sent = [
        {"id": id, "key": id % 2, "topic": "in", "partition": 0, "offset": id, "outcome": "ok", "time_ns": 1}
        for id in range(acknowledged)
    ]
    for name, lines in (("read-0", rows), ("sent-0", sent)):
        (folder / "pipeline" / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder


COUNT: dict[str, Any] = {"outputs": ALL, "state": "count"}
COUNTS: list[str | None] = ["1", "1", "2", "2", "3", "3"]  # the records 0, 2 and 4 have key 0, the others key 1
SUM: dict[str, Any] = {"outputs": ALL, "state": "sum", "values": ["5", "0", "6", "1", "7", "2"]}
LAST: dict[str, Any] = {"outputs": ALL, "state": "last", "values": list("abcdef")}
LEAST: dict[str, Any] = {"promise": "at-least-once"}
MOST: dict[str, Any] = {"promise": "at-most-once"}
AGAIN: dict[str, Any] = {"outputs": [*ALL, 4], "shown": [*COUNTS, "4"]}  # the last record of key 0, counted twice
RESTARTED: dict[str, Any] = {"shown": ["1", "1", "1", "2", "2", "3"]}  # key 0 counts from 0 again
STATES: dict[str, tuple[dict[str, Any], str, dict[str, int], str]] = {
    "count": ({**COUNT, "shown": COUNTS}, "valid", {}, ""),
    "count from 0": ({**COUNT, "shown": ["0", "0", "1", "1", "2", "2"]}, "unknown", {}, "no output shows the state"),
    "count restarted": ({**COUNT, **RESTARTED}, "invalid", {"lost-update": 1}, ""),
    "count restarted, promised": ({**COUNT, **RESTARTED, **LEAST}, "invalid", {"lost-update": 1}, ""),
    "count restarted, not promised": ({**COUNT, **RESTARTED, **MOST}, "valid", {"lost-update": 1}, ""),
    "restarted twice": ({**COUNT, "shown": ["1", "1", "1", "2", "1", "3"]}, "invalid", {"lost-update": 2}, ""),
    "counted twice": ({**COUNT, "shown": ["1", "1", "2", "3", "3", "4"]}, "invalid", {"doubled-update": 1}, ""),
    "again": ({**COUNT, **AGAIN}, "invalid", {"duplicate-output": 1, "doubled-update": 1}, ""),
    "again, not promised": ({**COUNT, **AGAIN, **LEAST}, "valid", {"duplicate-output": 1, "doubled-update": 1}, ""),
    "again from the old count": (
        {**COUNT, **LEAST, "outputs": [*ALL, 4], "shown": [*COUNTS, "3"]}, "valid", {"duplicate-output": 1}, ""
    ),
    "one output missing": (
        {**COUNT, "outputs": [*ALL[:2], *ALL[3:]], "shown": ["1", "1", "2", "3", "3"]},
        "invalid", {"missing-output": 1}, "",
    ),
    "a copy in the input": (
        {**COUNT, "inputs": [*ALL, 4], "outputs": [*ALL, 4], "shown": [*COUNTS, "4"], "done": N + 1}, "valid", {}, ""
    ),
    "unreadable": ({**COUNT, "shown": [*COUNTS[:5], None]}, "unknown", {}, "1 output had no state that could be read"),
    "input is gone": (
        {**COUNT, "shown": ["2", "1", "3", "2", "4", "3"], "acknowledged": N + 1},
        "invalid", {"lost-input": 1}, "the state in 6 outputs was not judged",
    ),
    "sum": ({**SUM, "shown": ["5", "0", "11", "1", "18", "3"]}, "valid", {}, ""),
    "sum too low": ({**SUM, "shown": ["5", "0", "6", "1", "13", "3"]}, "invalid", {"lost-update": 1}, ""),
    "sum too high": ({**SUM, "shown": ["5", "0", "11", "2", "18", "4"]}, "invalid", {"doubled-update": 1}, ""),
    "last": ({**LAST, "shown": list("abcdef")}, "valid", {}, ""),
    "not the last": ({**LAST, "shown": list("abadef")}, "invalid", {"lost-update": 1}, ""),
    "three earlier ones": ({**LAST, "shown": list("abadad")}, "invalid", {"lost-update": 3}, ""),
}  # fmt: skip
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
    **STATES,
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


def test_a_witness_has_both_states(judged: dict[str, Result]) -> None:
    (found,) = judged["count restarted"].anomalies
    (witness,) = found.witnesses
    expected = {"topic": "in", "partition": 0, "offset": 2, "id": 2, "key": 0, "expected": "2", "found": "1"}
    assert {name: witness[name] for name in expected} == expected
    assert CATALOGUE["lost-update"].prose(witness, OpPhrases(None)) == (
        "Input in-0 offset 2 (id 2, key 0): its output at out-0 offset 2 shows the state 1, 2 expected."
    )
