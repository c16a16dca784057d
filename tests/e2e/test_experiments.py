"""Experiments and matrices on the mock cluster, which is known to be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.e2e.harness_command import PLAIN, harness

pytestmark = pytest.mark.long

WRONG = """
title: the mock cluster isolates transactions
why: it does not, so this must be said to disagree
source: here
plan: {cluster: mock, txn: true, time_limit_s: 4, concurrency: 4, rate_hz: 80}
expect: {never: [G1a]}
"""
MATRIX = """
plan: {cluster: mock, time_limit_s: 4, concurrency: 4, rate_hz: 80}
axes:
  transactions: [{}, {txn: true}]
"""


def test_an_experiment_agrees_or_not_and_says_so(tmp_path: Path) -> None:
    runs, out = str(tmp_path / "runs"), tmp_path / "out"
    done = harness(
        "experiment", "run", "mock-transactions", "--case", "bad", "-n", "1",
        "--runs-dir", runs, "--out", str(out), *PLAIN,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "G1a: 1 of 1 (21% to 100%): agrees" in done.stdout
    assert "mock-transactions: as expected" in done.stdout
    assert json.loads((out / "results.json").read_text())["cases"][0]["attempts"][0]["valid"] == "invalid"
    assert "G1a" in (out / "report.md").read_text()
    assert "bad" in (out / "table.csv").read_text()

    (tmp_path / "wrong.yaml").write_text(WRONG)
    done = harness("experiment", "run", str(tmp_path / "wrong.yaml"), "--runs", "3", "-x", "--runs-dir", runs, *PLAIN)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no G1a: 0 of 1" in done.stdout  # the first run already ended the case
    assert "DISAGREES" in done.stdout


def test_a_matrix_leaves_its_files_and_shows_a_failure_in_all_of_them(tmp_path: Path) -> None:
    file, out = tmp_path / "m.yaml", tmp_path / "out"
    file.write_text(MATRIX)
    arguments = ["--budget", "5m", "--out", str(out), "--runs", str(tmp_path / "runs"), *PLAIN]
    done = harness("matrix", str(file), *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    suite = ElementTree.fromstring((out / "junit.xml").read_bytes())
    failed = [case.get("classname") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed == ["matrix/txn"]
    assert "1 of 2 runs as expected, 1 NOT as expected" in (out / "summary.md").read_text()
    assert {row["name"]: row["exit_code"] for row in json.loads((out / "results.json").read_text())} == {
        "matrix/txn": 1,
        "matrix/default": 0,
    }
    assert len(list((tmp_path / "runs").glob("2*/results.json"))) == 2
