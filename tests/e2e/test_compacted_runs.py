"""The compacted workload on real brokers: the cleaner removes records, and keeps the last of each key under faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness_command import run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def _cleaned(ran: Any) -> dict[str, int]:
    counts: dict[str, int] = ran.result["statistics"]["compacted"]
    assert counts["removed"] > 20, ran.out
    assert counts["kept"] == counts["last"] > counts["tombstones"] > 0
    return counts


@pytest.mark.long
def test_elections_while_the_cleaner_works(tmp_path: Path) -> None:
    ran = run(tmp_path, "--workload", "compacted", "--nemesis", "elect:all", "--time-limit", "8", "--seed", "1")
    assert (ran.code, ran.anomalies) == (0, set()), ran.out
    _cleaned(ran)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ["kill:leader", "power-loss:leader", "pause:leader,elect:all"])
def test_faults_while_the_cleaner_works(fault: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "--workload", "compacted", "--nemesis", fault, "--time-limit", "40", "--seed", "2")
    assert ran.anomalies == set(), ran.out
    _cleaned(ran)
