"""Servers of a quorum whose voters can change: the first voters, and the properties."""

from __future__ import annotations

from harness.cluster.local import dynamic_quorum, layout


def test_the_last_of_an_even_number_is_a_spare() -> None:
    four = layout.isolated(3, 4, "kraft").controllers
    assert [one.name for one in dynamic_quorum.first_voters(four)] == ["c1", "c2", "c3"]
    assert [one.name for one in dynamic_quorum.first_voters(four[:3])] == ["c1", "c2", "c3"]


def test_the_properties_name_addresses_instead_of_voters() -> None:
    controllers = layout.isolated(3, 3, "kraft").controllers
    text = "node.id=4\ncontroller.quorum.voters=4@10.64.1.101:9093\nlisteners=x\n"
    addresses = "10.64.1.101:9093,10.64.1.102:9093,10.64.1.103:9093"
    expected = f"node.id=4\ncontroller.quorum.bootstrap.servers={addresses}\nlisteners=x\n"
    assert dynamic_quorum.without_voters(text, controllers) == expected
