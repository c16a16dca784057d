"""Explanations of an anomalous run for people: `explain`, the ops around a position, order pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.harness_command import LIGHT, harness, run

pytestmark = pytest.mark.cluster


def test_what_the_mock_cluster_does_wrong_is_explained(tmp_path: Path) -> None:
    ran = run(tmp_path, "--cluster", "mock", "--txn", "--time-limit", "6", "--seed", "3", *LIGHT)
    assert "G1a" in ran.anomalies
    index = ran.folder / "orders" / "index.html"
    assert str(index) in ran.out and index.is_file()
    page = ran.folder / "report.html"
    assert f"open: {page}" in ran.out and page.is_file()

    every = harness("explain", str(ran.folder))
    assert every.returncode == 0, every.stderr
    assert all(f"\n{name}: " in every.stdout for name in ran.anomalies)

    explained = harness("explain", str(ran.folder), "G1a#2", "--json")
    assert explained.returncode == 0, explained.stderr
    explanation = json.loads(explained.stdout)
    witness = explanation["witness"]
    assert {op["index"] for op in explanation["ops"]} == {witness["writer"], witness["reader"]}
    assert all(op["value"] and op["f"] in ("send", "poll", "txn") for op in explanation["ops"])

    key, value = str(witness["key"]), str(witness["value"])
    near = harness("around", str(ran.folder), "--key", key, "--value", value, "-n", "0", "--json")
    assert near.returncode == 0, near.stderr
    assert {json.loads(line)["index"] for line in near.stdout.splitlines()} >= {
        witness["writer"],
        witness["reader"],
    }

    wrong = harness("explain", str(ran.folder), "no-such-anomaly")
    assert wrong.returncode == 254 and "G1a" in wrong.stderr and "Traceback" not in wrong.stderr
