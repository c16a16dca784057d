"""The kinds of clusters: the values of --cluster. A new one is a file and a row.

The file has `make(spec: ClusterSpec) -> Cluster`, which starts nothing; what the cluster can do follows from the
capabilities (`harness.model.capabilities`) that its class satisfies. Modules are named as text and imported when
they are used, so that nobody needs Docker's or SSH's libraries for a cluster of another kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.cluster.spec import ClusterSpec
from harness.model.capabilities import Cluster


@dataclass(frozen=True, slots=True)
class ClusterKind:
    """A row. References are "module:name".

    summary       a clause for `harness doctor`
    make          gives the cluster of a ClusterSpec
    classes       what `make` gives, by how a reader asks for it
    refusal       ends the sentence of what it cannot do, with what to do instead
    server_names  gives the servers of a ClusterSpec that faults may name; empty: n1, n2, ...
    reasons       gives what this machine does not let it do, with the reason, of some capabilities; empty: nothing
    attached      whether the cluster is there before the run, and stays
    can_stay      whether `harness cluster up` can start one
    takes_faults  whether anything can be broken, clients at least
    """

    summary: str
    make: str
    classes: Mapping[str, str]
    refusal: str
    server_names: str = ""
    reasons: str = ""
    attached: bool = False
    can_stay: bool = False
    takes_faults: bool = True


CLUSTERS: Final[dict[str, ClusterKind]] = {
    "local": ClusterKind(
        summary="brokers on this machine",
        make="harness.cluster.local.namespaced_cluster:make",
        classes={
            "local": "harness.cluster.local.namespaced_cluster:LocalCluster",
            "local --network loopback": "harness.cluster.local.loopback_cluster:LoopbackCluster",
        },
        refusal=(
            "this machine's namespaces would give, and they are refused or switched off; "
            "`harness doctor` says why and what to do"
        ),
        server_names="harness.cluster.local.layout:server_names",
        reasons="harness.cluster.local.missing_capabilities:reasons",
        can_stay=True,
    ),
    "docker": ClusterKind(
        summary="containers on this machine",
        make="harness.cluster.docker.kafka_or_redpanda:make",
        classes={"docker": "harness.cluster.docker.cluster:DockerCluster"},
        refusal="containers do not offer; use --cluster local",
        reasons="harness.cluster.docker.packet_filters:reasons",
        can_stay=True,
    ),
    "ssh": ClusterKind(
        summary="brokers on other hosts, which are those of --hosts",
        make="harness.cluster.ssh.cluster:make",
        classes={"ssh": "harness.cluster.ssh.cluster:SshCluster"},
        refusal="brokers on other hosts do not offer; use --cluster local",
        server_names="harness.cluster.ssh.hosts:server_names",
        can_stay=True,
    ),
    "external": ClusterKind(
        summary="clients run here: give --bootstrap, and --client-config for TLS",
        make="harness.cluster.external:make",
        classes={"external": "harness.cluster.external:ExternalCluster"},
        refusal=(
            "a cluster that others run does not offer: only clients can be broken there "
            "(kill:client, pause:client); use --cluster local"
        ),
        attached=True,
    ),
    "mock": ClusterKind(
        summary="librdkafka's mock cluster, wrong about transactions",
        make="harness.cluster.mock:make",
        classes={"mock": "harness.cluster.mock:MockCluster"},
        refusal="librdkafka's mock cluster does not offer; use --cluster local",
    ),
    "sim": ClusterKind(
        summary="a simulated log, with bugs to switch on",
        make="harness.cluster.sim:make",
        classes={"sim": "harness.cluster.sim:SimCluster"},
        refusal="a simulated log does not have; use --cluster local",
        takes_faults=False,
    ),
}


def make(kind: str, spec: ClusterSpec) -> Cluster:
    """A cluster; nothing is started. Raises BadInput, Missing."""
    cluster: Cluster = imported(CLUSTERS[kind].make)(spec)
    return cluster


def server_names(kind: str, spec: ClusterSpec) -> list[str]:
    """The servers that faults may name. Raises BadInput."""
    names: Callable[[ClusterSpec], list[str]] | None = imported(CLUSTERS[kind].server_names)
    return names(spec) if names else [f"n{number}" for number in range(1, spec.nodes + 1)]


def reasons(kind: str, needed: frozenset[type]) -> dict[type, str]:
    """What this machine does not let a cluster do, of some capabilities; empty texts for what it does."""
    why: Callable[[frozenset[type]], dict[type, str]] | None = imported(CLUSTERS[kind].reasons)
    return why(needed) if why else {}


def classes() -> dict[str, type]:
    """The class of each kind, by how a reader asks for it."""
    return {name: imported(path) for row in CLUSTERS.values() for name, path in row.classes.items()}


def imported(reference: str) -> Any:
    """What a "module:name" stands for; None for an empty one."""
    if not reference:
        return None
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
