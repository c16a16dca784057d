"""Applies actions of the log model to a topic on real brokers.

Appends, reads and similar actions are requests, which a worker sends in the log role
(`harness.clients.log_model.actions_to_requests`). This module itself changes settings, holds elections and restarts
brokers. Each method waits until its change has taken effect on all brokers, as far as they report this (`_set`).
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.cluster.distribution import tiered_storage
from harness.cluster.distribution.versions import parse_version
from harness.cluster.local.loopback_cluster import LoopbackCluster
from harness.model.capabilities import Cluster, Disks, Network, Processes, offers
from harness.model.errors_and_exit_codes import BadInput, ClusterTrouble
from harness.protocol.segment_file import extent
from harness.sim.log_model.action_types import Action, Outcome
from harness.sim.log_model.records import LogSettings
from workloads.log_model.against_brokers import Remote, Seen
from workloads.log_model.scripted_sequences import HOUR_MS

Call = Callable[..., Any]
CALL_S: Final = 90.0
REQUEST_S: Final = 30.0
ASKED_MAX: Final = 3
HEALTHY_S: Final = 90.0
LOOK_S: Final = 0.05
REPORTS_TIERED_SINCE: Final = (3, 9, 0)  # KIP-1005
MOCK_PARTITIONS: Final = 4  # librdkafka's mock cluster creates every topic with this many
NAMES: Final = {
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "segment_ms": "segment.ms",
    "local_retention_ms": "local.retention.ms",
    "local_retention_bytes": "local.retention.bytes",
    "delete_retention_ms": "delete.retention.ms",
    "cleanup": "cleanup.policy",
}
_LOCAL: Final = ("local_retention_ms", "local_retention_bytes")
_MARK: Final = "flush.ms"  # a setting without effect here, as its default is just as large
_MARK_FROM: Final = 1 << 60


def segment_name(version: str) -> str:
    """Returns the name of the setting for the size of segments.

    Since Kafka 4.1, segment.bytes must be at least 1 MiB. For smaller segments an internal setting is used.
    """
    return "segment.bytes" if parse_version(version) < (4, 1, 0) else "internal.segment.bytes"


def topic_config(settings: LogSettings, version: str) -> dict[str, str]:
    """Returns the settings with which a topic is created.

    Some are not in `settings`: they make log cleaning frequent, and allow timestamps in the future.
    """
    names = {field: name for field, name in NAMES.items() if settings.tiered or field not in _LOCAL}
    found = {name: str(getattr(settings, field)) for field, name in names.items()}
    found |= {"remote.storage.enable": "true"} if settings.tiered else {}
    found |= {segment_name(version): str(settings.segment_bytes), "min.cleanable.dirty.ratio": "0.01"}
    if parse_version(version) >= (3, 6, 0):
        found["message.timestamp.after.max.ms"] = str(1000 * HOUR_MS)
    return found


class BrokerLog:
    """Applies actions to a topic on a cluster. Implements `workloads.log_model.against_brokers.Brokers`.

    log      calls the worker of the log role
    admin    calls the worker of the admin role
    name     prefix of the names of the topics that it creates
    version  version of Kafka; empty for librdkafka's mock cluster
    """

    def __init__(self, cluster: Cluster, log: Call, admin: Call, name: str, version: str, replication: int) -> None:
        self._cluster, self._log, self._admin = cluster, log, admin
        self._name, self._version, self._replication = name, version, replication
        self._numbers, self._marks = itertools.count(), itertools.count(_MARK_FROM)
        self._topic, self._partitions, self._held = "", 1, False
        self._tiered = False
        self.copied: set[tuple[str, int, int]] = set()  # (topic, partition, base offset) seen in the remote tier
        self.effect: dict[str, Any] = {}  # of the last restart or election: the nodes it hit, and its outcome

    def open(self, settings: LogSettings) -> BrokerLog:
        """Creates a fresh topic for the actions that follow. Returns self. Raises ClusterTrouble, BadInput."""
        self._advance(Action("advance"))
        self._topic, self._partitions = f"{self._name}-{next(self._numbers)}", settings.partitions
        self._tiered = settings.tiered
        self._ask(
            "create_topics",
            names=[self._topic],
            partitions=settings.partitions if self._version else MOCK_PARTITIONS,
            replication=self._replication,
            config=topic_config(settings, self._version) if self._version else {},
        )
        self._log("open", CALL_S, topic=self._topic, partitions=settings.partitions, tiered=settings.tiered)
        self._await("every replica of the new topic in sync", self._whole)
        return self

    def apply(self, action: Action, now: int) -> tuple[Outcome, int]:
        if action.f in _HERE:
            self.effect = {}
            _HERE[action.f](self, action)
            return Outcome(), 0
        answer = self._log("apply", CALL_S, f=action.f, args=dict(action.args), now=now)
        return Outcome(answer["error"], answer["value"]), answer["size"]

    def seen(self) -> list[Seen]:
        tiers = self._tiers() if self._tiered else []
        offsets = self._log("seen", CALL_S, tiers=tiers)
        bases = self._bases() if isinstance(self._cluster, LoopbackCluster) else [None] * len(offsets)
        found = []
        for partition, (row, segments) in enumerate(zip(offsets, bases, strict=True)):
            start, high, stable, end, *tier_offsets = row
            remote = self._remote(partition, dict(zip(tiers, tier_offsets, strict=True)))
            found.append(Seen(start, high, stable, end, segments, remote))
        return found

    def _tiers(self) -> list[str]:
        """Returns the names of the offsets of tiered storage that this version of Kafka reports."""
        reports_both = parse_version(self._version) >= REPORTS_TIERED_SINCE
        return ["earliest-local", "latest-tiered"] if reports_both else ["earliest-local"]

    def _remote(self, partition: int, offsets: Mapping[str, int]) -> Remote | None:
        """Returns a partition's content in remote storage, read from files. Returns None without tiered storage."""
        if not self._tiered:
            return None
        assert isinstance(self._cluster, LoopbackCluster)
        spans = []
        for path in tiered_storage.segments(tiered_storage.folder(self._cluster.work_dir), self._topic, partition):
            with contextlib.suppress(OSError, ValueError):  # the file is being written or deleted
                content = path.read_bytes()
                end, largest = extent(content)
                spans.append((int(path.name[:20]), end, len(content), largest))
        self.copied.update((self._topic, partition, base) for base, *_ in spans)
        return Remote(offsets["earliest-local"], offsets.get("latest-tiered"), tuple(spans))

    def _bases(self) -> list[tuple[tuple[int, ...], ...] | None]:
        """Returns the base offsets of the segments on each replica's disk, for each partition; the leader comes first.

        Returns None for a partition without a leader.
        """
        assert isinstance(self._cluster, LoopbackCluster)
        found: list[tuple[tuple[int, ...], ...] | None] = []
        for partition, (leader, _, replicas, _) in enumerate(self._where()):
            segments = []
            for broker in sorted(replicas, key=lambda one: one != leader):
                data = self._cluster.files.here(self._cluster.nodes[broker - 1])
                files = (data / f"{self._topic}-{partition}").glob("*.log")
                segments.append(tuple(sorted(int(file.stem) for file in files)))
            found.append(tuple(segments) if leader > 0 else None)
        return found

    def _ask(self, name: str, **arguments: Any) -> Any:
        """Sends an idempotent request to the admin role. Retries it, because restarting brokers do not respond."""
        for _ in range(ASKED_MAX - 1):
            with contextlib.suppress(ClusterTrouble):
                return self._admin(name, CALL_S, timeout_s=REQUEST_S, **arguments)
        return self._admin(name, CALL_S, timeout_s=REQUEST_S, **arguments)

    def _where(self) -> list[tuple[int, int, Sequence[int], Sequence[int]]]:
        return [tuple(row) for row in self._log("where", CALL_S)]

    def _whole(self) -> bool:
        rows = self._where()
        return all(leader > 0 and len(insync) == len(replicas) for leader, _, replicas, insync in rows)

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits until a condition holds. Raises ClusterTrouble on timeout."""
        deadline, reason = time.monotonic() + HEALTHY_S, ""
        while True:
            try:
                if holds():
                    return
            except ClusterTrouble as error:  # no broker responds while the only one starts
                reason = f" ({error})"
            if time.monotonic() > deadline:
                raise ClusterTrouble(f"topic {self._topic}: waited {HEALTHY_S:.0f} s for {what}{reason}")
            time.sleep(LOOK_S)

    # --- actions that do not go to one partition's leader ---

    def _set(self, action: Action) -> None:
        """Changes a setting, and returns when every broker has applied the change.

        Brokers apply metadata changes in order. A broker that reports a change may not have applied it to its logs yet,
        but it has done so when it reports a later change. Therefore another setting, `_MARK`, is changed afterwards.
        """
        field, value = action.arg("name"), str(action.arg("value"))
        name = segment_name(self._version) if field == "segment_bytes" else NAMES.get(field, "")
        if not name:
            raise BadInput(f"set name={field}: real brokers have {', '.join(NAMES)}, segment_bytes")
        for key, wanted in ((name, value), (_MARK, str(next(self._marks)))):
            self._ask("change_configs", topics=[self._topic], changes={key: wanted})
            self._await(f"{key}={wanted}", lambda: self._reported(key, wanted))  # noqa: B023

    def _reported(self, key: str, wanted: str) -> bool:
        return set(self._log("config", CALL_S, name=key)) == {wanted}

    def _elect(self, action: Action) -> None:
        """Elects another replica in the ISR as leader. Does nothing if there is no such replica."""
        partition = action.arg("partition")
        leader, epoch, replicas, insync = self._where()[partition]
        others = [one for one in replicas if one != leader and one in insync]
        if not others:
            self.effect = {"nodes": [], "took_effect": False}
            return
        order = [others[0], *(one for one in replicas if one != others[0])]
        self._ask("reassign", replicas=[[self._topic, partition, order]])
        self._ask("elect", partitions=[[self._topic, partition]])
        self._await(f"node {others[0]} to lead", lambda: self._where()[partition][0] == others[0])
        self._changed([leader], partition, epoch)

    def _changed(self, brokers: Sequence[int], partition: int, epoch: int) -> None:
        now = self._where()[partition]
        self.effect = {
            "nodes": [self._cluster.nodes[broker - 1] for broker in brokers],
            "took_effect": now[1] > epoch,
            "new_leaders": {f"{self._topic}-{partition}": self._cluster.nodes[now[0] - 1]},
        }

    def _restart(self, action: Action) -> None:
        """Restarts a broker, and waits until every replica is in sync.

        The action's argument `how` says whether the broker is stopped, is killed, or loses its power.
        """
        if not offers(self._cluster, Processes):
            raise BadInput("restart: the harness cannot restart this cluster's brokers; use --cluster local")
        leader, epoch, replicas, _ = self._where()[0]
        followers = [one for one in replicas if one != leader]
        broker = followers[0] if action.arg("who") == "follower" and followers else leader
        node = self._cluster.nodes[broker - 1]
        if action.arg("how") == "power":
            self._cut(node)
        elif action.arg("how") == "kill":
            self._cluster.kill(node)
        else:
            self._cluster.stop(node)
        down = not self._cluster.running(node)
        self._cluster.start(node)
        if isinstance(self._cluster, LoopbackCluster):
            answers = self._cluster.seen_by
            self._await(f"{node} to be back", lambda: len(answers(node)) == len(self._cluster.nodes))
        self._await(f"{node} to be back in sync", self._whole)
        self._changed([broker], 0, epoch)
        self.effect["took_effect"] = down

    def _cut(self, node: str) -> None:
        if not offers(self._cluster, Disks):
            raise BadInput(
                "restart how=power: this cluster's brokers have no disks of their own; as root, use "
                "--cluster local with namespaces and --weights power=1"
            )
        self._cluster.power_off([node])

    def _hold(self, action: Action) -> None:
        """Blocks replication from the leader to its followers, so that the high watermark does not advance.

        The followers stay in the ISR, because the brokers are configured (BROKER) to tolerate their lag.
        """
        if not offers(self._cluster, Network):
            raise BadInput("hold: this cluster's network cannot be cut; use --cluster local with namespaces")
        leader, _, replicas, _ = self._where()[action.arg("partition")]
        node, cluster = self._cluster.nodes[leader - 1], self._cluster
        followers = [self._cluster.nodes[one - 1] for one in replicas if one != leader]
        before = cluster.dropped(node)
        cluster.drop(node, followers)
        self._log("hold", CALL_S, held=True)
        self._held = True
        self._await(f"{node} to lose contact with its followers", lambda: cluster.dropped(node) > before)
        self.effect = {"nodes": followers, "took_effect": True}

    def _advance(self, action: Action) -> None:
        """Restores replication from all leaders to their followers."""
        if self._held and offers(self._cluster, Network):
            self._cluster.heal()
            self._log("hold", CALL_S, held=False)
            self._held = False
        self.effect = {"nodes": [], "took_effect": True}

    def _nothing(self, action: Action) -> None:
        """Does nothing: the log cleaner runs by itself, and the session waits for its effect."""


_HERE: Final[Mapping[str, Callable[[BrokerLog, Action], None]]] = {
    "set": BrokerLog._set,
    "elect": BrokerLog._elect,
    "restart": BrokerLog._restart,
    "hold": BrokerLog._hold,
    "advance": BrokerLog._advance,
    "clean": BrokerLog._nothing,
}
