"""Every fault on the local cluster: its effect, the cluster's health afterwards, and leftovers."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.clients.admin import AdminRole
from harness.clients.table import admin_opener
from harness.cluster.local import clock_library, disks, namespaces
from harness.cluster.local.missing_capabilities import reasons
from harness.cluster.local.namespaced_cluster import LocalCluster
from harness.cluster.spec import ClusterSpec
from harness.generator import op
from harness.model.capabilities import Clocks, Disks
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.model.fault_and_generator_protocols import Env
from harness.model.op import Op
from harness.model.randomness import Draw
from harness.protocol.error_codes import ClientError
from harness.run.roles import ViewRoles
from nemesis import table
from nemesis.schedule.entry import WIRE, Entry, Trigger
from nemesis.schedule.timing import Timing
from nemesis.schedule.triggers import Watch
from nemesis.verbs import voters
from tests.conftest import absent, nightly_if
from tests.e2e.harness_command import footprint, left_behind

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(400)]

# A client that sends and polls continuously, like those of a run, with at most 20 transactions a second.
TRAFFIC = """
import sys, time
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
bootstrap, name = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": bootstrap})
try:
    admin.create_topics([NewTopic("r-0", 8, 3)])["r-0"].result(20)
except KafkaException:
    pass
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r-group", "session.timeout.ms": 6000})
consumer.subscribe(["r-0"])
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"r-{name}", "acks": "all"})
while True:
    try:
        producer.init_transactions(30)
        while True:
            producer.begin_transaction()
            for partition in range(8):
                producer.produce("r-0", b"x" * 100, partition=partition)
            consumer.poll(0.05)
            producer.commit_transaction(30)
            time.sleep(0.05)
    except KafkaException:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"r-{name}", "acks": "all"})
"""


@dataclass
class Clients:
    """The hosts of the traffic. Satisfies Workers."""

    cluster: LocalCluster
    folder: Path

    def names(self) -> tuple[str, ...]:
        return ("w0", "w1")

    def start(self) -> None:
        for name in self.names():
            argv = [sys.executable, "-c", TRAFFIC, self.cluster.bootstrap, name.removeprefix("w")]
            self.cluster.spawn(name, argv, {}, [], str(self.folder / f"{name}.log"))

    def signal(self, name: str, number: int) -> bool:
        return False


@dataclass(frozen=True)
class Place:
    """A cluster under load."""

    cluster: LocalCluster
    roles: ViewRoles
    clients: Clients
    admin: AdminRole

    def env(self, seed: int) -> Env:
        return Env(self.cluster, self.roles, self.clients, Draw.of(seed, "test", 0), self._ask)

    def _ask(self, name: str, within_s: float, **arguments: Any) -> Any:
        try:
            return getattr(self.admin, name)(**arguments)
        except ClientError as error:
            raise ClusterTrouble(f"{name}: {error}") from None

    def holds_records(self) -> bool:
        """Whether every log contains records; a power loss may have emptied them."""
        return all(end > start + 3 for _, start, end in self.admin.list_offsets(list(range(8))))

    def healthy(self, timeout_s: float = 60) -> str:
        """Why the cluster is not healthy; empty once it is."""
        deadline, still = time.monotonic() + timeout_s, "nobody answered"
        while still and time.monotonic() < deadline:
            try:
                still = self.roles.unhealthy()
            except ClusterTrouble as error:
                still = str(error)
            time.sleep(0.2)
        return still


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    allowed, reason = namespaces.available()
    if not allowed:
        absent(f"namespaces are refused: {reason}")
    before = footprint()
    folder = tmp_path_factory.mktemp("faults")
    needed = {Disks: disks.why_not(), Clocks: clock_library.why_not()}
    cluster = LocalCluster(
        ClusterSpec(
            work_dir=folder / "cluster",
            needed=frozenset(need for need, refused in needed.items() if not refused),
            outside=True,
            proxy="clients",
            log_dirs=2,
        )
    )
    clients = Clients(cluster, folder)
    roles = ViewRoles(cluster, "r", "r-group", 2, 3)
    try:
        cluster.up(print)
        assert disks.why_not() or _loop_devices(folder)  # proves that the check finds such devices
        clients.start()
        assert _soon(lambda: len(roles.leaders()) == 8 and bool(roles.holders("group-coordinator")))
        config = {"bootstrap": cluster.outside_bootstrap, "run": "r", "partitions_per_topic": 8}
        admin = admin_opener("confluent")(config)
        yield Place(cluster, roles, clients, admin)
    finally:
        cluster.down()
    assert _soon(lambda: not left_behind(before), 15), left_behind(before)
    assert _soon(lambda: not _loop_devices(folder), 15), _loop_devices(folder)


def _loop_devices(folder: Path) -> dict[str, str]:
    """Loop devices whose backing file is in the folder: `{device: file}`."""
    found = {}
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # it has ended
            found[path.parent.parent.name] = path.read_text().strip()
    return {device: file for device, file in found.items() if file.startswith(str(folder))}


def _soon(what: Callable[[], bool], timeout_s: float = 60) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if what():
                return True
        except (ClusterTrouble, ClientError):
            pass
        time.sleep(0.2)
    return False


def _moved(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    return bool(started["new_leaders"])


def _dropped(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    return sum(ended["dropped_packets"].values()) > 0


def _at(*hosts: str) -> Callable[[Mapping[str, Any], Mapping[str, Any], Place], bool]:
    def only_there(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
        return set(ended["dropped_packets"]) <= set(hosts)

    return only_there


def _restarted(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    return started["nodes"] == list(place.cluster.nodes)


def _lost_bytes(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    return sum(started["lost_bytes"].values()) > 0


def _damaged(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    return all(started["damage"].values())


def _stale(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """Pages of segments came from the past, and the broker's recovery found the end of what is right."""
    ((node, done),) = started["damage"].items()
    log = (place.cluster.work_dir / "nodes" / node / "server.log").read_text(errors="replace")
    return any(file.endswith(".log") for file in done["restored"]) and "Found invalid messages in log segment" in log


def _deleted(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """The logs start where records were deleted."""
    starts = {key: start for key, start, _ in place.admin.list_offsets([key for key, _ in started["deleted"]])}
    return all(starts[key] == before > 0 for key, before in started["deleted"])


def _ended(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    return bool(started["ended"]) and all(size > 0 for size in started["filled_bytes"].values())


def _reassigned(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """Every replica list was changed, and all are restored."""
    numbers = {node: number for number, node in enumerate(place.cluster.nodes, 1)}
    lists = started["reassigned"]

    def restored() -> bool:
        now = {f"{row['topic']}-{row['partition']}": row["replicas"] for row in place.admin.partitions()}
        return all(now[name] == [numbers[node] for node in before] for name, (before, _) in lists.items())

    changed = started["moved"] == len(lists) > 0 and all(before != after for before, after in lists.values())
    return changed and _soon(restored)


def _grown(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """There is one more partition, which belongs to no key."""
    grown = _soon(lambda: started["partitions"] == {"r-0": len(place.admin.partitions())})
    return grown and len(place.admin.keys()) == 8


def _removed(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """The broker was empty when it returned, and has its replicas again."""
    number = place.cluster.nodes.index(started["nodes"][0]) + 1

    def in_sync() -> int:
        return sum(number in row["isr"] for row in place.admin.partitions(everything=True))

    return "not_back" not in ended and started["moved"] > 0 and _soon(lambda: in_sync() >= started["moved"])


def _min_isr(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """min.insync.replicas equals the number of replicas during the fault, and is two afterwards."""
    name = "min.insync.replicas"

    def two_again() -> bool:
        """Polls, because brokers apply the setting one by one, and any of them may be queried."""
        return bool(place.admin.configs(["r-0"], [name])["r-0"][name] == "2")

    return started["settings"] == {name: "3"} and "not_back" not in ended and _soon(two_again)


def _expired(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """The logs start where the history says."""
    starts = {key: start for key, start, _ in place.admin.list_offsets([key for key, _ in ended["deleted"]])}
    return bool(starts) and all(starts[key] == before for key, before in ended["deleted"])


def _cleaned(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """The history says for every key how far the cleaner went: not at all, as there are only active segments."""
    keys = place.admin.keys()
    return ended["cleaned"] == [[key, 0] for key in keys]


def _unclean(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """All brokers were killed, and the first one to return, which lacked records, became leader."""
    late = started["killed"][0]
    return set(started["new_leaders"].values()) == {late} and "not_back" not in ended


def _stormed(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    return bool(ended["joined"] >= ended["shared"] >= 2)


def _slowed(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """Connections took twice the delay (both directions), and packets were held for the configured time."""
    delay_ms = started["quality"]["delay_ms"]
    held_ms = [counts["held_ms"] for counts in ended["links"].values()]
    times = started["round_trip_ms"].values()
    return all(now > before + 1.4 * delay_ms for before, now in times) and min(held_ms) > 0.7 * delay_ms


def _lossy(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """About the configured share of packets was lost."""
    (counts,) = ended["links"].values()
    return 0.3 < counts["dropped"] / counts["packets"] / started["quality"]["loss"] < 3


def _flaky(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    (counts,) = ended["links"].values()
    return counts["packets"] > counts["delayed"] > 0 and counts["overtook"] > 0 and counts["dropped"] > 0


def _narrow(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    (counts,) = ended["links"].values()
    return counts["waited"] > 10 and counts["held_ms"] > 1


def _bumped(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """The servers' logs reported the clock change, and report the right time afterwards."""
    off = [abs(ahead_s) > 0.2 for ahead_s in started["ahead_s"].values()]
    now = [place.cluster.clock_ahead_s(node) for node in started["nodes"]]
    return all(off) and all(seen is not None and seen[0] < 0.01 and seen[1] > -0.01 for seen in now)


def _stalled(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """A quarter of the writes waited at least half a stall longer, and writes are fast again."""
    waited = [now - before > 500 * started["stall_s"] for before, now in started["write_ms"].values()]
    return all(waited) and all(_soon(partial(_writes_quickly, place, node), 60) for node in started["nodes"])


def _writes_quickly(place: Place, node: str) -> bool:
    """Fifteen fast writes in a row, which a stalling disk never has."""
    return max(place.cluster.write_ms(node)) < 200


def _fenced(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """The library of the client whose id was taken over says that it has been fenced."""
    (name,) = started["fenced"]
    log = place.clients.folder / f"w{name.removeprefix('r-')}.log"
    return _soon(lambda: "fenced" in log.read_text(errors="replace"), 60)


def _applied(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """A rule was applied, and the proxy could parse all traffic."""
    return ended["rules"][0]["released"] > 0 and "untouched" not in ended


def _swapped(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """Another request overtook each request that the rule was applied to."""
    (counts,) = ended["rules"]
    return 0 < counts["applied"] <= counts["released"] and "untouched" not in ended


def _in_other_dirs(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """The broker reports each moved log in its new directory, and no longer copies any."""
    for node, moved in started["moved"].items():
        dirs = place.cluster.log_dirs(node)
        logs = {f"{at[0]}-{at[1]}": path for path, each in dirs.items() for at in each.logs}
        copied = any(future for each in dirs.values() for future in each.logs.values())
        if copied or any(not logs[name].endswith(f"/{to}") or was == to for name, (was, to) in moved.items()):
            return False
    return "not_moved" not in started


def _online_again(started: Mapping[str, Any], ended: Mapping[str, Any], place: Place) -> bool:
    """One directory was offline, other brokers led its partitions, and the broker uses all directories again."""
    (node,) = started["nodes"]
    log = (place.cluster.work_dir / "nodes" / node / "server.log").read_text(errors="replace")
    now = place.cluster.log_dirs(node)
    return (
        started["offline"] == {node: ["data2"]}
        and bool(started["new_leaders"])
        and "Stopping serving logs in dir" in log
        and all(not each.error and each.logs for each in now.values())
    )


HEAL = "heal-network"
WELL = "heal-links"
# fault, the op that starts it, the op that ends it, the function that checks its effect
CASES = [
    ("kill:leader", "kill", "restart", _moved),
    ("kill:controller", "kill", "restart", None),
    ("kill:minority", "kill", "restart", _moved),
    ("kill:txn-coordinator", "kill", "restart", None),
    ("pause:group-coordinator", "pause", "resume", None),
    ("pause:leader", "pause", "resume", _moved),
    ("restart:leader", "shutdown", "start", _moved),
    ("rolling-restart:all", "rolling-restart", "", _restarted),
    ("isolate:leader", "isolate", HEAL, _dropped),
    ("isolate:client", "isolate", HEAL, _dropped),
    ("isolate-in:n1", "isolate-in", HEAL, _at("n1")),
    ("isolate-out:n1", "isolate-out", HEAL, _at("n2", "n3")),
    ("split:minority", "split", HEAL, _dropped),
    ("ring:all", "ring", HEAL, _dropped),
    ("cut-clients:n2", "cut-clients", HEAL, _at("n2", "w0", "w1")),
    ("lose-acks:leader", "lose-acks", HEAL, _at("w0", "w1")),
    ("slow:leader", "slow", WELL, _slowed),
    ("slow:all", "slow", WELL, _slowed),
    ("slow:client", "slow", WELL, _slowed),
    ("loss:leader", "loss", WELL, _lossy),
    ("flaky:one", "flaky", WELL, _flaky),
    ("rate:leader", "rate", WELL, _narrow),
    ("clock-bump:all", "clock-bump", "clock-reset", _bumped),
    ("clock-strobe:leader", "clock-strobe", "clock-reset", _bumped),
    ("disk-slow:leader", "disk-slow", "disk-well", _stalled),
    ("power-loss:leader", "power-loss", "power-on", _moved),
    ("power-loss:all", "power-loss", "power-on", _lost_bytes),
    ("disk-full:leader", "disk-full", "disk-free", _ended),
    ("flip-bits:follower", "flip-bits", "start", _damaged),
    ("truncate-tail:leader", "truncate-tail", "start", _damaged),
    ("stale-chunks:leader", "stale-chunks", "start", _stale),
    ("damage-index:one", "damage-index", "start", _damaged),
    ("delete-checkpoint:one", "delete-checkpoint", "start", _damaged),
    ("fail-log-dir:leader", "fail-log-dir", "mend-log-dir", _online_again),
    ("move-log-dir:one", "move-log-dir", "", _in_other_dirs),
    ("delete-records:some", "delete-records", "", _deleted),
    ("cut-controller:follower", "cut-controller", HEAL, _dropped),
    ("elect:all", "elect", "", _moved),
    ("elect-unclean:leader", "elect-unclean", "bring-back", _unclean),
    ("reassign:all", "reassign", "reassign-back", _reassigned),
    ("reassign:shrink", "reassign", "reassign-back", _reassigned),
    ("add-partitions:all", "add-partitions", "", _grown),
    ("remove-broker:one", "remove-broker", "add-broker", _removed),
    ("config-change:min-isr-up", "config-change", "config-back", _min_isr),
    ("config-change:retention", "config-change", "config-back", _expired),
    ("config-change:compact", "config-change", "config-back", _cleaned),
    ("rebalance:group", "rebalance", "calm", _stormed),
    ("fence:one", "fence", "", _fenced),
    ("wire:delay-all", "wire", "wire-clear", _applied),
    ("wire:swap-produce", "wire", "wire-clear", _swapped),
    ("wire:refuse-produce", "wire", "wire-clear", None),
]

# Other targets of verbs that CI tests, tested at night.
AT_NIGHT = {
    "kill:controller",
    "kill:minority",
    "kill:txn-coordinator",
    "pause:group-coordinator",
    "slow:all",
    "power-loss:leader",
    "config-change:compact",
    "reassign:shrink",
    "wire:refuse-produce",
}


@pytest.mark.parametrize(
    ("name", "begin", "end", "shown"), [nightly_if(case[0] in AT_NIGHT, *case, id=case[0]) for case in CASES]
)
def test_fault(place: Place, name: str, begin: str, end: str, shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemesis.shared.effects.HEALTHY_TIMEOUT_S", 120.0)  # up to three brokers recover on two cores
    (fault,) = table.faults([name], Timing())
    if refused := "; ".join(filter(None, reasons(fault.needs).values())):
        absent(refused)
    assert place.healthy() == ""
    assert _soon(place.holds_records)
    env = place.env(CASES.index((name, begin, end, shown)))
    started = fault.nemesis.invoke(env, op(begin)).value
    try:
        assert started["took_effect"], started
        time.sleep(1)  # the fault is active
    finally:
        ended = fault.nemesis.invoke(env, op(end)).value if end else {}
        fault.nemesis.teardown(env)
    assert "unhealthy" not in ended, ended
    assert shown is None or shown(started, ended, place), (started, ended)
    assert place.healthy() == ""


def test_a_fault_at_a_point_of_the_protocol(place: Place) -> None:
    """The response to a commit waits in the proxy until leaders have moved: PREPARE_COMMIT is in the log by then."""
    when = Trigger(WIRE, "api=EndTxn;direction=response;commit=true", hold_s=10.0)
    (fault,) = table.faults(["elect:all"], Timing())
    assert place.healthy() == ""
    heard: queue.SimpleQueue[Op] = queue.SimpleQueue()
    watch = Watch([Entry(fault.name, when=when)], place.cluster, place.roles, heard.put)
    watch.start()
    try:
        seen = heard.get(timeout=30).value
        counts = place.cluster.rule_counts(seen.holds)[0]
        assert (counts.applied, counts.released) == (1, 0)
        start = fault.rounds.start.with_(value={"trigger": seen.text, "point_s": seen.at_s, "holds": seen.holds})
        done = table.invoke([fault], place.env(1), start).value
    finally:
        watch.stop()
    assert done["took_effect"] and done["new_leaders"] and done["trigger"] == seen.text
    assert 0 <= done["after_ms"] < 1000
    assert place.cluster.rule_counts(seen.holds) == ()  # the response has been forwarded
    assert place.healthy() == ""


def test_every_verb_is_tried() -> None:
    in_other_files = {*voters.VERBS, "upgrade", "finalize"}  # need other clusters: test_voters.py, test_upgrades.py
    at_night = {"roll-back", "downgrade", "migrate"}  # take minutes, since each server is restarted twice or more
    tried = {case[0].partition(":")[0] for case in CASES if case[0] not in AT_NIGHT}
    assert tried | in_other_files | at_night == set(table.VERBS)


def test_what_is_refused_here_has_a_reason() -> None:
    """The list of faults that this machine refuses: empty for root with the tools of the base image."""
    why = disks.why_not()
    if os.geteuid() == 0:
        assert why == "", why
    else:
        assert "root" in why
