"""Which upgrades are documented, and what the configuration of a migrating server is."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.distribution import migration_config, upgrade_pairs
from harness.cluster.local import layout
from harness.cluster.local.trial_start import alone, moved
from harness.model.errors_and_exit_codes import BadInput
from tests.unit.cluster.test_broker_config import parsed
from tests.unit.cluster.test_layout import servers

PLACES = layout.isolated(3, 3, "zookeeper", migrates=True)


@pytest.mark.parametrize(
    ("old", "new", "metadata", "message"),
    [
        ("4.1.1", "4.1.1", "kraft", "newer than"),
        ("4.4.0", "4.3.1", "kraft", "newer than"),
        ("2.8.2", "4.1.1", "zookeeper", "migrate to KRaft there"),
        ("3.9.2", "4.0.2", "zookeeper", "or use --metadata kraft"),
    ],
)
def test_pairs_that_kafka_does_not_document(old: str, new: str, metadata: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        upgrade_pairs.check(old, new, metadata)  # type: ignore[arg-type]


def test_neighbours_are_documented_pairs() -> None:
    assert ("kraft", "4.3", "4.4") in upgrade_pairs.neighbours()
    assert ("zookeeper", "2.8", "3.4") in upgrade_pairs.neighbours()
    assert upgrade_pairs.protocol_of("2.8.2") == "2.8"


def config(name: str, mode: str) -> dict[str, str]:
    node = next(place for place in (*PLACES.brokers, *PLACES.controllers) if place.name == name)
    return parsed(
        migration_config.properties(node, PLACES.brokers, PLACES.controllers, "3.9.2", "/d", {}, "z:2181", mode)
    )


def test_a_broker_goes_through_three_modes() -> None:
    quorum = "4@10.64.1.101:9093,5@10.64.1.102:9093,6@10.64.1.103:9093"
    first, second, third = (config("n1", mode) for mode in ("zookeeper", "migration", "kraft"))
    assert (first["broker.id"], first["zookeeper.connect"]) == ("1", "z:2181")
    assert not first.keys() & {"controller.quorum.voters", "zookeeper.metadata.migration.enable"}
    assert (second["broker.id"], second["zookeeper.metadata.migration.enable"]) == ("1", "true")
    assert second["controller.quorum.voters"] == third["controller.quorum.voters"] == quorum
    assert (third["process.roles"], third["node.id"]) == ("broker", "1")
    assert not {name for name in third if name.startswith("zookeeper.")}


def test_a_controller_knows_zookeeper_until_the_end() -> None:
    second, third = config("c1", "migration"), config("c1", "kraft")
    assert (second["process.roles"], second["node.id"], second["zookeeper.connect"]) == ("controller", "4", "z:2181")
    assert second["zookeeper.metadata.migration.enable"] == "true"
    assert not {name for name in third if name.startswith("zookeeper.")}


def test_only_3_9_migrates() -> None:
    migration_config.check("3.9.1")
    for version in ("3.8.1", "4.0.0"):
        with pytest.raises(BadInput, match=r"with 3\.9"):
            migration_config.check(version)


@pytest.mark.parametrize(("name", "roles"), [("n1", "broker,controller"), ("c1", "controller")])
def test_a_trial_start_is_alone(name: str, roles: str) -> None:
    places = layout.isolated(3, 3, "kraft")
    place = next(place for place in places.places if place.name == name)
    ports = iter((20_000, 20_001))
    place = moved(place, lambda: next(ports))
    trial = alone(servers(places, "4.1.1", Path("/run/nodes"), None), place)  # type: ignore[arg-type]
    assert trial.folder == Path("/run/trial")
    voters = parsed(trial._config(place)[1])["controller.quorum.voters"]
    assert voters == f"{place.id}@{place.address}:{place.controller_port}" and place.controller_port >= 20_000
    assert parsed(trial._config(place)[1])["process.roles"] == roles
