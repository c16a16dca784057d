"""The cost of starting, killing and healing, compared with the bare commands.

    python -m tests.bench.faults [--rounds 3] [--cuts 50]

Start: three brokers are configured and started, and have discovered each other; with the harness in namespaces and on
loopback ports, and bare: the same configuration with `java kafka.Kafka` three times. Kill: from SIGKILL until the
broker is gone, through the supervisor and by its parent. Heal: one server is cut off from two others and the rules are
removed, through the supervisor and with the same kernel calls in one process. Medians; ratio: harness / bare.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.cluster.distribution import jars, java, versions
from harness.cluster.local import namespaces, servers, storage_format
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.cluster.local.namespaced_cluster import LocalCluster
from harness.cluster.local.servers import Servers
from harness.cluster.spec import ClusterSpec
from harness.protocol import brokers_metadata_views

SETTINGS = {"min.insync.replicas": "2"}
UP_S = 180

# In separate namespaces, like the supervisor: three hosts, cuts and healing.
BARE_CUTS = """
import json, sys, time
from harness.cluster.local import namespaces, netlink
namespaces.enter()
netlink.make_bridge()
hosts = [netlink.make_host(f"n{i}", f"10.64.1.{i}", i) for i in (1, 2, 3)]
took = []
for _ in range(int(sys.argv[1])):
    began = time.perf_counter()
    netlink.drop(hosts[0], [host.address for host in hosts[1:]])
    for host in hosts:
        netlink.heal(host)
    took.append(time.perf_counter() - began)
print(json.dumps(took))
"""


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


class Bare:
    """The same three brokers without the harness."""

    def __init__(self, folder: Path) -> None:
        found = java.find()
        fetched = jars.ensure(versions.DEFAULT, found, print)
        # Only used to find free ports; never started.
        self.layout = LoopbackCluster(ClusterSpec(work_dir=folder / "never")).layout
        template = servers.kraft_template(self.layout, found, fetched, print)
        self.servers = Servers(
            self.layout,
            versions.DEFAULT,
            SETTINGS,
            folder,
            found,
            fetched,
            template,
            storage_format.random_id(),
        )
        self.children: list[subprocess.Popen[bytes]] = []

    def up(self) -> None:
        self.servers.folder.mkdir()
        for place in self.layout.brokers:
            self.servers.lay_out(place)
        for place in self.layout.brokers:
            with (self.servers.home(place.name) / "stdout.log").open("wb") as out:
                # Separate sessions, as with the supervisor: a busy kernel shares its time by session.
                argv = self.servers.argv(place)
                self.children.append(subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True))
        deadline = time.monotonic() + UP_S
        while not all(self._sees_all(place.address, place.port) for place in self.layout.brokers):
            if time.monotonic() > deadline:
                raise SystemExit(f"the bare brokers did not come up: see {self.servers.folder}")
            time.sleep(0.05)

    def _sees_all(self, address: str, port: int) -> bool:
        try:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            return len(brokers_metadata_views.ask(connection, address, port, 1.0).brokers) == 3
        except (OSError, ValueError):
            return False

    def kill(self) -> list[float]:
        """Seconds until each broker is gone."""

        def end(child: subprocess.Popen[bytes]) -> None:
            child.send_signal(signal.SIGKILL)
            child.wait()

        return [timed(partial(end, child)) for child in self.children]


def row(what: str, ours: list[float], bare: list[float]) -> None:
    one, other = statistics.median(ours), statistics.median(bare)
    print(f"{what:32} harness {one * 1000:9.1f} ms   bare {other * 1000:9.1f} ms   ratio {one / other:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cuts", type=int, default=50)
    args = parser.parse_args()
    isolated, reason = namespaces.available()
    if not isolated:
        print(f"namespaces are refused here ({reason}): loopback only, and nothing to heal")
    kinds: dict[str, type[LoopbackCluster]] = {"loopback": LoopbackCluster}
    kinds |= {"namespaces": LocalCluster} if isolated else {}
    up: dict[str, list[float]] = {name: [] for name in (*kinds, "bare")}
    kill: dict[str, list[float]] = {name: [] for name in (*kinds, "bare")}
    cuts: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            names = [*up]
            for name in [
                *names[number % len(names) :],
                *names[: number % len(names)],
            ]:  # alternate which is first
                work = Path(folder) / f"{name}-{number}"
                if name == "bare":
                    bare = Bare(work)
                    try:
                        up[name].append(timed(bare.up))
                    finally:
                        kill[name] += bare.kill()
                    continue
                cluster = kinds[name](ClusterSpec(broker_config=SETTINGS, work_dir=work))
                try:
                    up[name].append(timed(partial(cluster.up, lambda text: None)))
                    if isinstance(cluster, LocalCluster):
                        cuts += [timed(partial(cut_and_heal, cluster)) for _ in range(args.cuts)]
                    kill[name] += [timed(partial(cluster.kill, node)) for node in cluster.nodes]
                finally:
                    cluster.down()
    for name in kinds:
        row(f"start three brokers, {name}", up[name], up["bare"])
        row(f"kill a broker, {name}", kill[name], kill["bare"])
    if isolated:
        argv = [sys.executable, "-c", BARE_CUTS, str(args.cuts)]
        env = {"PYTHONPATH": namespaces.python_path()}
        done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env, timeout=120)
        row("cut off a server and heal", cuts, json.loads(done.stdout))


def cut_and_heal(cluster: LocalCluster) -> None:
    cluster.drop("n1", ["n2", "n3"])
    cluster.heal()


if __name__ == "__main__":
    main()
