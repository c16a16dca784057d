"""What Kafka promises of acks=all with idempotence, with transactions and without, under many faults.

A run that ends invalid is a finding, or a defect of ours: its folder is kept by pytest, and the message names
what was found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness_command import run

pytestmark = [pytest.mark.cluster, pytest.mark.long]

FAULTS = "kill:leader,pause:leader,isolate:leader,kill:client,pause:client"


@pytest.mark.repeat(1, 50)
@pytest.mark.timeout(240)
def test_faults_of_every_kind_take_nothing_that_was_acknowledged(tmp_path: Path, repetition: int) -> None:
    txn = ("--txn", "--sub-via", "assign,subscribe") if repetition % 2 else ()
    ran = run(
        tmp_path, "--nemesis", FAULTS, "--nemesis-interval", "6", "--nemesis-first", "2", "--acks", "all",
        "--idempotence", *txn, "--crash-clients", "--time-limit", "30", "--seed", str(repetition),
    )  # fmt: skip
    assert ran.result["valid"] is not False, ran.out
    assert not ran.anomalies, ran.out
    assert ran.result["statistics"]["acknowledged"] > 500, ran.out
