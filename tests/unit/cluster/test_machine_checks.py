"""The messages of `doctor` about this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster import machine_checks
from harness.cluster.local import namespaces


def test_every_check_says_what_it_found(tmp_path: Path) -> None:
    checks = machine_checks.probe(tmp_path)
    assert [check.name for check in checks] == [
        "Python",
        "Java",
        "cache directory",
        "broker jars",
        "network faults",
        "link faults",
        "clock faults",
        "disk faults",
        "docker cluster",
        "disk",
        "memory",
    ]
    for check in checks:
        assert check.why
        assert check.ok or check.fix


def test_a_refusal_comes_with_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    switch = tmp_path / "apparmor_restrict_unprivileged_userns"
    switch.write_text("1\n")
    setting = "kernel.apparmor_restrict_unprivileged_userns=0"
    monkeypatch.setattr(namespaces, "SWITCHES", ((str(switch), "1", setting),))
    check = machine_checks.networks(False, "user namespace: Operation not permitted" + namespaces.hint())
    assert not check.ok and not check.required
    assert check.fix == f"sudo sysctl -w {setting}"
    assert "Operation not permitted; brokers run on loopback ports" in check.why


def test_without_a_switch_that_explains_it_the_fix_is_general(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "SWITCHES", (("/nowhere", "1", ""),))
    check = machine_checks.networks(False, "bridge: Operation not supported" + namespaces.hint())
    assert "run as root" in check.fix


def test_too_little_of_anything_is_reported() -> None:
    assert not machine_checks.python((3, 10, 9)).ok
    assert not machine_checks.disk(Path(), 1 << 20).ok
    assert not machine_checks.memory(1 << 20).ok
    assert machine_checks.memory(None).ok


def test_no_cache_is_reported_with_its_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file" / "x"))
    checks = {check.name: check for check in machine_checks.probe(tmp_path)}
    assert "HARNESS_CACHE" in checks["cache directory"].fix
    assert not checks["broker jars"].ok
