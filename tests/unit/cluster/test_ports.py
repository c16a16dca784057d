"""Ports of 127.0.0.1 that two simultaneous runs never both take."""

from __future__ import annotations

import socket
import subprocess
import sys

from harness.cluster.local.namespaces import python_path
from harness.cluster.local.ports import Ports

# Another run that starts its search at the same port.
OTHER = """
import sys
from harness.cluster.local.ports import Ports
ports = Ports()
ports._next = int(sys.argv[1])
print(*(ports.take() for _ in range(5)))
"""


def test_two_runs_that_look_at_the_same_place_get_different_ports() -> None:
    ours = Ports()
    start = ours._next
    taken = {ours.take() for _ in range(5)}
    argv = [sys.executable, "-c", OTHER, str(start)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={"PYTHONPATH": python_path()})
    assert len(taken) == 5
    assert not taken & set(map(int, done.stdout.split()))
    ours.give_back()


def test_a_server_may_have_a_port_that_is_held_again_and_again() -> None:
    ports = Ports()
    port, unused = ports.take(), ports.take()
    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", port)) as server,  # with SO_REUSEADDR, like every JVM
            socket.create_connection(("127.0.0.1", port), 5) as client,
        ):
            server.accept()[0].close()
            assert client.recv(1) == b""
    ports.give_back()
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", unused))


def test_the_search_goes_round() -> None:
    ports = Ports()
    ports._next = 31_999
    found = {ports.take(), ports.take()}
    assert len(found) == 2 and all(20_000 <= port < 32_000 for port in found)
    ports.give_back()
