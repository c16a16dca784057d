"""`--keep-data` and `harness inspect` on real brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness_command import LIGHT, harness, run

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]


def inspected(folder: Path) -> tuple[int, dict[str, Any]]:
    done = harness("inspect", str(folder), "--json")
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_data_of_three_brokers_after_transactions(tmp_path: Path) -> None:
    ran = run(
        tmp_path, "--txn", "--abort-p", "0.3", "--time-limit", "6", *LIGHT, "--keep-data",
        "--seed", "7", "--network", "loopback",
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    assert f"harness inspect {ran.folder}" in ran.out
    code, inspection = inspected(ran.folder)
    assert code == 0, json.dumps(inspection)[:4000]
    assert inspection["judged"] and inspection["findings"] == [] and inspection["missing_keys"] == []
    replicas = [one for each in inspection["partitions"] for one in each["replicas"].values()]
    assert list(inspection["nodes"]) == ["n1", "n2", "n3"]
    assert sum(one["aborted"] for one in replicas) > 0
    best = [each["replicas"][each["reference"]] for each in inspection["partitions"]]
    assert sum(one["records"] for one in best) >= ran.result["statistics"]["acknowledged"] > 0

    # Damage one byte of the longest log of a node, inside the part that the checksum covers.
    log = max((ran.folder / "data" / "n2").glob("*/*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    code, inspection = inspected(ran.folder)
    assert code == 1
    (partition,) = [one for one in inspection["partitions"] if not one["same"]]
    assert [one["node"] for one in partition["differences"]] == ["n2"]
    (flaw,) = partition["replicas"]["n2"]["flaws"]
    assert flaw["at"] == 0 and "checksum" in flaw["what"]
