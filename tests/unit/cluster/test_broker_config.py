"""The configuration of brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.distribution import broker_config, zookeeper
from harness.cluster.distribution.broker_config import Node
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.cluster.local import layout, storage_format
from harness.model.errors_and_exit_codes import BadInput


def nodes(count: int) -> list[Node]:
    return [Node(f"n{i}", i, f"10.64.1.{i}", 9092, 9093) for i in range(1, count + 1)]


def parsed(settings: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in settings.splitlines())


@pytest.mark.parametrize(("count", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 5)])
def test_an_odd_number_of_nodes_votes(count: int, voters: int) -> None:
    assert len(broker_config.controllers(nodes(count))) == voters


def test_three_nodes_are_brokers_and_controllers() -> None:
    three = nodes(3)
    settings = parsed(broker_config.properties(three[1], three, "4.1.1", "/d", {}))
    assert settings["process.roles"] == "broker,controller"
    assert settings["node.id"] == "2"
    assert settings["controller.quorum.voters"] == "1@10.64.1.1:9093,2@10.64.1.2:9093,3@10.64.1.3:9093"
    assert settings["listeners"] == "INSIDE://10.64.1.2:9092,CONTROLLER://10.64.1.2:9093"
    assert settings["advertised.listeners"] == "INSIDE://10.64.1.2:9092"
    assert settings["broker.session.timeout.ms"] == "3000"
    assert settings["broker.heartbeat.interval.ms"] == "500"
    assert settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"] == "1000"
    assert (settings["default.replication.factor"], settings["min.insync.replicas"]) == ("3", "2")
    assert settings["log.dirs"] == "/d"


def test_a_fourth_node_is_a_broker_only() -> None:
    four = nodes(4)
    settings = parsed(broker_config.properties(four[3], four, "4.1.1", "/d", {}))
    assert settings["process.roles"] == "broker"
    assert "CONTROLLER://" not in settings["listeners"]
    assert "4@" not in settings["controller.quorum.voters"]


def test_one_node_replicates_to_itself_only() -> None:
    settings = parsed(broker_config.properties(nodes(1)[0], nodes(1), "4.1.1", "/d", {}))
    assert {value for key, value in settings.items() if "replication.factor" in key or key.endswith("isr")} == {"1"}
    assert settings["min.insync.replicas"] == "1"


def test_a_second_listener_is_advertised_outside() -> None:
    node = Node("n1", 1, "10.64.1.1", 9092, 9093, outside_port=4711, forward_port=9094)
    settings = parsed(broker_config.properties(node, [node], "4.1.1", "/d", {}))
    assert settings["listeners"] == "INSIDE://10.64.1.1:9092,OUTSIDE://10.64.1.1:9094,CONTROLLER://10.64.1.1:9093"
    assert settings["advertised.listeners"] == "INSIDE://10.64.1.1:9092,OUTSIDE://127.0.0.1:4711"


def test_overrides_win() -> None:
    settings = parsed(broker_config.properties(nodes(1)[0], nodes(1), "4.1.1", "/d", {"min.insync.replicas": "7"}))
    assert settings["min.insync.replicas"] == "7"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("node.id", "9"),
        ("listeners", "x"),
        ("log.dirs", "/x"),
        ("", "x"),
        ("a b", "x"),
        ("a", "x\ny"),
        ("a", "x\\"),
    ],
)
def test_overrides_that_would_break_the_cluster_are_refused(key: str, value: str) -> None:
    with pytest.raises(BadInput, match="--broker-config"):
        broker_config.properties(nodes(1)[0], nodes(1), "4.1.1", "/d", {key: value})


def test_share_groups_are_for_version_4_on() -> None:
    old, new = (broker_config.properties(nodes(1)[0], nodes(1), version, "/d", {}) for version in ("3.9.1", "4.1.1"))
    assert "share." not in old and "share." in new


def test_with_zookeeper_a_broker_has_no_quorum_settings() -> None:
    places = layout.isolated(3, 0, "zookeeper")
    connect = zookeeper.connect(places.zookeepers)
    settings = parsed(broker_config.properties(places.brokers[1], places.brokers, "2.4.1", "/d", {}, (), connect))
    assert settings["zookeeper.connect"] == "10.64.1.201:2181,10.64.1.202:2181,10.64.1.203:2181"
    assert (settings["broker.id"], settings["zookeeper.session.timeout.ms"]) == ("2", "3000")
    assert settings["listeners"] == "INSIDE://10.64.1.2:9092"
    assert not {"process.roles", "node.id", "controller.quorum.voters", "broker.session.timeout.ms"} & settings.keys()


def test_a_node_that_only_controls_advertises_nothing() -> None:
    places = layout.isolated(3, 3, "kraft")
    settings = parsed(broker_config.properties(places.controllers[0], places.brokers, "4.1.1", "/d", {}, places.voters))
    assert (settings["process.roles"], settings["node.id"]) == ("controller", "4")
    assert settings["controller.quorum.voters"] == "4@10.64.1.101:9093,5@10.64.1.102:9093,6@10.64.1.103:9093"
    assert settings["listeners"] == "CONTROLLER://10.64.1.101:9093"
    assert "advertised.listeners" not in settings and "inter.broker.listener.name" not in settings
    assert settings["min.insync.replicas"] == "2"


def test_a_broker_with_dedicated_controllers_does_not_vote() -> None:
    places = layout.isolated(3, 1, "kraft")
    settings = parsed(broker_config.properties(places.brokers[0], places.brokers, "4.1.1", "/d", {}, places.voters))
    assert (settings["process.roles"], settings["controller.quorum.voters"]) == ("broker", "4@10.64.1.101:9093")
    assert settings["listeners"] == "INSIDE://10.64.1.1:9092"


def test_a_version_without_kraft_is_refused_without_zookeepers() -> None:
    with pytest.raises(BadInput, match=r"ready from 3\.3\.1 on; use --metadata zookeeper"):
        broker_config.properties(nodes(1)[0], nodes(1), "2.8.2", "/d", {})


def test_logging_follows_the_version() -> None:
    assert broker_config.log_config("4.1.1", "/l")[0] == "log4j2.properties"
    assert broker_config.log_config("3.9.1", "/l")[0] == "log4j.properties"
    jars, java = Jars("3.9.1", Path("/j"), ("a.jar",)), Java("/bin/java", 17, "/", "17")
    assert "-Dlog4j.configuration=file:/x/log4j.properties" in broker_config.java_argv(
        java, jars, "/x/log4j.properties", "kafka.Kafka", []
    )
    argv = broker_config.java_argv(java, jars, "/x/log4j2.properties", "kafka.Kafka", ["p"])
    assert "-Dlog4j2.configurationFile=file:/x/log4j2.properties" in argv
    assert argv[-4:] == ["-cp", "/j/a.jar", "kafka.Kafka", "p"]


def test_storage_is_named_after_its_node(tmp_path: Path) -> None:
    made = storage_format.Template({"version": "1", "cluster.id": "x", "node.id": "1", "directory.id": "y"}, b"seed")
    storage_format.write(made, tmp_path / "n2", "cluster", 2)
    storage_format.write(made, tmp_path / "n3", "cluster", 3)
    storage_format.write(made, tmp_path / "data2", "cluster", 3, has_metadata=False)
    assert [path.name for path in (tmp_path / "data2").iterdir()] == ["meta.properties"]
    two, three = (parsed((tmp_path / name / "meta.properties").read_text()) for name in ("n2", "n3"))
    assert (two["cluster.id"], two["node.id"], three["node.id"]) == ("cluster", "2", "3")
    assert two["directory.id"] != three["directory.id"]
    assert (tmp_path / "n2" / "bootstrap.checkpoint").read_bytes() == b"seed"


def test_old_storage_has_no_directory_id_and_no_checkpoint(tmp_path: Path) -> None:
    storage_format.write(storage_format.Template({"version": "1", "node.id": "1"}, None), tmp_path / "n2", "cluster", 2)
    assert "directory.id" not in (tmp_path / "n2" / "meta.properties").read_text()
    assert not (tmp_path / "n2" / "bootstrap.checkpoint").exists()


def test_ids_are_kafka_uuids() -> None:
    for _ in range(200):
        settings = storage_format.random_id()
        assert len(settings) == 22 and not settings.startswith("-")
