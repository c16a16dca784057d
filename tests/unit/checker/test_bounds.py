"""Limits of lists and searches apply exactly at the limit, not one earlier or later."""

from __future__ import annotations

import pyarrow as pa
import pytest

from checker.check import check_plain
from checker.cycles import search
from checker.kernels.log_starts_and_ends import not_caught_up
from checker.tables import schema
from tests.unit.checker.cases import cases


@pytest.mark.parametrize("name", ["G0/positive", "G1c/positive"])
@pytest.mark.parametrize(("most", "shown"), [(1, False), (2, True)])
def test_a_component_is_explained_up_to_its_size(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int, shown: bool
) -> None:
    case = next(case for case in cases() if case.name == name)
    monkeypatch.setattr(search, "EXPLAINED_MAX", most)
    found = {anomaly.name: anomaly for anomaly in check_plain(case.path, case.options).anomalies}
    witnesses = found[name.split("/", maxsplit=1)[0]].witnesses
    assert [witness["scc-size"] for witness in witnesses] == [2]
    assert ["cycle" in witness for witness in witnesses] == [shown]


@pytest.mark.parametrize("name", ["G0/positive", "G1c/positive", "G2-item/positive"])
def test_in_a_component_that_is_not_explained_no_type_is_guessed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Only types whose own edges form a component; rw edges alone would need the cycle itself."""
    case = next(case for case in cases() if case.name == name)
    shown = {anomaly.name for anomaly in check_plain(case.path, case.options).anomalies}
    monkeypatch.setattr(search, "EXPLAINED_MAX", 1)
    found = {anomaly.name for anomaly in check_plain(case.path, case.options).anomalies}
    assert found == shown - {"G2-item"}


def test_eight_processes_are_listed() -> None:
    meta = {"final_processes": {str(process): "ok" for process in range(9)}}
    place = {"key": 1, "position": 0, "log_start": 0, "end": 1, "invoke_ns": 0, "complete_ns": 1}
    rows = [{"op": 1, "process": p, "final": True, **place} for p in range(9)]
    message = not_caught_up(pa.Table.from_pylist(rows, schema.ENDS), meta)
    assert message is not None
    assert "of 9 of 9 clients (processes 0, 1, 2, 3, 4, 5, 6, 7) did not" in message
