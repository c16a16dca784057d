"""The reproductions of findings in brokers and in librdkafka show their defects, and only where the record says so.

A test that fails with exit code 1 on a version that had the defect means that it has been mended: change the record in
docs/understand/findings.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import absent
from tests.e2e import test_client_findings

FINDINGS = Path(__file__).parents[2] / "docs" / "findings"
SHOWN, NOT_SHOWN = 0, 1
RUN_S = 150
# Finding -> version of Kafka -> exit code of the reproduction. 4.4.0 is the default and the latest version.
RECORD = {
    "confluent-metadata": {"4.4.0": SHOWN},
    "kafka-cleared-elr": {"4.4.0": SHOWN, "4.0.2": NOT_SHOWN},
    "kafka-downgrade": {"4.1.2": SHOWN, "4.2.2": SHOWN},  # from 4.4.0, Kafka refuses to go back to 4.3
    "kafka-follower-watermark": {"4.4.0": SHOWN, "3.4.0": NOT_SHOWN},
    "kafka-format-unsynced": {"4.1.1": SHOWN, "4.4.0": NOT_SHOWN},
    "kafka-late-retry": {"4.4.0": SHOWN},
    "kafka-recovery-point": {"4.4.0": SHOWN},
    "kafka-skipped-marker": {"4.4.0": SHOWN, "4.2.2": NOT_SHOWN},
    "kafka-stable-offset": {"4.4.0": SHOWN, "3.9.2": NOT_SHOWN},
    "librdkafka-assignment": {"4.4.0": SHOWN},
    "librdkafka-beginning": {"4.4.0": SHOWN},
    "librdkafka-implied-acks": {"4.4.0": SHOWN},
    "librdkafka-list-offsets": {"4.4.0": SHOWN},
    "librdkafka-new-epoch": {"4.4.0": SHOWN},
    "librdkafka-sequence": {"4.4.0": SHOWN},
    "tansu-aborted-records": {"4.4.0": SHOWN},  # the version of Kafka is not used
    "tansu-open-transaction": {"4.4.0": SHOWN},
}
RUNS = [(name, version) for name, versions in RECORD.items() for version in versions]
AS_ROOT = {"kafka-format-unsynced"}


@pytest.mark.nightly
@pytest.mark.timeout(RUN_S + 900)  # the jars of a version may have to be fetched
@pytest.mark.parametrize(("name", "version"), RUNS, ids=[f"{name}-{version}" for name, version in RUNS])
def test_the_defect_is_where_the_record_says(name: str, version: str) -> None:
    if name in AS_ROOT and os.geteuid() != 0:
        absent("mounting a disk requires root")
    words = [sys.executable, "-m", "harness.cluster.distribution.jars", version]
    subprocess.run(words, check=True, timeout=900)
    words = [sys.executable, str(FINDINGS / "run.py"), name, version]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == RECORD[name][version], done.stdout + done.stderr
    assert "expected" in done.stdout


def test_every_folder_is_in_one_of_the_records() -> None:
    folders = {path.name for path in FINDINGS.iterdir() if (path / "README.md").exists()}
    assert folders == RECORD.keys() | {path.parent.name for path in test_client_findings.REPRODUCTIONS}


@pytest.mark.parametrize("name", sorted(RECORD))
def test_every_finding_has_a_page_and_a_line_in_the_record(name: str) -> None:
    assert (FINDINGS / name / "reproduce.py").exists()
    assert f"run.py {name}" in (FINDINGS / name / "README.md").read_text()
    assert f"../findings/{name}/README.md" in (FINDINGS.parent / "understand" / "findings.md").read_text()
