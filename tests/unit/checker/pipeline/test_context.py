"""The events and faults around a witness, from the events of one partition."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from checker.pipeline import context, offset_tasks
from checker.pipeline.context import Trail, faults_near, with_events
from checker.pipeline.events import ordered
from checker.pipeline.offset_machine import EVENTS

S = 10**9
COLUMNS = ("time_ns", "line", "instance", "incarnation", "generation", "event", "first", "last", "count", "gaps")
NUMBERS = {"run": "run", "topic": "in", "partition": 0}


def table(*rows: tuple[Any, ...]) -> pa.Table:
    """(seconds, event, first, last) of instance 0 and incarnation 1, in generation 3."""
    found = []
    for line, (at_s, event, *numbers) in enumerate(rows):
        first, last = [*numbers, None, None][:2]
        values = (int(at_s * S), line, "0", 1, 3, event, first, last, None, None)
        found.append(NUMBERS | dict(zip(COLUMNS, values, strict=True)))
    return pa.Table.from_pylist(found)


EVENTS_OF_ONE = table(
    (1, "assigned"),
    (2, "position", 0),
    (3, "polled", 0, 4),
    (4, "produced", 0, 4),
    (5, "committed", 5),
    (6, "polled", 5, 9),
    (7, "produced", 5, 9),
    (8, "committed", 10),
    (9, "revoked"),
)


def test_events_come_in_order_of_time_and_of_lines_at_one_time() -> None:
    turned = table((2, "polled", 0, 4), (1, "assigned"), (2, "produced", 0, 4))
    assert [event.event for event in ordered(turned)] == ["assigned", "polled", "produced"]
    assert list(ordered(turned.slice(0, 0))) == []
    assert [event.gaps for event in ordered(turned)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("offset", "handled", "passed_s"),
    [(0, [3, 4], 5), (4, [3, 4], 5), (5, [6, 7], 8), (9, [6, 7], 8), (10, [], None)],
)
def test_what_became_of_an_offset(offset: int, handled: list[int], passed_s: int | None) -> None:
    trail = Trail.of(EVENTS_OF_ONE)
    assert [event.time_ns // S for event in trail.handled(offset)] == handled
    passed = trail.passed(offset)
    assert (None if passed is None else passed.time_ns // S) == passed_s


def test_only_the_first_and_last_of_many_events_are_shown() -> None:
    trail = Trail.of(table(*((at, "polled", 0, 4) for at in range(20))))
    assert [event.time_ns // S for event in trail.handled(2)] == [0, 1, 2, 3, 16, 17, 18, 19]
    whole = Trail.of(table(*((at, "polled", 0, 4) for at in range(context.LISTED))))
    assert len(whole.handled(2)) == context.LISTED


def test_the_last_rebalances_before_a_time() -> None:
    trail = Trail.of(table(*((at, "assigned" if at % 2 else "revoked") for at in range(6)), (6, "polled", 0, 1)))
    assert [event.time_ns // S for event in trail.rebalances(4 * S)] == [2, 3, 4]
    assert [event.time_ns // S for event in trail.rebalances(1 * S)] == [0, 1]


def test_faults_of_the_ten_seconds_before() -> None:
    faults = [(at * S, f"fault {at}") for at in (1, 9, 10, 20, 21)]
    assert [one["event"] for one in faults_near(faults, 20 * S)] == ["fault 10", "fault 20"]
    many = [(at, f"fault {at}") for at in range(7)]
    assert [one["event"] for one in faults_near(many, 6)] == ["fault 3", "fault 4", "fault 5", "fault 6"]
    assert faults_near(faults, None) == []


MISSING = {
    "run": "run",
    "name": "missing-output",
    "topic": "in",
    "partition": 0,
    "offset": 7,
    "id": 3,
    "key": 1,
    "n": 0,
    "copies": 0,
    "expected": 1,
    "outputs": [],
}
COPY = {"topic": "out", "partition": 1, "offset": 2, "instance": "5", "incarnation": 6, "generation": 7, "time_ns": 2}


def witness(row: dict[str, Any], events: pa.Table, *faults: tuple[int, str]) -> dict[str, Any]:
    (completed,) = with_events(pa.Table.from_pylist([MISSING | row]), events, {"run": faults}).to_pylist()
    found = orjson.loads(completed["witness"])
    assert (completed["run"], completed["name"]) == ("run", "missing-output")
    assert completed["place"] == (-1 if found["offset"] is None else found["offset"])
    return dict(found)


def test_the_instance_that_skipped_a_record_and_surrounding_events() -> None:
    found = witness({}, EVENTS_OF_ONE, (7 * S, "kill"), (9 * S, "too late"))
    assert (found["instance"], found["incarnation"], found["generation"], found["time_ns"]) == ("0", 1, 3, 8 * S)
    around = [(one["time_ns"] // S, one["event"]) for one in found["around"]]
    assert around == [(1, "assigned"), (6, "polled"), (7, "produced"), (7, "kill"), (8, "committed")]
    assert found["around"][1] == {
        "time_ns": 6 * S,
        "event": "polled",
        "instance": "0",
        "incarnation": 1,
        "generation": 3,
        "first": 5,
        "last": 9,
    }


def test_the_instance_that_made_the_last_copy() -> None:
    found = witness({"copies": 2, "outputs": [COPY | {"instance": "4"}, COPY]}, EVENTS_OF_ONE)
    assert (found["instance"], found["incarnation"], found["generation"], found["time_ns"]) == ("5", 6, 7, 2)
    assert [output["instance"] for output in found["outputs"]] == ["4", "5"]


def test_without_events_or_an_offset_no_instance_is_named() -> None:
    for row, events in (({}, EVENTS_OF_ONE.slice(0, 0)), ({"offset": None}, EVENTS_OF_ONE)):
        found = witness(row, events)
        assert (found["instance"], found["time_ns"], found["around"]) == (None, None, [])
    assert witness({"outputs": [COPY]}, EVENTS_OF_ONE.slice(0, 0))["instance"] == "5"


def test_the_number_of_witnesses_with_events_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "WITH_EVENTS_MAX", 1)
    with_both = with_events(pa.Table.from_pylist([MISSING, MISSING]), EVENTS_OF_ONE, {}).to_pylist()
    assert [bool(orjson.loads(row["witness"])["around"]) for row in with_both] == [True, False]


def judged(*rows: tuple[Any, ...], ahead: tuple[str, ...] = (), **faults: Any) -> list[dict[str, Any]]:
    return offset_tasks.judged(table(*rows), {"run": EVENTS}, 0, ahead, faults).to_pylist()


GAP = ((1, "assigned"), (2, "position", 0), (3, "polled", 0, 4), (4, "polled", 7, 9))


def test_a_finding_of_the_state_machine_with_what_came_before_it() -> None:
    (row,) = judged(*GAP, run=[(3 * S, "kill")])
    assert (row["name"], row["first"], row["until"], row["verify"], row["place"]) == ("offset-gap", 5, 7, True, 4 * S)
    found = orjson.loads(row["witness"])
    assert (found["first"], found["until"], found["event"], found["time_ns"]) == (5, 7, "polled", 4 * S)
    around = [(one["time_ns"] // S, one["event"]) for one in found["around"]]
    assert around == [(1, "assigned"), (2, "position"), (3, "polled"), (3, "kill")]


def test_how_offsets_are_committed_is_asked_of_the_run() -> None:
    early = ((1, "assigned"), (2, "position", 0), (3, "polled", 0, 4), (4, "committed", 5), (5, "produced", 0, 4))
    assert [row["name"] for row in judged(*early)] == ["commit-unprocessed"]
    assert judged(*early, ahead=("run",)) == []


def test_repeated_reports_about_an_instance_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_tasks, "FOUND_MAX", 2)
    gaps = [(at, "polled", 10 * at, 10 * at + 4) for at in range(3, 9)]
    assert [row["name"] for row in judged((1, "assigned"), (2, "position", 30), *gaps)] == ["offset-gap"] * 2
