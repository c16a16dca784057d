"""Time spans of faults, from nemesis ops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.stored import fault_spans
from tests.unit.report.folders import S, judged, killed, nemesis, recorded, woven


def row(at_s: float, span: str, phase: str, value: str = "null", fault: str = "kill:leader") -> dict[str, Any]:
    return {"time_ns": int(at_s * S), "f": "x", "value": value, "fault": fault, "span": span, "phase": phase}


def test_a_fault_lasts_from_its_invocation_to_the_completion_of_its_end(tmp_path: Path) -> None:
    ops = woven(killed(5, 15, "n2"), [nemesis(16, "heal", "", "invoke", None, fault="")])
    folder = recorded(tmp_path, "run", ops)
    judged(folder)
    assert fault_spans.of_run(folder) == [fault_spans.Span("kill:leader", ("n2",), 5 * S, 15 * S, True, {"t-0": "n3"})]
    assert fault_spans.of_run(folder)[0].label == "kill:leader n2"


def test_an_end_that_never_came_and_one_that_ended_nothing() -> None:
    hit = '{"nodes": ["n1"], "took_effect": false}'
    (span,) = fault_spans.of_rows(
        [
            row(1, "stop", "invoke"),
            row(2, "stop", "complete"),
            row(3, "start", "invoke"),
            row(4, "start", "complete", hit),
        ]
    )
    assert (span.begin_ns, span.end_ns, span.took_effect) == (3 * S, None, False)
    assert fault_spans.during([span], 9 * S, 10 * S) == [span]
    assert fault_spans.during([span], 0, 2 * S) == []


def test_a_fault_of_a_moment_has_the_clients_that_it_hit() -> None:
    (span,) = fault_spans.of_rows(
        [
            row(1, "", "invoke"),
            row(2, "", "complete", '{"nodes": [], "clients": ["w3"], "took_effect": true}'),
        ]
    )
    assert (span.label, span.begin_ns, span.end_ns) == ("kill:leader w3", 1 * S, 2 * S)


def test_a_producer_that_was_fenced_is_named() -> None:
    value = '{"nodes": [], "took_effect": true, "fenced": {"r-3": ["Ongoing", 1]}}'
    (span,) = fault_spans.of_rows([row(1, "", "invoke"), row(2, "", "complete", value)])
    assert span.detail == "another producer took over r-3"


def test_simultaneous_faults_are_distinguished() -> None:
    found = fault_spans.of_rows(
        [
            row(1, "start", "invoke"),
            row(2, "start", "invoke", fault="pause:n1"),
            row(3, "stop", "complete"),
            row(4, "stop", "complete", fault="pause:n1"),
        ]
    )
    assert [(span.fault, span.begin_ns // S, span.end_ns) for span in found] == [
        ("kill:leader", 1, 3 * S),
        ("pause:n1", 2, 4 * S),
    ]


def test_a_second_start_ends_the_first_and_foreign_values_do_no_harm() -> None:
    found = fault_spans.of_rows(
        [row(1, "start", "invoke"), row(2, "start", "complete", "not json"), row(3, "start", "invoke", "7")]
    )
    assert [(span.begin_ns // S, span.end_ns, span.hit) for span in found] == [(1, 3 * S, ()), (3, None, ())]


def test_no_table_no_faults(tmp_path: Path) -> None:
    assert fault_spans.of_run(tmp_path) == []


@pytest.mark.parametrize(
    ("started", "stopped", "detail"),
    [
        ({"moved": 3}, {}, "the replicas of 3 partitions were moved to other brokers"),
        ({"partitions": {"t": 5}}, {}, "one partition was added to each of 1 topics"),
        ({"settings": {"a": "1"}}, {"deleted": [[1, 2]]}, "a=1; records were deleted from the start of 1 logs"),
        ({"joined": 2}, {"joined": 3, "shared": 3}, "a foreign consumer joined the group 3 times"),
    ],
)
def test_admin_faults_are_described(started: dict[str, object], stopped: dict[str, object], detail: str) -> None:
    (span,) = fault_spans.of_rows(
        [
            row(1, "start", "invoke"),
            row(2, "start", "complete", json.dumps(started)),
            row(3, "stop", "complete", json.dumps(stopped)),
        ]
    )
    assert span.detail == detail


def test_the_trigger_of_a_fault_is_described() -> None:
    value = '{"nodes": ["n1"], "took_effect": true, "trigger": "n1 logged: rolled"}'
    (span,) = fault_spans.of_rows([row(1, "start", "invoke"), row(2, "start", "complete", value)])
    assert span.detail == "when n1 logged: rolled"


def test_the_delay_from_a_point_is_told() -> None:
    value = '{"nodes": ["n1"], "took_effect": true, "trigger": "n1 logged: rolled", "after_ms": 63.2}'
    (span,) = fault_spans.of_rows([row(1, "start", "invoke"), row(2, "start", "complete", value)])
    assert span.detail == "when n1 logged: rolled, 63 ms after that"


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ({"offline": {"n1": ["data2"]}, "new_leaders": {}}, "offline: data2 of n1"),
        ({"moved": {"n1": {"t-0": ["data", "data2"]}}}, "1 logs were moved to other directories of their broker"),
        ({"damage": {"n1": {"restored": {"a": [0, 4096]}}}}, "2 pages in 1 files are as they were before"),
    ],
)
def test_directories_and_stale_pages_are_described(value: dict[str, Any], detail: str) -> None:
    data = json.dumps({"nodes": ["n1"], "took_effect": True, **value})
    (span,) = fault_spans.of_rows([row(1, "start", "invoke"), row(2, "start", "complete", data)])
    assert span.detail == detail
