"""How anomalies of pipelines are told: times, who did it, which record, and what happened around it."""

from __future__ import annotations

from typing import Any

import pytest

from checker.anomalies import pipeline_prose
from checker.anomalies.catalogue import CATALOGUE

S = 10**9
EVENT = {"time_ns": 2 * S, "event": "polled", "instance": "1", "incarnation": 4, "generation": 7}
OUTPUT = {"topic": "out", "partition": 1, "offset": 2, "instance": "5", "incarnation": 6, "generation": None}


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (1_500_000_000, "1.500 s"),
        (10**18, "2001-09-09 01:46:40.000"),
        (1_700_000_000_123_456_789, "2023-11-14 22:13:20.123"),
    ],
)
def test_a_time_of_a_run_and_a_time_of_day(time_ns: int, text: str) -> None:
    assert pipeline_prose.at(time_ns) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"first": 5, "last": 9}, "2.000 s polled 5 to 9 by instance 1 (process 4, generation 7)"),
        ({"first": 5, "last": 5}, "2.000 s polled 5 by instance 1 (process 4, generation 7)"),
        ({"first": 5}, "2.000 s polled 5 by instance 1 (process 4, generation 7)"),
        ({"generation": None}, "2.000 s polled by instance 1 (process 4)"),
        ({"instance": None}, "2.000 s polled"),
    ],
)
def test_an_event(fields: dict[str, Any], text: str) -> None:
    assert pipeline_prose.event_text(EVENT | fields) == text


def test_of_many_events_the_last_are_told() -> None:
    told = [EVENT | {"event": f"e{n}", "instance": None} for n in range(8)]
    last = "; ".join(f"2.000 s e{n}" for n in range(2, 8))
    assert pipeline_prose.events_around({"around": told}) == f"events around it: {last}; 2 more"
    assert pipeline_prose.events_around({"around": told[2:]}) == f"events around it: {last}"
    assert pipeline_prose.events_around({}) == ""


WITNESS = {
    "topic": "in",
    "partition": 0,
    "offset": 7,
    "id": 3,
    "key": 1,
    "n": 0,
    "copies": 1,
    "expected": 2,
    "instance": "5",
    "incarnation": 6,
    "generation": 7,
    "outputs": [],
    "around": [],
}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"outputs": [OUTPUT]},
            "Input in-0 offset 7 (id 3, key 1), output 0: 1 copy, 2 expected. At out-1 offset 2 by instance 5 "
            "(process 6).",
        ),
        (
            {"copies": 0, "n": None},
            "Input in-0 offset 7 (id 3, key 1): 0 copies, 2 expected. It was last processed by instance 5 "
            "(process 6, generation 7).",
        ),
        (
            {"copies": 0, "instance": None, "topic": None},
            "Input unknown (id 3, key 1), output 0: 0 copies, 2 expected.",
        ),
        ({"copies": 0, "instance": None, "offset": None}, "Input in-0 (id 3, key 1), output 0: 0 copies, 2 expected."),
    ],
)
def test_an_output(fields: dict[str, Any], text: str) -> None:
    assert CATALOGUE["missing-output"].prose(WITNESS | fields, None) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "until", "offsets"),
    [(None, None, ""), (5, None, " offset 5"), (5, 6, " offset 5"), (5, 7, " offsets 5 to 6")],
)
def test_a_finding_of_the_state_machine(first: int | None, until: int | None, offsets: str) -> None:
    witness = EVENT | {"topic": "in", "partition": 0, "first": first, "until": until, "said": "gone", "around": []}
    assert CATALOGUE["offset-gap"].prose(witness, None) == (  # type: ignore[arg-type]
        f"Partition in-0{offsets}: gone. Instance 1 (process 4, generation 7) at 2.000 s."
    )
