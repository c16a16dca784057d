"""The checks of `harness doctor`: which clusters and faults work on this machine, and why others do not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.cli import fault_support
from harness.cluster import machine_checks
from harness.cluster.machine_checks import Check
from harness.cluster.table import CLUSTERS

_NOT_RUN: Final = "runs are impossible on this machine"
_KEYS: Final = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check.

    kind      machine, cluster or fault
    name      what was checked, such as the name of the fault
    why       if the check passed: how it works; otherwise: why it does not
    fix       what to do if the check failed; empty if it passed
    cluster   kind of cluster on which a fault was checked; empty if the check is not about a fault
    required  whether no run is possible if this check fails
    """

    kind: str
    name: str
    ok: bool
    why: str
    fix: str = ""
    cluster: str = ""
    required: bool = False


def findings() -> list[Finding]:
    """Runs all checks. The only side effect is that the cache directory is created."""
    machine = machine_checks.probe()
    kinds = clusters(machine)
    return [
        *(Finding("machine", one.name, one.ok, one.why, one.fix, "", one.required) for one in machine),
        *kinds,
        *faults(fault_support.rows(), {one.name: one for one in kinds}),
    ]


def clusters(machine: Sequence[Check]) -> list[Finding]:
    """Returns a finding for each kind of cluster. For a kind that needs no check, the finding only describes the kind.

    machine  results of the checks of this machine
    """
    by_name = {check.name: check for check in machine}
    lacking = [check for check in machine if check.required and not check.ok]
    network, docker = by_name["network faults"], by_name["docker cluster"]
    local = "brokers on this machine"
    checks: Mapping[str, Callable[[], Finding]] = {
        "local": lambda: (
            _yes("local", f"{local}, each in its own network namespace")
            if network.ok
            else _no("local", f"{network.why}", network.fix)
        ),
        "local --network loopback": lambda: _yes("local --network loopback", f"{local}, on loopback ports"),
        "docker": lambda: Finding("cluster", "docker", docker.ok, docker.why, docker.fix),
        "ssh": ssh,
    }
    if lacking:
        first = lacking[0]
        return [_no(name, f"{_NOT_RUN}: {first.name}: {first.why}", first.fix) for name in fault_support.place_names()]
    summaries = {place: kind.summary for kind in CLUSTERS.values() for place in kind.classes}
    return [checks[place]() if place in checks else _yes(place, summary) for place, summary in summaries.items()]


def _yes(name: str, why: str) -> Finding:
    return Finding("cluster", name, True, why)


def _no(name: str, why: str, fix: str) -> Finding:
    return Finding("cluster", name, False, why, fix)


def ssh(home: Path | None = None) -> Finding:
    """Checks whether there is an SSH key or an SSH agent. The hosts file may name other keys; these are not checked."""
    if os.environ.get("SSH_AUTH_SOCK"):
        return _yes("ssh", "with the keys of the SSH agent; --hosts lists the hosts")
    folder = (home or Path.home()) / ".ssh"
    keys = [name for name in _KEYS if (folder / name).is_file()]
    if keys:
        return _yes("ssh", f"with {folder / keys[0]}; --hosts lists the hosts")
    return _no("ssh", f"no key in {folder}, and no SSH agent", "ssh-keygen -t ed25519, or name a key in --hosts")


def faults(rows: Sequence[fault_support.Row], kinds: Mapping[str, Finding]) -> list[Finding]:
    """Returns a finding for each pair of a fault and a kind of cluster.

    rows   the faults
    kinds  kind of cluster -> the finding that `clusters` returned for it
    """
    found = []
    for row in rows:
        for name, refused in row.refused.items():
            kind = kinds[name]
            if refused:
                why, _, fix = refused.rpartition(": ")
                found.append(Finding("fault", row.verb, False, why or fix, fix if why else "", name))
            elif not kind.ok and kind.why.startswith(_NOT_RUN):
                found.append(Finding("fault", row.verb, False, kind.why, kind.fix, name))
            elif not kind.ok:
                found.append(Finding("fault", row.verb, False, f"no {name} cluster: {kind.why}", kind.fix, name))
            else:
                found.append(Finding("fault", row.verb, True, row.summary, "", name))
    return found


def data(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """Returns each finding as a dict, ready for JSON."""
    return [asdict(one) for one in found]


def text(found: Sequence[Finding]) -> str:
    """Returns the findings as text for a terminal.

    The line of a fault begins with "yes" if the fault works on the local cluster, otherwise with "no". After the
    fault's name, the line lists all kinds of cluster on which the fault works.
    """
    lines = []
    for kind, title in (("machine", "this machine"), ("cluster", "clusters (--cluster)")):
        lines.append(title)
        lines += [line for one in found if one.kind == kind for line in _lines(one)]
        lines.append("")
    lines.append("faults (--nemesis)")
    verbs = dict.fromkeys(one.name for one in found if one.kind == "fault")
    for verb in verbs:
        lines += _fault([one for one in found if one.kind == "fault" and one.name == verb])
    return "\n".join(lines)


def _lines(one: Finding) -> list[str]:
    fix = [f"       fix: {one.fix}"] if one.fix else []
    return [f"  {'yes' if one.ok else 'no ':3}  {one.name:24} {one.why}", *fix]


def _fault(places: Sequence[Finding]) -> list[str]:
    local = next(one for one in places if one.cluster == "local")
    yes = [one.cluster for one in places if one.ok]
    partly = [one.cluster for one in places if not one.ok and one.why.endswith(fault_support.CLIENTS_ONLY)]
    where = ", ".join(yes) or "on no cluster of this machine"
    where += f"; clients only: {', '.join(partly)}" if partly else ""
    why = [] if local.ok else [f"       local: {local.why}"]
    fix = [f"       fix: {local.fix}"] if local.fix else []
    return [f"  {'yes' if local.ok else 'no ':3}  {local.name:24} {where}", *why, *fix]
