"""Bad links on the local cluster: rules at the receivers send packets through a `harness.cluster.local.packet_queue`.

What the harness itself asks a node, and what comes by its forwarded port, passes unharmed: that is the
observer. The queues end with the supervisor, whatever ends that.
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

# (argv, descriptors, hosts of whose networks it gets netfilter sockets) -> the process
Spawn = Callable[[Sequence[str], Sequence[int], Sequence[str]], RemoteChild]
# (verb, arguments): a request of the supervisor
Ask = Callable[[str, Mapping[str, object]], object]


def why_not() -> str:
    """Why this kernel cannot hold packets back, with what to do; empty when it can. Tries it."""
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
        return f"the kernel's packet queues cannot be tried: {error}"
    if done.returncode == 0:
        return ""
    reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return f"the kernel has no packet queues for us ({reason}): load the modules nfnetlink_queue and nft_queue"


@dataclass(frozen=True, slots=True)
class _Bad:
    """Links that one process makes bad: those of `hosts`, address by name."""

    helper: Helper
    hosts: Mapping[str, str]


class LinkFaults:
    """The bad links of a cluster. Thread-safe."""

    def __init__(self, spawn: Spawn, ask: Ask) -> None:
        self._spawn, self._ask = spawn, ask
        self._bad: dict[int, _Bad] = {}  # by the number of the queue
        self._used = 0
        self._lock = threading.Lock()

    def degrade(self, hosts: Mapping[str, str], names: Sequence[str], quality: LinkQuality, seed: int) -> None:
        """Links between each of `names` and all others of `hosts` (address by name) are that bad from now on.

        Raises ClusterTrouble with the kernel's reason when it refuses.
        """
        with self._lock:
            self._used += 1
            number = self._used
            text = orjson.dumps(asdict(quality)).decode()
            helper = helper_process.start(
                lambda argv, fds: self._spawn(argv, fds, list(hosts)),
                "harness.cluster.local.packet_queue",
                [str(number), text, str(seed), *(hosts[name] for name in names)],
                f"a bad link of {', '.join(names)}",
            )
            self._bad[number] = _Bad(helper, {name: hosts[name] for name in names})
            for at, address in hosts.items():
                hit = [hosts[name] for name in names if name != at]
                sources = [other for other in hosts.values() if other != address] if at in names else hit
                if sources:
                    self._ask("hold", {"at": at, "sources": sources, "number": number})

    def counts(self, at: str) -> LinkCounts:
        """Raises ClusterTrouble when the queue has ended."""
        with self._lock:
            for bad in self._bad.values():
                if at in bad.hosts:
                    return LinkCounts(**bad.helper.ask()[bad.hosts[at]])
        return LinkCounts()

    def restore(self) -> None:
        """Raises ClusterTrouble when a queue does not end; the others are ended all the same."""
        with self._lock:
            if not self._bad:
                return
            self._ask("release", {})
            stuck = [bad for bad in self._bad.values() if not bad.helper.close()]
            self._bad.clear()
        if stuck:
            raise ClusterTrouble("a process that held packets back does not end; no packet goes to it any more")


def round_trip_ms(new_socket: Callable[[], socket.socket], places: Sequence[tuple[str, int]]) -> float | None:
    """Median time of a few TCP connections to (address, port)s in turn; None where none came about.

    A connection is there after one round trip; where packets are lost, after some more.
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
