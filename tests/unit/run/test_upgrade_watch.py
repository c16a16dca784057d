"""The watch of an upgrade: what it leaves in the cluster, what it records, and when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from harness.history_writer import Events
from harness.model.capabilities import Releases, UpgradePath
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.run import upgrade_watch
from harness.run.upgrade_watch import UpgradeWatch

LEFT = {"values": ["a"], "offsets": {"g": 7}, "in_transaction": "t"}
FOUND = {"values": ["a", "t"], "offsets": {"g": 7, "t": 7}, "commit": "", "open_s": 3.0}


class Cluster:
    """Three servers; n3 does not answer. n2 knows the new level later than n1."""

    def __init__(self) -> None:
        self.asked = 0

    def upgrade_path(self) -> UpgradePath:
        return UpgradePath("4.3.1", "4.4.0", ("n1", "n2", "n3"), pins=False)

    def reported_features(self, node: str) -> tuple[int, Mapping[str, int]] | None:
        self.asked += 1
        behind = {"n1": 0, "n2": 8}.get(node)
        return None if behind is None else (self.asked, {"metadata.version": 30 if self.asked <= behind else 33})


def watched(tmp_path: Path, answers: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Runs a watch from start to stop; returns its events without their times."""
    monkeypatch.setattr(upgrade_watch, "PERIOD_S", 0.01)
    monkeypatch.setattr(upgrade_watch, "LOOK_PERIODS", 1)
    (tmp_path / "events").mkdir()

    def call(name: str, within_s: float, /, **arguments: Any) -> Any:
        if isinstance(answers[name], Exception):
            raise answers[name]
        return answers[name]

    cluster = Cluster()
    left = upgrade_watch.leave(call, 3, {})
    watch = UpgradeWatch(cast("Releases", cluster), call, Events(tmp_path, 0), left)
    watch.start()
    watch.stop()
    lines = (tmp_path / "events" / "harness.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "time_ns"} for line in lines]


def test_what_was_left_and_found_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"keepsake_leave": LEFT, "keepsake_look": {"g": 7}, "keepsake_finish": FOUND}
    events = watched(tmp_path, answers, monkeypatch)
    assert events[0] == {"event": "keepsake", "detail": "left", **LEFT}
    assert events[-1] == {"event": "keepsake", "detail": "found", **FOUND}
    final = [event for event in events if event.get("final")]
    assert [(event["detail"], event["levels"]) for event in final] == [
        ("n1", {"metadata.version": 33}),
        ("n2", {"metadata.version": 33}),
    ]


def test_trouble_is_recorded_as_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = {name: ClusterTrouble("no answer") for name in ("keepsake_leave", "keepsake_look", "keepsake_finish")}
    events = watched(tmp_path, trouble, monkeypatch)
    assert events[0] == {"event": "keepsake", "detail": "left", "error": "no answer"}
    assert [event["event"] for event in events[1:]].count("keepsake") == 0  # there is nothing to look for
