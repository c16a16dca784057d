"""Bad links between hosts of a real supervisor."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.local import link_faults, namespaces, remote_process
from harness.cluster.local.link_faults import LinkFaults
from harness.cluster.local.supervisor_client import Control
from harness.model.capabilities import LinkCounts, LinkQuality
from tests.conftest import absent

HOSTS = {name: f"10.64.9.{number}" for number, name in enumerate("abc", start=1)}
LISTEN = """
import socket, sys
s = socket.create_server((sys.argv[1], 80), backlog=50); print("up", flush=True)
while True:
    s.accept()[0].close()
"""


class Net:
    """Hosts a, b and c; b and c listen."""

    def __init__(self, folder: Path) -> None:
        self.control = Control(True, folder / "supervisor.log")
        for name, address in HOSTS.items():
            self.control.ask("host", {"name": name, "address": address})
        for name in "bc":
            log = folder / name
            argv = [sys.executable, "-c", LISTEN, HOSTS[name]]
            remote_process.spawn(self.control, name, argv, {}, [], str(log))
            while "up" not in log.read_text():
                time.sleep(0.01)
        env, log = {"PYTHONPATH": namespaces.python_path()}, str(folder / "queue.log")
        self.faults = LinkFaults(
            lambda argv, fds, queues: remote_process.spawn(self.control, "", argv, env, fds, log, queues),
            self.control.ask,
        )

    def ms(self, at: str, to: str) -> float | None:
        return link_faults.round_trip_ms(lambda: remote_process.new_socket(self.control, at), [(HOSTS[to], 80)])


@pytest.fixture
def net(need_namespaces: None, tmp_path: Path) -> Iterator[Net]:
    if why := link_faults.why_not():
        absent(why)
    made = Net(tmp_path)
    yield made
    made.control.close()
    assert (tmp_path / "queue.log").read_text() == ""


def quick(ms: float | None) -> bool:
    return ms is not None and ms < 60


def test_a_slow_link_is_slow_both_ways_and_only_that_one(net: Net) -> None:
    net.faults.degrade(HOSTS, ["a"], LinkQuality(delay_ms=100), 1)
    for at, to in (("a", "b"), ("a", "c")):
        taken = net.ms(at, to)
        assert taken is not None and taken >= 200
    assert quick(net.ms("b", "c"))
    assert quick(net.ms("", "b"))  # from the observer
    counts = net.faults.counts("a")
    assert counts.packets >= counts.delayed > 20 and counts.held_ms >= 100
    net.faults.restore()
    assert quick(net.ms("a", "b"))
    assert net.faults.counts("a") == LinkCounts()
    net.faults.restore()  # idempotent


def test_between_two_slow_links_packets_wait_once(net: Net) -> None:
    net.faults.degrade(HOSTS, ["a", "b"], LinkQuality(delay_ms=200), 1)
    taken = net.ms("a", "b")
    assert taken is not None and 400 <= taken < 780
    net.faults.restore()


def test_what_a_lossy_link_drops_is_counted(net: Net) -> None:
    net.faults.degrade(HOSTS, ["a"], LinkQuality(loss=1.0), 1)
    with remote_process.new_socket(net.control, "a") as connection:
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.connect((HOSTS["b"], 80))
    counts = net.faults.counts("a")
    assert counts.dropped == counts.packets > 0
    net.faults.restore()
    assert quick(net.ms("a", "b"))


def test_a_killed_helper_delays_no_packets(net: Net) -> None:
    net.faults.degrade(HOSTS, ["a"], LinkQuality(delay_ms=2000), 1)
    (bad,) = net.faults._degraded.values()
    bad.helper.child.signal(9)
    assert bad.helper.child.wait(10) == -9
    assert quick(net.ms("a", "b"))
    net.faults.restore()
