"""Degraded links on the local cluster: rules at the receiving hosts send packets through a queue process.

The process is `harness.cluster.local.packet_queue`. The faults affect neither the harness's own requests to a node nor
connections through a forwarded port of 127.0.0.1, because observations must not depend on the fault. The queue
processes end when the supervisor ends.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from harness.cluster.local import helper_process, namespaces
from harness.cluster.local.helper_process import Helper
from harness.cluster.local.remote_process import RemoteChild
from harness.model.capabilities import LinkCounts, LinkQuality
from harness.model.errors_and_exit_codes import ClusterTrouble

_PROBE_TIMEOUT_S: Final = 20.0
_CONNECT_TIMEOUT_S: Final = 3.0
_CONNECTIONS: Final = 5

# (argv, descriptors, hosts for whose networks the process gets a netfilter socket) -> the process
Spawn = Callable[[Sequence[str], Sequence[int], Sequence[str]], RemoteChild]
# (verb, arguments): a request to the supervisor
Ask = Callable[[str, Mapping[str, object]], object]


def why_not() -> str:
    """Returns why this kernel cannot queue packets, and what to do; empty if it can.

    To find out, sets up a queue in temporary namespaces.
    """
    argv = [sys.executable, "-m", "harness.cluster.local.packet_queue", "--probe"]
    env = {**os.environ, "PYTHONPATH": namespaces.python_path()}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            env=env,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the test of the kernel's packet queues could not run: {error}"
    if done.returncode == 0:
        return ""
    reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return f"the kernel's packet queues cannot be used ({reason}): load the modules nfnetlink_queue and nft_queue"


@dataclass(frozen=True, slots=True)
class _Degraded:
    """The links that one helper process degrades.

    hosts  name -> address of the hosts whose links, to all other hosts, are degraded
    """

    helper: Helper
    hosts: Mapping[str, str]


class LinkFaults:
    """The degraded links of one cluster. Thread-safe."""

    def __init__(self, spawn: Spawn, ask: Ask) -> None:
        self._spawn, self._ask = spawn, ask
        self._degraded: dict[int, _Degraded] = {}  # by the number of the queue
        self._used = 0
        self._lock = threading.Lock()

    def degrade(self, hosts: Mapping[str, str], names: Sequence[str], quality: LinkQuality, seed: int) -> None:
        """Degrades, from now on, each link between a host in `names` and any other host.

        hosts  name -> address of all hosts

        Raises ClusterTrouble with the kernel's reason if the packet queue cannot be set up.
        """
        with self._lock:
            self._used += 1
            number = self._used
            text = orjson.dumps(asdict(quality)).decode()
            helper = helper_process.start(
                lambda argv, fds: self._spawn(argv, fds, list(hosts)),
                "harness.cluster.local.packet_queue",
                [str(number), text, str(seed), *(hosts[name] for name in names)],
                f"a degraded link of {', '.join(names)}",
            )
            self._degraded[number] = _Degraded(helper, {name: hosts[name] for name in names})
            for at, address in hosts.items():
                hit = [hosts[name] for name in names if name != at]
                sources = [other for other in hosts.values() if other != address] if at in names else hit
                if sources:
                    self._ask("hold", {"at": at, "sources": sources, "number": number})

    def counts(self, at: str) -> LinkCounts:
        """Returns counters of the packets on the degraded links of host `at`; all zero if its links are not degraded.

        Raises ClusterTrouble if the queue process has ended.
        """
        with self._lock:
            for degraded in self._degraded.values():
                if at in degraded.hosts:
                    return LinkCounts(**degraded.helper.ask()[degraded.hosts[at]])
        return LinkCounts()

    def restore(self) -> None:
        """Restores all links.

        Ends all queue processes, and then raises ClusterTrouble if one of them did not end.
        """
        with self._lock:
            if not self._degraded:
                return
            self._ask("release", {})
            stuck = [degraded for degraded in self._degraded.values() if not degraded.helper.close()]
            self._degraded.clear()
        if stuck:
            raise ClusterTrouble("a packet queue process did not end; packets no longer pass through it")


def round_trip_ms(new_socket: Callable[[], socket.socket], places: Sequence[tuple[str, int]]) -> float | None:
    """Returns the median time to open a TCP connection to one of `places` (address, port), in ms.

    Opens 5 connections, to the places in turn. Opening a connection takes one round trip, and longer if packets are
    lost. Returns None if all attempts fail.
    """
    took: list[float] = []
    for n in range(_CONNECTIONS):
        with new_socket() as connection:
            connection.settimeout(_CONNECT_TIMEOUT_S)
            began = time.monotonic()
            with suppress(OSError):
                connection.connect(places[n % len(places)])
                took.append((time.monotonic() - began) * 1000)
    return round(statistics.median(took), 1) if took else None
