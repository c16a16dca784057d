"""What stays stuck is found on real brokers: a hanging transaction, a group that does not settle, a stuck replica."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness_command import HARNESS, LIGHT, PLAIN, harness
from tests.e2e.waiting import wait_for_load

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(1500)]
MEMBER = Path(__file__).parent / "member_without_sync.py"
GROUP = ("--network", "loopback", "--sub-via", "subscribe", "--acks", "all", *LIGHT, "--time-limit", "8", *PLAIN)


def _anomalies(folder: Path) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads((folder / "results.json").read_text())["anomalies"]}


def _experiment(name: str, runs: int, out: Path) -> str:
    """Runs each case of an experiment, whose results must all be as expected. Returns what the command printed."""
    arguments = ("--runs", str(runs), "--runs-dir", str(out / "runs"), "--out", str(out / "out"), *PLAIN)
    done = harness("experiment", "run", name, *arguments, timeout_s=1400)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_hanging_transaction_before_3_6(tmp_path: Path) -> None:
    """KAFKA-14561: a Produce request that is held past EndTxn, three times on 3.4.1 and on 3.9.2."""
    assert "stuck-transaction: 3 of 3" in _experiment("kafka-14561", 3, tmp_path)


def test_a_replica_that_is_never_in_sync_again(tmp_path: Path) -> None:
    """KAFKA-20961, on the default version: a leader moves an empty log, and the former leader comes back."""
    assert "stuck-replica: 2 of 2" in _experiment("kafka-20961", 2, tmp_path)


def test_a_group_with_a_member_that_never_syncs(tmp_path: Path) -> None:
    """The group is stuck, and the witness names the member, which is not of the run: so Kafka promises nothing."""
    runs = tmp_path / "runs"
    runs.mkdir()
    words = [*HARNESS, "run", "--runs", str(runs), "--quiet", *GROUP]
    with (runs / "out").open("w") as out, subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT) as running:
        folder = wait_for_load(runs, 20).resolve()  # it may have found the link `latest`
        config = (folder / "cluster/nodes/n1/server.properties").read_text()
        address = re.search(r"advertised\.listeners=INSIDE://([\d.]+:\d+)", config)
        assert address, config
        with (
            (tmp_path / "member").open("w") as log,
            subprocess.Popen(
                [sys.executable, str(MEMBER), address[1], f"{folder.name}-0", f"{folder.name}-group"],
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as member,
        ):
            try:
                running.wait(240)
            finally:
                member.kill()
    found = _anomalies(folder)
    said = (runs / "out").read_text() + (tmp_path / "member").read_text()
    assert set(found) == {"stuck-group"}, said
    witness = found["stuck-group"]["witnesses"][0]
    assert "member-without-sync at" in witness["excuse"] and "_REBALANCING in" in witness["state"]
    assert witness["logged"] and not found["stuck-group"]["promised"]
