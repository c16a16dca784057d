"""What `doctor` says: every kind of cluster and every fault on each, with why and the fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import app, doctor, fault_support
from harness.cluster.local import disks
from harness.cluster.machine_checks import Check
from nemesis import table


def test_every_cluster_and_every_fault_on_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows if row["kind"] == "cluster"] == list(fault_support.place_names())
    on = {(row["name"], row["cluster"]) for row in rows if row["kind"] == "fault"}
    assert on == {(verb, cluster) for verb in table.VERBS for cluster in fault_support.place_names()}
    assert all(row["why"] for row in rows)
    external = {row["name"]: row for row in rows if row["cluster"] == "external"}
    assert not external["restart"]["ok"] and not external["isolate"]["ok"]
    assert external["kill"]["why"].endswith("only clients can be targeted")


def test_a_refused_fault_names_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "why_not", lambda: "mounting a disk takes root: run as root")
    kinds = {name: doctor.Finding("cluster", name, True, "") for name in fault_support.place_names()}
    found = doctor.faults(fault_support.rows(), kinds)
    (local,) = [one for one in found if one.name == "power-loss" and one.cluster == "local"]
    assert not local.ok and local.why == "mounting a disk takes root" and local.fix == "run as root"
    text = doctor.text(found)
    assert "no   power-loss               on no cluster of this machine\n       local: mounting a disk" in text


def test_without_what_runs_need_no_cluster_is_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = [
        Check("Java", False, "no Java", "install it"),
        Check("network faults", True, "fine", required=False),
        Check("docker cluster", True, "fine", required=False),
    ]
    kinds = doctor.clusters(machine)
    assert not any(one.ok for one in kinds) and all(one.fix == "install it" for one in kinds)
    found = doctor.faults(fault_support.rows(), {one.name: one for one in kinds})
    assert not any(one.ok for one in found)


def test_a_key_for_ssh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    assert not doctor.ssh(tmp_path).ok
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519").touch()
    assert doctor.ssh(tmp_path).ok
