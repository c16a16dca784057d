"""What a pipeline run guarantees beyond its mode: by its settings and faults, and the group's start offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from checker.anomalies.pipeline_offsets import OFFSETS
from checker.anomalies.pipeline_outputs import OUTPUTS
from checker.checks.pipeline import _at_first, _promised
from harness.model.check_options import InternalTopic
from harness.model.check_result import AnomalyFound
from tests.unit.checker.promises import ONE, SAFE

KEPT: Final = replace(SAFE, txn=False)  # settings of the writers of the input
OWN: Final = {"work-unowned", "work-unassigned"}  # anomalies that depend on its clients only
NAMES: Final = {*OUTPUTS, *OFFSETS}
INPUT: Final = {"lost-input"}
WRITERS: Final = {"lost-input", "phantom-input"}
REMOVED: Final = {"lost-input", "lost-update", "missing-output", "phantom-output", "offset-gap", "work-skipped"}


def found(name: str, *partitions: int, promised: bool | None = True) -> AnomalyFound:
    witnesses = tuple({"topic": "r-0", "partition": number} for number in partitions)
    return AnomalyFound(name, "what it is", len(witnesses), True, promised, witnesses)


@pytest.mark.parametrize(
    ("changes", "weakened", "promised"),
    [
        ({}, set(), True),
        ({"replication": 1, "min_insync_replicas": 1}, set(), True),
        ({"acks": "1", "idempotence": False}, INPUT, False),
        ({"unclean_election": True}, NAMES - OWN, False),
        ({"unclean_election": None}, NAMES - OWN, None),
        ({"unsynced_copies": 1000}, NAMES - OWN, False),
        ({"unsynced_copies": 1}, set(), True),
        ({"unsynced_copies": 1, "eligible_leader_replicas": False}, NAMES - OWN, False),
        ({"unsynced_copies": 1, "replication": 1}, NAMES - OWN, False),
        ({"damaged_copies": 1}, NAMES - OWN, None),
        ({"damaged_copies": 2}, NAMES - OWN, False),
        ({"unsynced_copies": 1, "offsets_topic": ONE}, NAMES - OWN - WRITERS, False),
        ({"unsynced_copies": 1, "transactions_topic": InternalTopic()}, NAMES - OWN - WRITERS, None),
        ({"cleanup_policy": "compact"}, REMOVED, False),
        ({"deletes": True}, REMOVED, False),
        ({"broker": {"log.retention.ms": "60000"}}, REMOVED, None),
        ({"broker": {"log.retention.ms": "-1"}}, set(), True),
    ],
)
def test_faults_and_settings_weaken_what_hangs_on_logs(
    changes: Mapping[str, Any], weakened: set[str], promised: bool | None
) -> None:
    settings = replace(KEPT, **changes)
    left = {name: _promised(found(name), settings, 4) for name in NAMES}
    assert left == {name: promised if name in weakened else True for name in NAMES}


def test_what_a_mode_does_not_promise_no_setting_does() -> None:
    for name in NAMES:
        assert _promised(found(name, promised=False), KEPT, 4) is False
    assert _promised(found("missing-output", promised=None), KEPT, 4) is None


@pytest.mark.parametrize(
    ("name", "reset", "partitions", "promised"),
    [
        ("missing-output", "latest", (4, 5), False),
        ("missing-output", "latest", (4, 0), True),
        ("offset-gap", "latest", (4,), False),
        ("duplicate-output", "latest", (4,), True),
        ("missing-output", "earliest", (4,), True),
    ],
)
def test_at_the_latest_offset_only_new_partitions_may_be_skipped(
    name: str, reset: str, partitions: tuple[int, ...], promised: bool
) -> None:
    assert _promised(found(name, *partitions), replace(KEPT, auto_offset_reset=reset), 4) is promised


def test_how_many_partitions_there_were_is_in_the_run(tmp_path: Path) -> None:
    assert _at_first(tmp_path) > 1 << 20
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "pipeline.json").write_text('{"partitions": 4}')
    assert _at_first(tmp_path) == 4
