"""Runs `harness shrink` on a test's run, and checks that the result is small, valid input, and readable."""

from __future__ import annotations

import json
from pathlib import Path

from checker.check import check_plain
from harness.model import op_json
from harness.model.op import NEMESIS
from harness.run.check_and_draw import options_of
from harness.shrinking import shrink_run as shrinking
from harness.stored import find_runs
from tests.e2e.harness_command import harness
from tests.unit.shrinking.reading import read_plainly


def shown_by_few(run: Path, anomaly: str, most: int) -> None:
    """Checks with Spark that at most `most` operations show the first witness of an anomaly that counts."""
    done = harness("shrink", str(run), "--anomaly", anomaly, "--json")
    assert done.returncode == 0, done.stderr
    shrunk = json.loads(done.stdout)
    assert shrunk["operations"] <= most < shrunk["of"], shrunk
    assert shrunk["valid"] == "invalid" and anomaly in shrunk["anomalies"]
    stored = (Path(shrunk["folder"]) / "history" / "00000.jsonl").read_bytes().splitlines()[1:]
    ops = [op for op in map(op_json.decode, stored) if op.process != NEMESIS]
    assert len([op for op in ops if op.type == "invoke"]) == shrunk["operations"]
    read_plainly(anomaly, shrunk["witness"], ops)


def quickly_shown_by_few(run: Path, anomaly: str, most: int) -> None:
    """The same in this process, without Spark."""
    options = options_of(run)
    small = shrinking.of_run(run, find_runs.require_result(run), anomaly, options)
    assert small.shrunk.minimal and small.shrunk.units <= most < small.whole
    shrinking.confirm(small, check_plain(small.folder, options))
    read_plainly(anomaly, small.chosen.witness, small.shrunk.ops)
