"""The comparison of two runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.app import invoke
from harness.model.errors_and_exit_codes import BadInput
from harness.report.text.compare import compare, data, text
from harness.sim.queue.run import simulate
from tests.unit.report.folders import judged, recorded


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    recorded(tmp_path, "good", simulate(1, ops=100, txn=False), broker_config={"a.b": "1"})
    lossy = simulate(1, ops=100, txn=False, bugs=frozenset({"lose-acked"}))
    recorded(tmp_path, "lossy", lossy, acks="1", nemesis=[], broker_config={"a.b": "2", "c": "x\x1b[1m"})
    recorded(tmp_path, "raw", lossy)
    for name in ("good", "lossy"):
        judged(tmp_path / name)
    return tmp_path


def test_what_differs_and_what_was_found(runs: Path) -> None:
    found = compare(runs / "good", runs / "lossy")
    assert (found.verdict.a, found.verdict.b) == ("valid", "invalid")
    settings = {row.name: (row.a, row.b) for row in found.settings}
    assert settings == {
        "acks": ("all", "1"),
        "nemesis": (["kill:leader"], []),
        "broker_config a.b": ("1", "2"),
        "broker_config c": (None, "x\x1b[1m"),
    }
    anomalies = {row.name: (row.a, row.b) for row in found.anomalies}
    assert anomalies["lost-write"][0] is None and anomalies["lost-write"][1] > 0
    figures = {row.name: (row.a, row.b) for row in found.figures}
    assert figures["share lost"][0] == 0 < figures["share lost"][1]
    assert figures["send p99 ms"][0] > 0 and figures["acknowledged records/s"][0] > 0
    output = text(found)
    assert "\x1b" not in output and "verdict" in output and "settings that differ" in output
    assert data(found)["valid"] == {"a": True, "b": False}
    same = compare(runs / "good", runs / "good")
    assert not same.settings and "  none\n" in text(same)


def test_a_run_without_results_and_runs_that_are_none(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half = compare(runs / "good", runs / "raw")
    assert half.verdict.b is None and all(row.b is None for row in half.figures)
    with pytest.raises(BadInput, match="harness check"):
        compare(runs / "raw", runs / "raw")
    assert invoke(["compare", "good", "nothing", "--runs", str(runs)]) == 254
    assert "nothing" in capsys.readouterr().err
    assert invoke(["compare", "good", "lossy", "--json", "--runs", str(runs)]) == 0
    assert '"lost-write"' in capsys.readouterr().out


def test_open_says_where_it_is(runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    def none(using: str | None = None) -> webbrowser.BaseBrowser:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    assert invoke(["open", "good", "--runs", str(runs)]) == 0
    assert str(runs / "good") in capsys.readouterr().out
    (runs / "good" / "report.html").write_text("<p>")
    assert invoke(["open", "good", "--runs", str(runs)]) == 0
    output = capsys.readouterr().out
    assert str(runs / "good" / "report.html") in output and "no browser" in output
