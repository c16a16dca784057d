"""Runs on librdkafka's mock cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.cluster.mock import MockCluster
from harness.model.capabilities import Cluster, Hosts, Logs, Network, Processes
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble

PRODUCE = """
import sys
from confluent_kafka import Producer
done = []
producer = Producer({"bootstrap.servers": sys.argv[1]})
producer.produce("t", b"x", on_delivery=lambda error, message: done.append((error, message.offset())))
producer.flush(10)
print(done, len(producer.list_topics(timeout=5).brokers))
"""


def test_it_can_do_what_it_says() -> None:
    cluster = MockCluster()
    for capability in (Cluster, Hosts, Logs):
        assert isinstance(cluster, capability)
    for capability in (Processes, Network):
        assert not isinstance(cluster, capability)


def test_a_worker_produces_to_it(tmp_path: Path) -> None:
    cluster = MockCluster(3, tmp_path)
    try:
        cluster.up(print)
        log = tmp_path / "w0.log"
        child = cluster.spawn("w0", [sys.executable, "-c", PRODUCE, cluster.bootstrap], {}, [], str(log))
        assert child.wait(30) == 0
        assert log.read_text() == "[(None, 0)] 3\n"
        assert cluster.run("n1", ["echo", "here"], 10).out == "here\n"
    finally:
        cluster.down()
    cluster.down()
    with pytest.raises(ClusterTrouble, match="not up"):
        cluster.run("n1", ["true"], 1)


def test_the_number_of_nodes_is_checked() -> None:
    with pytest.raises(BadInput, match="--nodes 0"):
        MockCluster(0)
