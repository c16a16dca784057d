"""The kinds of clusters: the values of --cluster. To add a kind, add a module and a row.

The module has a function `make(spec: ClusterSpec) -> Cluster`, which creates a cluster without starting it. What a
cluster can do follows from the capabilities (`harness.model.capabilities`) that its class satisfies. Rows refer to
modules by name. A module is imported on use, so that the library for Docker or SSH is needed only for a cluster of that
kind.
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
    """A row of the table. References have the form "module:name".

    summary       a phrase for `harness doctor`
    make          reference: a function that creates a cluster from a ClusterSpec
    classes       options, such as "local --network loopback" -> reference: the class of the cluster that `make` creates
    refusal       the end of the message "FAULT needs CAPABILITY, which ...", including what to do instead
    server_names  reference: a function that returns the names of a ClusterSpec's servers; empty: n1, n2, ...
    reasons       reference: a function like `reasons` below; empty: every machine permits all capabilities
    attached      whether the cluster exists before the run and stays up after it
    can_stay      whether `harness cluster up` can start a cluster of this kind
    takes_faults  whether faults are possible, at least faults of clients
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
            "requires network namespaces, and these are refused or switched off here; "
            "`harness doctor` shows the reason and what to do"
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
        summary="brokers on the hosts that --hosts describes",
        make="harness.cluster.ssh.cluster:make",
        classes={"ssh": "harness.cluster.ssh.cluster:SshCluster"},
        refusal="brokers on other hosts do not offer; use --cluster local",
        server_names="harness.cluster.ssh.hosts:server_names",
        can_stay=True,
    ),
    "external": ClusterKind(
        summary="an existing cluster, with clients on this machine: requires --bootstrap, and --client-config for TLS",
        make="harness.cluster.external:make",
        classes={"external": "harness.cluster.external:ExternalCluster"},
        refusal=(
            "a cluster that others operate does not offer: only clients can be broken there "
            "(kill:client, pause:client); use --cluster local"
        ),
        attached=True,
    ),
    "mock": ClusterKind(
        summary="librdkafka's mock cluster, whose transactions are wrong",
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
    """Creates a cluster of this kind, without starting it. Raises BadInput, Missing."""
    cluster: Cluster = imported(CLUSTERS[kind].make)(spec)
    return cluster


def server_names(kind: str, spec: ClusterSpec) -> list[str]:
    """Returns the names of the cluster's servers, which faults may use as targets. Raises BadInput."""
    names: Callable[[ClusterSpec], list[str]] | None = imported(CLUSTERS[kind].server_names)
    return names(spec) if names else [f"n{number}" for number in range(1, spec.nodes + 1)]


def reasons(kind: str, needed: frozenset[type]) -> dict[type, str]:
    """Returns capability -> why this machine does not permit it ("": permitted), for the needed capabilities."""
    why: Callable[[frozenset[type]], dict[type, str]] | None = imported(CLUSTERS[kind].reasons)
    return why(needed) if why else {}


def classes() -> dict[str, type]:
    """Returns the cluster class for each command-line option that selects one, for all kinds of cluster.

    An option is a text such as "docker" or "local --network loopback".
    """
    return {name: imported(path) for row in CLUSTERS.values() for name, path in row.classes.items()}


def imported(reference: str) -> Any:
    """Imports the object that a reference "module:name" names; returns None for an empty reference."""
    if not reference:
        return None
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
