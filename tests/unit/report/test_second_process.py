"""The process that draws plots beside the check."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.report.plots import all_plots, second_process
from harness.sim.queue.run import simulate
from tests.unit.report.folders import judged, recorded


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checked run without plots."""
    folder = recorded(tmp_path_factory.mktemp("runs"), "20260102T030405-none", simulate(3, ops=100, txn=False))
    judged(folder)
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run, on a machine with two cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    return Path(shutil.copytree(run, tmp_path / run.name))


def drawn(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "plots").iterdir()}


def test_the_second_process_draws_the_same_plots(copy: Path) -> None:
    with second_process.for_runs([copy]) as second:
        assert second is not None
        paths = second.begin(copy)()
        found = drawn(copy)
        (copy / second_process.DRAWN).unlink()
    assert paths == all_plots.draw(copy)
    assert found == drawn(copy)


def test_plots_are_drawn_here_if_the_second_process_ends_early(copy: Path) -> None:
    with second_process.for_runs([copy]) as second:
        assert second is not None
        process = second._process
        process.kill()
        process.wait()
        assert {path.name for path in second.begin(copy)()} == set(drawn(copy)) - {all_plots.DRAWN}


def test_no_process_is_started_for_runs_with_plots_or_on_one_core(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with second_process.for_runs([]) as second:
        assert second is None
    with monkeypatch.context() as one_core:
        one_core.setattr(os, "sched_getaffinity", lambda pid: {0})
        with second_process.for_runs([copy]) as second:
            assert second is None
    all_plots.draw(copy)
    with second_process.for_runs([copy]) as second:
        assert second is None
