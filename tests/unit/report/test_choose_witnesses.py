"""Which of many witnesses a page shows and lists: some from every part of the run."""

from __future__ import annotations

from pathlib import Path

from harness.model.check_options import CheckOptions, Settings
from harness.report.page import choose_witnesses, run_page
from harness.report.page.choose_witnesses import Timed
from harness.sim.queue.run import simulate
from harness.stored import find_runs, operations_and_records
from harness.stored.fault_spans import Span
from tests.unit.report.folders import S, judged, recorded
from tests.unit.report.test_run_page import embedded

EVERY = [Timed(number, {"key": 1, "value": number}, number / 10) for number in range(1, 601)]


def test_the_worst_one_of_each_fault_and_those_far_apart_are_shown() -> None:
    faults = [Span("a", (), 20 * S, 25 * S), Span("b", (), 0, S), Span("c", (), 50 * S)]
    shown = choose_witnesses.shown(EVERY, 8, faults)
    numbers = [one.number for one in shown]
    assert len(set(numbers)) == 8 and numbers[:3] == [1, 2, 3] and numbers[3:5] == [200, 500]
    times = sorted(one.at_s or 0.0 for one in shown)
    assert max(after - before for before, after in zip(times, [*times[1:], 60.0], strict=True)) <= 16
    assert [one.number for one in choose_witnesses.shown(EVERY, 2, faults)] == [1, 2]
    assert choose_witnesses.shown(EVERY, 0, faults) == []


def test_those_without_a_time_are_shown_in_their_order() -> None:
    untimed = [Timed(number, {}, None) for number in range(1, 9)]
    assert [one.number for one in choose_witnesses.shown(untimed, 5, [])] == [1, 2, 3, 4, 5]


def test_lines_are_of_all_times_ascending_and_of_none_that_is_shown() -> None:
    crowd = [Timed(1000 + number, {"key": 2, "value": number}, 30.0) for number in range(500)]
    rows = choose_witnesses.listed("unread", [*crowd, *EVERY], frozenset({1, 2}), 240, 60.0)
    assert len(rows) == 240 and not {1, 2} & {number for number, _, _ in rows}
    assert [at for _, at, _ in rows] == sorted(at for _, at, _ in rows)
    cells = {int(at / 0.5) for _, at, _ in rows}
    assert len(cells) >= 115
    assert all(text and len(text) <= choose_witnesses.TEXT_MAX for _, _, text in rows)


def test_a_page_lists_what_it_does_not_show_and_times_unseen(tmp_path: Path) -> None:
    ops = simulate(3, ops=1500, txn=False, bugs=frozenset({"lose-acked"}))
    folder = recorded(tmp_path, "20260102T030405-lost", ops, acks="1")
    judged(folder, CheckOptions(settings=Settings(acks="1")))
    result = find_runs.require_result(folder)
    counts = {anomaly.name: anomaly.count for anomaly in result.anomalies}
    data = embedded(run_page.page(folder))
    tracks = {one["name"]: one for one in data["anomalies"]}
    lost, unseen = tracks["lost-write"], tracks["unseen"]
    shown = [slug for slug in data["witnesses"] if slug.startswith("lost-write-")]
    assert len(lost["listed"]) + len(shown) == counts["lost-write"] > len(shown) > choose_witnesses.WORST
    assert {f"lost-write-{number}" for number, _, _ in lost["listed"]}.isdisjoint(shown)
    assert unseen["known"] == counts["unseen"] > 0 and unseen["joined"] is True
    assert data["explain"] == f"harness explain {folder}"
    anomaly = next(one for one in result.anomalies if one.name == "unseen")
    assert len(choose_witnesses.of_messages(folder, anomaly, operations_and_records.of_run(folder))) == anomaly.count
