"""A named cluster offers what the cluster behind it offers, and has a method for every capability."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cluster.persistent import client
from harness.cluster.persistent.client import State
from harness.cluster.persistent.named_cluster import NamedCluster
from harness.model.capabilities import Network, Processes, offers, servers
from harness.persistent.server import CAPABILITIES, Keeper


class Kept:
    """Has the capability Processes and no other."""

    nodes, bootstrap = ("n1", "n2"), "here:1"

    def __init__(self) -> None:
        self.killed: list[str] = []

    def up(self, progress: Any) -> None: ...
    def down(self) -> None: ...
    def run(self, node: str, argv: Any, timeout_s: float) -> Any: ...

    def kill(self, node: str) -> None:
        self.killed.append(node)

    def stop(self, node: str, within_s: float = 1.0) -> None: ...
    def pause(self, node: str) -> None: ...
    def resume(self, node: str) -> None: ...
    def start(self, node: str) -> None: ...

    def running(self, node: str) -> bool:
        return node not in self.killed


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()
    state = State("t", "local", "", "")
    keeper = Keeper(kept, state, frozenset())
    monkeypatch.setattr(client, "call", lambda name, do, fds=(), **more: keeper._do({"do": do, **more}, fds))
    return kept


def test_it_offers_what_the_kept_cluster_offers(kept: Kept) -> None:
    cluster = NamedCluster(State("t", "local", "", ""), "r")
    assert cluster.capabilities == {"Processes"} and (cluster.nodes, cluster.bootstrap) == (kept.nodes, kept.bootstrap)
    assert offers(cluster, Processes) and not offers(cluster, Network) and servers(cluster) == kept.nodes
    cluster.kill("n1")
    assert kept.killed == ["n1"] and not cluster.running("n1") and cluster.running("n2")


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_it_has_a_method_for_every_capability(kept: Kept, capability: type) -> None:
    assert isinstance(NamedCluster(State("t", "local", "", ""), "r"), capability)
