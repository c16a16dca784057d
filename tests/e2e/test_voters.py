"""Voters of a real quorum change while its active controller is killed; the metadata log stays right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.harness_command import LIGHT, harness, run

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(240)]


def test_a_voter_leaves_and_a_spare_joins_under_faults(tmp_path: Path) -> None:
    """Each fault has its turn: the active controller leaves the quorum, a spare joins it."""
    faults = ("--nemesis", "remove-controller:active,add-controller", "--controllers", "4")
    done = run(tmp_path, *LIGHT, *faults, "--time-limit", "36", "--nemesis-interval", "6", timeout_s=200)
    assert done.code == 0, (done.out, done.err)
    completed = [op for op in done.nemesis if op["extra"]["phase"] == "complete" and "voters" in (op["value"] or {})]
    assert {op["f"] for op in completed} == {"remove-controller", "add-controller"}
    assert {len(op["value"]["voters"]) for op in completed} == {2, 4}
    answers = [json.loads(line) for line in (done.folder / "events" / "quorum.jsonl").read_text().splitlines()]
    assert {len(answer["voters"]) for answer in answers if "voters" in answer} >= {2, 3, 4}
    assert done.result["statistics"]["metadata"]["compared"] > 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "only dedicated controllers can be added"),
        (("--controllers", "3", "--kafka-version", "3.4"), "has a fixed set of voters"),
    ],
)
def test_a_quorum_that_cannot_change_is_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = harness("run", "--runs", str(tmp_path), "--nemesis", "remove-controller", *arguments)
    assert done.returncode == 254 and message in done.stderr, (done.stdout, done.stderr)
