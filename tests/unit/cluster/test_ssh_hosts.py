"""The file that lists the hosts: its content, and messages about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cluster.ssh import hosts
from harness.model.errors_and_exit_codes import BadInput


def load(folder: Path, text: str) -> tuple[hosts.Host, ...]:
    (folder / "hosts.yaml").write_text(text)
    return hosts.load(folder / "hosts.yaml")


def test_names_ports_and_paths_are_filled_in(tmp_path: Path) -> None:
    first, second = load(
        tmp_path,
        "- address: 10.0.0.1\n  key: keys/one\n- {address: b.example, name: big, kafka_port: 9200, sudo: true}\n",
    )
    assert (first.name, first.port, list(first.ports)) == ("n1", 22, [9092, 9093, 9094])
    assert first.key == str(tmp_path / "keys" / "one") and first.known_hosts is None
    assert (second.name, second.sudo, second.ports[0]) == ("big", True, 9200)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", ":1:1", "not a list of hosts"),
        ("address: x\n", ":1:1", "not a list of hosts"),
        ("- adress: x\n", ":1:3", "did you mean address?"),
        ("- name: n1\n", ":1:3", "address is missing"),
        ("- address: x\n  port: ssh\n", ":2:9", "port ssh"),
        ("- address: x\n  port: 70000\n", ":2:9", "port 70000"),
        ("- address: x\n  sudo: maybe\n", ":2:9", "sudo maybe"),
        ("- address: x\n  folder: here\n", ":2:11", "folder here"),
        ("- address: 'a b; c'\n", ":1:12", "address a b; c"),
        ("- address: x\n  address: y\n", ":2:3", "duplicate key"),
        ("- address: x\n  name: N1\n", ":2:9", "name N1"),
        ("- address: x\n  name: w0\n", ":2:9", "w0, w1, ... and admin are reserved for clients"),
        ("- {address: x, name: a}\n- {address: y, name: a}\n", ":2:22", "the name a is used twice"),
        ("- address: x\n- address: x\n  kafka_port: 9094\n", ":2:12", "n1 also has the address x and uses port 9094"),
        ("- address: [\n", ":2:1", "not a list of hosts"),
    ],
)
def test_a_mistake_is_reported_with_its_position(tmp_path: Path, text: str, at: str, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        load(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path / 'hosts.yaml'}{at}"), raised.value
    assert message in str(raised.value)


def test_there_are_bounds(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="16 hosts; at most 15"):
        load(tmp_path, "".join(f"- address: h{n}\n" for n in range(16)))
    with pytest.raises(BadInput, match="cannot read a list of hosts"):
        hosts.load(tmp_path / "nowhere.yaml")
