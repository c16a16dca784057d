"""The list of faults states for each where it runs, and why not elsewhere."""

from __future__ import annotations

import json

import pytest

from harness.cli import app, fault_support
from harness.cluster.local import disks, namespaces
from nemesis import table


def test_every_verb_once() -> None:
    found = fault_support.rows()
    assert [row.verb for row in found] == list(table.VERBS)
    assert all(set(row.refused) == set(fault_support.place_names()) for row in found)
    by_verb = {row.verb: row for row in found}
    assert by_verb["isolate"].refused["local --network loopback"] == "it does not support Network"
    assert by_verb["kill"].refused["mock"] == "it does not support Processes; only clients can be targeted"
    assert by_verb["restart"].refused["mock"] == "it does not support Processes; only clients can be targeted"
    assert by_verb["kill"].refused["local"] == ""
    assert "client-crash" in by_verb["kill"].aliases


def test_refusals_of_the_machine_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "why_not", lambda: "mounting a disk takes root: run as root")
    monkeypatch.setattr(namespaces, "available", lambda: (False, "not today"))
    by_verb = {row.verb: row for row in fault_support.rows()}
    assert "takes root" in by_verb["power-loss"].refused["local"]
    assert "not today" in by_verb["ring"].refused["local"]
    text = fault_support.text(list(by_verb.values()))
    assert "not on local: namespaces are refused: not today" in text


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["nemesis", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"verb", "summary", "targets", "aliases", "needs", "refused"} == set(rows[0])
    assert app.invoke(["nemesis", "list"]) == 0
    assert "power-loss" in capsys.readouterr().out
