"""`harness experiment run client-matrix`: some cells on a persistent cluster, and the continuation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import absent
from tests.e2e.harness_command import harness

NAME = "client-matrix"


@pytest.mark.nightly
def test_some_cells_are_run_and_the_rest_is_left_for_later(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        absent("go is not installed")
    arguments = ("experiment", "run", NAME, "--case", "franz-go", "--client-user", "root", "--out", str(tmp_path))
    runs = ("--runs-dir", str(tmp_path / "runs"))
    done = harness(*arguments, *runs, "--budget", "75s", timeout_s=600)
    assert "the time budget is used up" in done.stdout and done.returncode < 3, done
    first = json.loads((tmp_path / "results.json").read_text())
    assert 1 <= len(first["runs"]) < len(first["design"])
    assert all((tmp_path / "runs" / Path(ran["folder"]).name).is_dir() for ran in first["runs"])
    assert "| franz-go |" in (tmp_path / "report.md").read_text()
    assert f"local:{NAME}" not in harness("cluster", "status").stdout
    done = harness(*arguments, *runs, "--budget", "1s", timeout_s=600)
    assert f"{len(first['runs'])} runs are done" in done.stdout, done
    assert json.loads((tmp_path / "results.json").read_text())["runs"] == first["runs"]
