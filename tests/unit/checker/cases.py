"""The anomaly cases: tests/histories/<anomaly>/<case>.jsonl, each with a <case>.expect.json.

An expectation contains `valid`, `anomalies` {name: bad} (complete), and where they matter `options` and
`settings` (of CheckOptions), `promised`, `reason` (part of one of the reasons) and `witnesses` {name: all}.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model.check_options import CheckOptions, InternalTopic, Settings, ShareGroups
from harness.model.check_result import Result

HISTORIES = Path(__file__).parents[2] / "histories"


@dataclass(frozen=True)
class Case:
    """One history and its expected result."""

    path: Path
    expect: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def options(self) -> CheckOptions:
        given = dict(self.expect.get("options", {}))
        if "expected_faults" in given:
            given["expected_faults"] = tuple(given["expected_faults"])
        if "checks" in given:
            given["checks"] = tuple(given["checks"])
        if "edges" in given:
            given["edges"] = frozenset(given["edges"])
        settings = dict(self.expect.get("settings", {}))
        for name in ("offsets_topic", "transactions_topic"):
            if name in settings:
                settings[name] = InternalTopic(**settings[name])
        if "share" in settings:
            share = dict(settings["share"])
            share["state_topic"] = InternalTopic(**share.get("state_topic", {}))
            settings["share"] = ShareGroups(**share)
        return CheckOptions(settings=Settings(**settings), **given)


def cases() -> list[Case]:
    """Every case, by name."""
    found = []
    for file in sorted(HISTORIES.glob("*/*.expect.json")):
        history = file.with_name(file.name.removesuffix(".expect.json") + ".jsonl")
        found.append(Case(history, json.loads(file.read_text())))
    return found


def differences(case: Case, result: Result) -> list[str]:
    """Differences from the expectation; empty if there are none."""
    wrong = []
    expect = case.expect
    if result.valid != expect["valid"]:
        wrong.append(f"valid is {result.valid}, expected {expect['valid']} ({result.reasons})")
    found = {anomaly.name: anomaly.bad for anomaly in result.anomalies}
    if found != expect["anomalies"]:
        wrong.append(f"anomalies are {found}, expected {expect['anomalies']}")
    if "promised" in expect and result.promised != expect["promised"]:
        wrong.append(f"promised is {result.promised}, expected {expect['promised']}")
    if "reason" in expect and not any(expect["reason"] in reason for reason in result.reasons):
        wrong.append(f"reasons are {result.reasons}, expected one with {expect['reason']!r}")
    for name, witnesses in expect.get("witnesses", {}).items():
        shown = [anomaly.witnesses for anomaly in result.anomalies if anomaly.name == name]
        listed = [{k: v for k, v in w.items() if k != "messages_listed"} for w in (shown[0] if shown else ())]
        if listed != witnesses:
            wrong.append(f"witnesses of {name} are {listed}, expected {witnesses}")
    return wrong
