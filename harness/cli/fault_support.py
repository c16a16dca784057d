"""Which fault runs on which cluster of this machine, and why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.cluster.docker import network
from harness.cluster.docker.cluster import DockerCluster
from harness.cluster.external import ExternalCluster
from harness.cluster.local import namespaces
from harness.cluster.local.loopback import LoopbackCluster
from harness.cluster.local.namespaced import LocalCluster
from harness.cluster.local.unsupported import reasons
from harness.cluster.mock import MockCluster
from harness.cluster.sim import SimCluster
from harness.cluster.ssh.cluster import SshCluster
from harness.model.capabilities import Network
from nemesis import table
from nemesis.schedule.timing import Timing
from nemesis.targets import CLIENT_TARGETS

CLUSTERS: Final[Mapping[str, type]] = {
    "local": LocalCluster,
    "local --network loopback": LoopbackCluster,
    "docker": DockerCluster,
    "ssh": SshCluster,
    "external": ExternalCluster,
    "mock": MockCluster,
    "sim": SimCluster,
}
CLIENTS_ONLY: Final = "clients can be hit"


@dataclass(frozen=True, slots=True)
class Row:
    """One verb.

    targets  what it can be aimed at
    aliases  short names of some of its faults
    needs    what a cluster must be able to do, for targets among the nodes
    refused  by cluster: why it cannot be used there, with what to do; empty where it can
    """

    verb: str
    summary: str
    targets: tuple[str, ...]
    aliases: tuple[str, ...]
    needs: tuple[str, ...]
    refused: Mapping[str, str]


def refusals() -> Mapping[type, str]:
    """What this machine does not let a local cluster do, with the reason; empty texts for what it does."""
    allowed, reason = namespaces.available()
    return {Network: "" if allowed else f"namespaces are refused: {reason}", **reasons()}


def rows() -> list[Row]:
    """Every verb, in the order of the table."""
    refused = refusals()
    # Of hosts elsewhere nothing is known here; a run asks them.
    elsewhere: Mapping[type, Mapping[type, str]] = {
        DockerCluster: {Network: network.why_not()},
        SshCluster: {},
    }
    found = []
    for verb, row in table.VERBS.items():
        needs = row.fault(next(iter(row.targets)), Timing()).needs
        of_clients = row.fault(next(iter(CLIENT_TARGETS)), Timing()).needs if row.clients else needs
        found.append(
            Row(
                verb,
                row.summary,
                (*row.targets, *(("n1", "n2", "...") if row.nodes else ())),
                tuple(short for short, full in table.aliases().items() if full.partition(":")[0] == verb),
                tuple(need.__name__ for need in needs),
                {
                    name: _refused(kind, needs, of_clients, elsewhere.get(kind, refused))
                    for name, kind in CLUSTERS.items()
                },
            )
        )
    return found


def _refused(kind: type, needs: tuple[type, ...], of_clients: tuple[type, ...], refused: Mapping[type, str]) -> str:
    why = _why_not(kind, needs, refused)
    return f"{why}; {CLIENTS_ONLY}" if why and not _why_not(kind, of_clients, refused) else why


def _why_not(kind: type, needs: tuple[type, ...], refused: Mapping[type, str]) -> str:
    if kind is SimCluster:
        return "it takes no faults; it has bugs of its own: --sim-bugs"
    missing = [need.__name__ for need in needs if not issubclass(kind, need)]
    if missing:
        return f"it has no {', '.join(missing)}"
    return "; ".join(refused[need] for need in needs if refused.get(need))


def text(listed: list[Row]) -> str:
    """The rows for a reader."""
    lines = []
    for row in listed:
        short = f"   ({', '.join(row.aliases)})" if row.aliases else ""
        lines += [
            f"{row.verb}{short}",
            f"    {row.summary}",
            f"    targets: {', '.join(row.targets)}",
        ]
        places = [name for name, why in row.refused.items() if not why]
        lines.append(f"    runs on: {', '.join(places) or 'no cluster of this machine'}")
        why = row.refused["local"]
        lines += [f"    not on local: {why}"] if why else []
    lines += ["", "write VERB:TARGET, several with commas: harness run --nemesis kill:leader,pause:client"]
    return "\n".join(lines)
