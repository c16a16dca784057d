"""The addresses that brokers advertise behind a proxy, and when a proxy is used."""

from __future__ import annotations

import pytest

from harness.cluster.distribution import broker_config
from harness.cluster.distribution.broker_config import Node
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.model.capabilities import Wire
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.plan import make_plan
from harness.run.make_cluster import make as make_cluster
from nemesis import table


def settings(node: Node) -> dict[str, str]:
    text = broker_config.properties(node, [node], "4.1.1", "/data", {})
    return dict(line.split("=", 1) for line in text.splitlines())


def test_clients_are_sent_to_the_proxy_and_brokers_come_directly() -> None:
    found = settings(Node("n1", 1, "10.0.0.1", 9092, 9093, client_port=9095, proxy_port=9096))
    assert "CLIENTS://10.0.0.1:9095" in found["listeners"].split(",")
    assert found["advertised.listeners"] == "INSIDE://10.0.0.1:9092,CLIENTS://10.0.0.1:9096"
    assert "CLIENTS:PLAINTEXT" in found["listener.security.protocol.map"].split(",")
    assert found["inter.broker.listener.name"] == "INSIDE"


def test_brokers_are_sent_to_the_proxy_too() -> None:
    node = Node("n1", 1, "10.0.0.1", 9092, 9093, client_port=9095, proxy_port=9096, peer_port=9097)
    found = settings(node)
    assert "INSIDE://10.0.0.1:9092" in found["listeners"].split(",")
    assert "INSIDE://10.0.0.1:9097" in found["advertised.listeners"].split(",")


@pytest.mark.parametrize(
    ("proxy", "needed", "placed"),
    [
        ("auto", frozenset(), "nobody"),
        ("auto", frozenset({Wire}), "clients"),
        ("clients", frozenset(), "clients"),
        ("everybody", frozenset({Wire}), "everybody"),
    ],
)
def test_a_proxy_is_there_when_a_fault_needs_it_or_the_plan_says_so(
    proxy: str, needed: frozenset[type], placed: str, tmp_path: object
) -> None:
    plan = make_plan.make({"proxy": proxy, "network": "loopback"})
    cluster = make_cluster(plan, tmp_path, print, needed)  # type: ignore[arg-type]
    assert isinstance(cluster, LoopbackCluster)
    assert cluster.spec.proxy == placed
    with pytest.raises(ClusterTrouble, match="not up"):
        cluster.wire_traffic()


def test_a_wire_fault_has_a_name_and_a_hint() -> None:
    assert table.canonical("wire:late-endtxn", ["n1"]) == ("wire:late-endtxn",)
    with pytest.raises(BadInput, match="did you mean late-endtxn"):
        table.canonical("wire:late-endtx", ["n1"])
