"""Which servers a cluster has, where they are, and what is laid out for each."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness.cluster.distribution import zookeeper
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.cluster.local import layout
from harness.cluster.local.layout import Layout
from harness.cluster.local.query_servers import most_named
from harness.cluster.local.servers import Servers
from harness.cluster.local.storage_format import Template
from harness.model.errors_and_exit_codes import BadInput


def servers(places: Layout, version: str, folder: Path, template: Template | None) -> Servers:
    jars, java = Jars(version, Path("/j"), ("a.jar",)), Java("/bin/java", 17, "/", "17")
    return Servers(places, version, {}, folder, java, jars, template, "cluster")


def test_nodes_are_controllers_too_unless_there_are_some_of_their_own() -> None:
    combined, separate = layout.isolated(3, 0, "kraft"), layout.isolated(3, 3, "kraft")
    assert [place.name for place in combined.voters] == ["n1", "n2", "n3"]
    assert combined.metadata_servers == ()
    assert [place.name for place in separate.voters] == ["c1", "c2", "c3"]
    assert [place.id for place in separate.voters] == [4, 5, 6]
    assert [place.name for place in separate.places] == ["c1", "c2", "c3", "n1", "n2", "n3"]


@pytest.mark.parametrize(("nodes", "keepers"), [(1, 1), (2, 1), (3, 3), (5, 3)])
def test_zookeepers_are_one_or_three(nodes: int, keepers: int) -> None:
    places = layout.isolated(nodes, 0, "zookeeper")
    assert len(places.zookeepers) == keepers
    assert (places.voters, places.metadata) == ((), "zookeeper")
    assert layout.metadata_server_names(nodes, 0, "zookeeper") == [place.name for place in places.metadata_servers]


def test_no_two_servers_share_an_address_or_a_port() -> None:
    for kind in (("kraft", 5), ("zookeeper", 0)):
        apart = layout.isolated(15, kind[1], kind[0])  # type: ignore[arg-type]
        addresses = [place.address for place in apart.places]
        assert len(set(addresses)) == len(addresses)
        free = itertools.count(20_000)
        layout.on_loopback(3, kind[1], kind[0], lambda free=free: next(free))  # type: ignore[arg-type,misc]
        assert next(free) == 20_000 + 3 * 2 + (5 if kind[1] else 3 * 3)


@pytest.mark.parametrize(
    ("nodes", "controllers", "metadata", "message"),
    [
        (0, 0, "kraft", "--nodes 0"),
        (3, 6, "kraft", "--controllers 6"),
        (3, -1, "kraft", "--controllers -1"),
        (3, 3, "zookeeper", "--controllers requires KRaft"),
    ],
)
def test_what_makes_no_sense_is_refused(nodes: int, controllers: int, metadata: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        layout.isolated(nodes, controllers, metadata)  # type: ignore[arg-type]


def test_a_zookeeper_is_told_of_the_others_and_of_itself(tmp_path: Path) -> None:
    made = servers(layout.isolated(3, 0, "zookeeper"), "3.9.2", tmp_path, None)
    for place in made.layout.places:
        made.lay_out(place)
    lines = (tmp_path / "z2" / "zoo.cfg").read_text().splitlines()
    assert "server.1=10.64.1.201:2888:3888" in lines and "server.3=10.64.1.203:2888:3888" in lines
    assert "clientPortAddress=10.64.1.202" in lines and "admin.enableServer=false" in lines
    assert f"dataDir={tmp_path}/z2/data" in lines
    assert (tmp_path / "z2" / "data" / "myid").read_text() == "2\n"
    assert made.argv(made.layout.zookeepers[1])[-2:] == [zookeeper.MAIN, f"{tmp_path}/z2/zoo.cfg"]
    assert list((tmp_path / "n1" / "data").iterdir()) == []  # the broker formats it


def test_controllers_of_their_own_are_formatted_as_brokers_are(tmp_path: Path) -> None:
    made = servers(layout.isolated(3, 3, "kraft"), "4.1.1", tmp_path, Template({"node.id": "1"}, b"seed"))
    for place in made.layout.places:
        made.lay_out(place)
    assert "node.id=6" in (tmp_path / "c3" / "data" / "meta.properties").read_text()
    assert "process.roles=controller" in (tmp_path / "c3" / "server.properties").read_text()
    assert made.argv(made.layout.controllers[2])[-2:] == ["kafka.Kafka", f"{tmp_path}/c3/server.properties"]


def test_last_error_are_the_last_complaint(tmp_path: Path) -> None:
    made = servers(layout.isolated(1, 0, "zookeeper"), "2.4.1", tmp_path, None)
    assert "the logs are empty" in made.last_error("z1")
    (tmp_path / "z1").mkdir()
    (tmp_path / "z1" / "server.log").write_text("INFO a\nERROR b\nINFO c\n")
    assert made.last_error("z1") == f"ERROR b (its logs are in {tmp_path}/z1)"


def test_a_zookeeper_serves_when_it_names_its_mode() -> None:
    assert zookeeper.serves(b"Zookeeper version: 3.5.6\nMode: follower\nNode count: 5\n")
    assert not zookeeper.serves(b"This ZooKeeper instance is not currently serving requests\n")
    assert not zookeeper.serves(b"")


def test_the_controller_is_the_broker_that_most_brokers_name() -> None:
    assert most_named([1, 2, 2]) == 2  # the one that was cut off names itself
    assert most_named([None, None, 3]) == 3
    assert most_named([1, 2]) is None
    assert most_named([]) is most_named([None]) is None
