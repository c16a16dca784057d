"""Witnesses of pipelines in `explain`, on the page and in `shrink`: their logs, ops, moments and faults."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.model.check_options import CheckOptions
from harness.model.errors_and_exit_codes import BadInput
from harness.report.page import run_page
from harness.report.text import (
    gather_explanation,
    nearby_ops,
    next_steps,
    pipeline_moments,
    print_explanation,
    witness_lookup,
)
from harness.shrinking import shrink_run as shrinking
from harness.stored import find_runs
from tests.unit.report.piped_run import GAP, LOG, MISSING, NAME, RECORD
from tests.unit.report.piped_run import piped as piped_run
from tests.unit.report.test_summary import flat


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return piped_run(tmp_path_factory.mktemp("runs"))


def explained(run: Path, name: str) -> gather_explanation.Explanation:
    return gather_explanation.explain(run, find_runs.require_result(run), witness_lookup.named_witness(name))


def test_a_partition_of_a_topic_has_the_number_that_the_workload_gave_it(run: Path) -> None:
    assert pipeline_moments.log_of(run, MISSING) == LOG
    assert pipeline_moments.log_of(run, {**RECORD, "topic": f"{NAME}-0"}) == LOG - 1
    for odd in ({"topic": f"{NAME}-2"}, {"topic": None}, {"partition": None}, {"partition": "2"}):
        assert pipeline_moments.log_of(run, {**RECORD, **odd}) is None
    assert pipeline_moments.log_of(run / "nowhere", MISSING) is None


def test_the_log_the_sender_the_moments_and_the_faults_are_those_of_the_record(run: Path) -> None:
    one = explained(run, "missing-output")
    assert one.involved.places == ((LOG, 1, 43),) and one.involved.keys == (LOG,)
    (sender,) = one.ops
    assert sender.fact is not None and (sender.fact.f, sender.fact.process) == ("send", 0)
    assert one.moments[-1] == (9_000_000_000, 9_000_000_000) and len(one.surrounding) == 2
    assert [span.label for span in one.spans] == ["kill:leader n2"]
    text = flat(print_explanation.text(one))
    assert "sent 43 to key 5 at offset 1" in text
    assert "kill:leader n2, 5.000 s to 15.000 s: during this witness" in text
    command = re.search(r"harness around \S+ --key (\S+) --offset (\d+)", print_explanation.text(one))
    assert command and command.groups() == (str(LOG), "1")
    seen = nearby_ops.Seen()
    assert list(nearby_ops.find(run, nearby_ops.Place(LOG, 1, None, 1), seen)) and seen.key


def test_a_range_of_offsets_has_its_places(run: Path) -> None:
    one = explained(run, "offset-gap")
    assert one.involved.places == ((LOG, 0, None), (LOG, 1, None))
    assert not one.ops and [span.label for span in one.spans] == ["kill:leader n2"]


def test_without_moments_faults_are_not_mentioned(run: Path) -> None:
    anomaly = find_runs.require_result(run).anomalies[0]
    later = 1_800_000_000_000_000_000  # a wall-clock time outside the run
    bare: dict[str, Any] = {**GAP, "topic": "another", "time_ns": later}
    one = gather_explanation.about(run, anomaly, 1, bare)
    assert not one.moments and "unknown, because the time of this witness is not known" in print_explanation.text(one)
    assert "none" not in print_explanation.text(one).partition("active faults")[2]


def test_the_page_has_lanes_strips_and_times_of_them(run: Path) -> None:
    text = run_page.page(run)
    found_ = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found_
    data = json.loads(found_.group(1))
    assert [one["known"] for one in data["anomalies"]] == [1, 1]
    witness = data["witnesses"]["missing-output-1"]
    lanes, (strip,) = witness["lanes"], witness["strips"]
    assert [event[1] for event in lanes["events"]] == [8.0] and 4 in lanes["lanes"]
    assert strip["key"] == str(LOG) and witness["polls"] is False
    marked = [cell for one in strip["sections"] for cell in one["cells"] if len(cell) == 5 and cell[4]]
    assert [cell[:2] for cell in marked] == [[1, "43"]]
    assert re.search(r'id="missing-output-1" data-begin="1.0" data-end="9.0" data-at="9.0"', text)
    assert "kill:leader n2, 5.000 s to 15.000 s" in text and "None while these operations ran" not in text


def test_shrink_refuses_and_points_to_the_plan(run: Path) -> None:
    result = find_runs.require_result(run)
    with pytest.raises(BadInput, match=r"an anomaly of a pipeline.*--anomaly missing-output --schedule"):
        shrinking.of_run(run, result, None, CheckOptions())
    assert not any(" shrink " in command for command, _ in next_steps.steps(run, result))
