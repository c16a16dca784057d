"""The metadata log of a real run: silent, with something to judge; and a fault planted in its copy is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.stored.find_runs import result_of
from tests.e2e.harness_command import LIGHT, Ran, harness, run

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run for all tests: the controller of three is killed."""
    runs = tmp_path_factory.mktemp("runs")
    return run(runs, *LIGHT, "--nemesis", "kill:controller", "--controllers", "3", "--time-limit", "12")


def test_a_run_is_silent_and_says_what_there_was_to_judge(done: Ran) -> None:
    assert done.code == 0, (done.out, done.err)
    figures = done.result["statistics"]["metadata"]
    assert figures["servers"] == 6 and figures["not_decoded"] == {}
    assert figures["epochs"] >= 2 and figures["leader_changes"] >= 2
    assert figures["compared"] >= 50 and figures["snapshots_compared"] >= 6
    assert figures["elections"] >= 20 and figures["checkpoint_epochs"] >= 20 and figures["metadata_answers"] >= 20
    copied = [json.loads(line) for line in (done.folder / "events" / "harness.jsonl").read_text().splitlines()]
    assert copied[-1]["detail"] == "copied"
    assert "metadata log: " in done.out


def test_a_changed_byte_in_a_copy_is_found(done: Ran, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(done.folder, copy)
    log = copy / "metadata" / "c2" / "__cluster_metadata-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    again = harness("check", str(copy), "--spark-master", "none")
    assert again.returncode == 1, (again.stdout, again.stderr)
    result = result_of(copy)
    assert result is not None
    (found,) = (anomaly for anomaly in result.anomalies if anomaly.bad)
    assert found.name == "metadata-divergence" and found.promised is True
    assert [witness["place"] for witness in found.witnesses] == ["c2"]
