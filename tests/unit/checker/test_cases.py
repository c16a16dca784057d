"""Every anomaly case with the plain kernels; and each anomaly has its cases."""

from __future__ import annotations

import pytest

from checker.anomalies.catalogue import CATALOGUE
from checker.check import check_plain
from checker.kernels import steps_between_values
from tests.unit.checker.cases import Case, cases, differences


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_case(case: Case) -> None:
    assert differences(case, check_plain(case.path, case.options)) == []


@pytest.mark.parametrize("name", [name for name, anomaly in CATALOGUE.items() if anomaly.kind in ("records", "share")])
def test_every_anomaly_has_a_positive_a_negative_and_a_variant(name: str) -> None:
    mine = {case.path.stem: case for case in cases() if case.path.parent.name == name}
    assert name in mine["positive"].expect["anomalies"]
    assert name not in mine["negative"].expect["anomalies"]
    assert any("info" in stem or "fail" in stem for stem in mine)


def test_lists_of_skipped_values_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that would fill the memory are cut; the delta still contains the number of values."""
    case = next(case for case in cases() if case.name == "poll-skip/positive")
    monkeypatch.setattr(steps_between_values, "SKIPPED_MAX", 1)
    monkeypatch.setattr(steps_between_values, "SKIPPED_CUT", 1)
    (found,) = check_plain(case.path, case.options).anomalies
    assert found.witnesses == ({"key": 1, "skipped": [2], "delta": 3, "ops": [11, 13]},)
