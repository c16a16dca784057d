"""Simulated runs on Spark, all in one job: correct ones are valid, each bug yields its anomaly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checker.check import check_many
from harness.model import op_json
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import Result
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.run import simulate

pytestmark = pytest.mark.spark

SETTINGS = Settings(acks="all", txn=True, isolation_level="read_committed", commits_fenced=True)
HONEST = 4


def _write(path: Path, seed: int, bugs: frozenset[str] = frozenset()) -> Path:
    path.write_bytes(b"".join(map(op_json.encode, simulate(seed, ops=400, bugs=bugs))))
    return path


def test_one_job(spark: Any, tmp_path: Path) -> None:
    paths = [_write(tmp_path / f"honest-{seed}.jsonl", seed) for seed in range(HONEST)]
    paths += [_write(tmp_path / f"{bug}.jsonl", 1, frozenset({bug})) for bug in BUGS]
    options = CheckOptions(settings=SETTINGS, require_final_polls=True)
    for path, result in check_many(spark, paths, options):
        assert isinstance(result, Result), result
        bug = Path(path).stem
        found = {anomaly.name for anomaly in result.anomalies if anomaly.bad}
        if bug in BUGS:
            assert result.valid == "invalid", bug
            assert BUGS[bug].shows <= found <= BUGS[bug].shows | BUGS[bug].may_show, bug
        else:
            assert (result.valid, found) == ("valid", set()), path
