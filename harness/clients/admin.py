"""The admin role of a worker process: the harness's own requests to the cluster, such as creating topics.

Each public method carries out the request of the same name. Arguments and results are plain JSON data.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.clients import fence_producers
from harness.clients.client_protocols import Admin, Library
from harness.clients.extra_group_member import Storm
from harness.clients.group_probe import GroupProbe
from harness.clients.keepsake import Keepsake
from harness.clients.log_model.send_old_sequences import Sequences
from harness.clients.settings import Settings
from harness.clients.table import problem_of
from harness.protocol.error_codes import ClientError

# Errors with which a controller refuses to change the level of a feature.
_REFUSALS: Final = frozenset(
    {"INVALID_UPDATE_VERSION", "FEATURE_UPDATE_FAILED", "INVALID_REQUEST", "UNSUPPORTED_VERSION"}
)
_NO_GROUP: Final = "GROUP_AUTHORIZATION_FAILED"


class AdminRole:
    """Makes admin requests for one run. Methods that take no topics act on the run's topics."""

    def __init__(self, admin: Admin, settings: Settings, library: Library, clients: Mapping[str, Any]) -> None:
        """Makes no request yet.

        settings  settings of this role's own clients
        library   the library of this role's own clients
        clients   settings of the run's clients, as plain JSON data; these clients may use other libraries
        """
        self._admin, self._settings, self._library, self._clients = admin, settings, library, clients
        self._storm: Storm | None = None
        self._probe: GroupProbe | None = None
        self._sequences: Sequences | None = None
        self._keepsake = Keepsake(library, admin, settings)

    def problem(self) -> str:
        """Returns the first problem with the settings of the run's clients that a client library reports, or "".

        Contacts no broker.
        """
        for name in dict.fromkeys(self._clients.get("libraries", ("confluent",))):
            reason = problem_of(name)({**self._clients, "library": name})
            if reason:
                return reason
        return ""

    def create_topics(
        self,
        names: Sequence[str],
        partitions: int | None = None,
        replication: int = 3,
        config: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
    ) -> list[str]:
        """Creates the named topics, except those that exist already, and waits until every partition has a leader.

        Returns the names of the topics that it created.
        """
        count = partitions or self._settings.partitions_per_topic
        return self._admin.create_topics(names, count, replication, config or {}, timeout_s)

    def leaders(self, timeout_s: float = 5.0) -> list[list[Any]]:
        """Returns [topic, partition, leader's id or None] for every partition of the run."""
        return [[row["topic"], row["partition"], row["leader"]] for row in self.partitions(timeout_s)]

    def partitions(self, timeout_s: float = 5.0, everything: bool = False) -> list[dict[str, Any]]:
        """Returns {"topic", "partition", "leader", "replicas", "isr"} for every partition of the run.

        With `everything`, returns the same for the partitions of all topics in the cluster.
        """
        of_run = self._settings.key
        rows = self._admin.partitions(None, timeout_s)
        return [row for row in rows if everything or of_run(row["topic"], 0) is not None]

    def controller(self, timeout_s: float = 5.0) -> int | None:
        """Returns the id of the broker that the metadata names as controller.

        In KRaft mode this is any live broker (KIP-590). It accepts admin requests, but need not be the leader of the
        quorum.
        """
        controller: int | None = self._admin.cluster(timeout_s)["controller"]
        return controller

    def brokers(self, timeout_s: float = 5.0) -> list[list[Any]]:
        """Returns [id, "host:port"] for every registered broker."""
        return [[number, at] for number, at in sorted(self._admin.cluster(timeout_s)["brokers"].items())]

    def list_offsets(
        self, keys: Sequence[int], isolation_level: str | None = None, timeout_s: float = 5.0
    ) -> list[list[int]]:
        """Returns [key, log start offset, end offset] for each key.

        Under read_committed, the end offset is the last stable offset.
        """
        settings = self._settings
        partitions = {settings.partition(key): key for key in keys}
        offsets = self._admin.offsets(list(partitions), isolation_level or settings.isolation_level, timeout_s)
        return [[partitions[partition], start, end] for partition, (start, end) in offsets.items()]

    def keys(self, timeout_s: float = 5.0) -> list[int]:
        """Returns the keys of the run's existing partitions, in ascending order. A key stands for a partition."""
        rows = self.partitions(timeout_s)
        keys = [self._settings.key(row["topic"], row["partition"]) for row in rows]
        return sorted(key for key in keys if key is not None)

    def places(self, timeout_s: float = 5.0) -> list[list[Any]]:
        """Returns [key, topic, partition] for every existing partition of the run, in ascending order of the keys."""
        return [[key, *self._settings.partition(key)] for key in self.keys(timeout_s)]

    def delete_records(self, before: Sequence[Sequence[int]], timeout_s: float = 10.0) -> list[list[int]]:
        """Deletes the oldest records of some keys: for each [key, offset], the records below that offset.

        Returns [key, new log start offset] for each key.
        """
        partitions = {self._settings.partition(key): (key, offset) for key, offset in before}
        wanted = {partition: offset for partition, (_, offset) in partitions.items()}
        starts = self._admin.delete_records(wanted, timeout_s)
        return [[partitions[partition][0], start] for partition, start in starts.items()]

    def elect(
        self, partitions: Sequence[Sequence[Any]], unclean: bool = False, timeout_s: float = 10.0
    ) -> list[list[Any]]:
        """Makes the preferred replica of each [topic, partition] its leader.

        With `unclean`, holds an unclean leader election instead. Returns [topic, partition, error name or ""] for each
        partition.
        """
        wanted = [(topic, number) for topic, number in partitions]
        return [[*at, error] for at, error in self._admin.elect(wanted, unclean, timeout_s).items()]

    def reassign(self, replicas: Sequence[Sequence[Any]], timeout_s: float = 10.0) -> None:
        """Starts moving partitions to other brokers. Does not wait until they have been moved.

        replicas  [topic, partition, [broker id, ...]] for each partition, the preferred leader first
        """
        self._admin.reassign({(topic, number): ids for topic, number, ids in replicas}, timeout_s)

    def add_partitions(self, totals: Mapping[str, int], timeout_s: float = 10.0) -> None:
        """Increases the number of partitions of each topic to the given total."""
        self._admin.add_partitions(totals, timeout_s)

    def change_configs(self, topics: Sequence[str], changes: Mapping[str, str | None], timeout_s: float = 10.0) -> None:
        """Changes settings of topics; the value None resets a setting to its default."""
        self._admin.change_configs(topics, changes, timeout_s)

    def configure_groups(self, groups: Sequence[str], changes: Mapping[str, str], timeout_s: float = 10.0) -> None:
        """Sets settings of groups, which need not exist yet."""
        self._admin.configure_groups(groups, changes, timeout_s)

    def topic_ids(self, timeout_s: float = 5.0) -> dict[str, str]:
        """Returns topic -> topic id, as Kafka writes it, for the run's topics (KIP-516)."""
        return self._admin.topic_ids(list(self._topics()), timeout_s)

    def features(self, timeout_s: float = 5.0) -> dict[str, int] | None:
        """Returns name of feature -> finalized level. Returns None if brokers report no features."""
        return self._admin.features(timeout_s)

    def configs(
        self, topics: Sequence[str], names: Sequence[str], timeout_s: float = 10.0
    ) -> dict[str, dict[str, str]]:
        """Returns topic -> setting -> effective value, for the named settings."""
        return self._admin.configs(topics, names, timeout_s)

    def settings_in_force(
        self, topics: Mapping[str, Sequence[str]], broker: Sequence[str], internal: Sequence[str], timeout_s: float
    ) -> dict[str, Any]:
        """Returns the effective settings of topics and brokers. Settings that the cluster does not report are omitted.

        topics    {"run": names of settings for the run's topics, "internal": names of settings for internal topics}
        broker    names of broker settings
        internal  names of the internal topics, which need not exist

        The result:

            {"run": {topic: {"replication": count, setting: value}}, "internal": the same for internal topics,
             "brokers": {id: {setting: value}}, "features": {feature: level}}
        """
        found: dict[str, Any] = {}
        rows = self._admin.partitions(None, timeout_s)
        copies: dict[str, int] = {}
        for row in rows:
            copies[row["topic"]] = min(len(row["replicas"]), copies.get(row["topic"], len(row["replicas"])))
        of_run = [topic for topic in copies if self._settings.key(topic, 0) is not None]
        for group, wanted in (("run", of_run), ("internal", [topic for topic in internal if topic in copies])):
            with contextlib.suppress(ClientError):
                values = self._admin.configs(wanted, topics[group], timeout_s)
                found[group] = {topic: {"replication": copies[topic], **values.get(topic, {})} for topic in wanted}
        with contextlib.suppress(ClientError):
            found["brokers"] = self._admin.broker_configs(broker, timeout_s)
        with contextlib.suppress(ClientError):
            levels = self._admin.features(timeout_s)
            found |= {} if levels is None else {"features": levels}
        return found

    def unregister(self, broker: int, timeout_s: float = 10.0) -> None:
        """Unregisters a stopped broker from the cluster."""
        self._admin.unregister(broker, timeout_s)

    def set_features(self, levels: Mapping[str, int], downgrade: bool = False, timeout_s: float = 10.0) -> str:
        """Sets the finalized levels of features. Returns "", or the broker's reason if it refuses.

        Raises ClientError if no broker gives an answer.
        """
        try:
            self._admin.set_features(levels, downgrade, timeout_s)
        except ClientError as error:
            if error.code not in _REFUSALS:
                raise
            return str(error)
        return ""

    def storm_start(self, period_s: float) -> None:
        """Starts an extra group member that joins and leaves the run's group every `period_s`: see
        `extra_group_member`.
        """
        self.storm_stop()
        self._storm = Storm(self._library, self._settings, self._topics, period_s)

    def storm_seen(self) -> dict[str, Any]:
        """Returns the counts of the running extra group member: see `Storm.seen`."""
        return self._storm.seen() if self._storm is not None else {}

    def storm_stop(self) -> dict[str, Any]:
        """Stops the extra group member. Returns its counts, or {} if none was running."""
        storm, self._storm = self._storm, None
        return storm.stop() if storm is not None else {}

    def transactional_ids(self, timeout_s: float = 5.0) -> dict[str, str]:
        """Returns transactional id -> state of its transaction, for the clients of the run (brokers since 3.0)."""
        brokers = self._admin.cluster(timeout_s)["brokers"]
        return fence_producers.transactional_ids(brokers, f"{self._settings.run}-", timeout_s)

    def fence(self, names: Sequence[str]) -> dict[str, int]:
        """Takes over transactional ids. Returns transactional id -> new producer epoch, for those that succeeded."""
        topic, timeout_s = next(iter(self._topics())), self._settings.transaction_timeout_s
        return fence_producers.fence(self._settings.bootstrap, topic, names, timeout_s)

    def probe_start(self) -> None:
        """Lets a member join the run's group, and another a new group: see `group_probe`."""
        self.probe_stop()
        protocol: Mapping[str, str] = next(iter(self._clients.get("group_protocols") or ()), {})
        settings = replace(self._settings, consumer_config={**protocol, **self._settings.consumer_config})
        self._probe = GroupProbe(self._library, self._admin, settings, sorted(self._topics()))

    def probe_look(self, timeout_s: float = 5.0) -> dict[str, Any]:
        """Returns the state of the run's group and of the two members: see `GroupProbe.look`; {} without them."""
        return self._probe.look(timeout_s) if self._probe is not None else {}

    def probe_stop(self) -> None:
        """Makes the members of `probe_start` leave."""
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.stop()

    def forbidden(self, topic: str, timeout_s: float = 10.0) -> list[str]:
        """Returns the permissions that a run needs but does not have, such as "Write on topics".

        A run needs permissions for its topics, its group and its transactions. A permission is not reported if it is
        unknown whether the run has it.
        """
        settings = replace(self._settings, group=f"{self._settings.run}-may-i")
        missing = list(self._admin.forbidden(topic, timeout_s))
        consumer = self._library.consumer(settings)
        try:
            consumer.commit({(topic, 0): 0}, timeout_s)
        except ClientError as error:
            # If no coordinator was found, the commit fails with that error, and the next poll reports the reason.
            errors = [error, *consumer.poll(1.0, 1).errors]
            missing += ["Read on groups"] if any(each.code == _NO_GROUP for each in errors) else []
        finally:
            consumer.close(leave=False)
        if settings.txn:
            producer = self._library.producer(replace(settings, transactional_id=settings.group_id))
            try:
                producer.init(timeout_s)
            except ClientError as error:
                missing += ["Write on transactional ids"] if "AUTHORIZATION" in error.code else []
            finally:
                producer.close()
        return missing

    def delete_runs(self, runs: Sequence[str], timeout_s: float = 30.0) -> list[str]:
        """Deletes the topics of the named runs. Returns the names of the deleted topics.

        The consumer groups of the runs need not be deleted: brokers delete a group once the topics for which it has
        committed offsets are deleted.
        """
        runs_settings = [replace(self._settings, run=run) for run in runs]
        existing = {str(row["topic"]) for row in self._admin.partitions(None, timeout_s)}
        run_topics = sorted(topic for topic in existing for each in runs_settings if each.key(topic, 0) is not None)
        self._admin.delete_topics(run_topics, timeout_s)
        return run_topics

    def sequences_append(self, topic: str) -> list[int]:
        """Appends some batches to a topic with a new idempotent producer, and returns their offsets.

        See `send_old_sequences`.
        """
        self._sequences = Sequences(self._settings.bootstrap, topic)
        return self._sequences.append()

    def sequences_again(self) -> dict[str, Any]:
        """Resends the last batch of `sequences_append`, then sends a batch that leaves a gap in the sequence numbers.

        Returns the brokers' responses to both: see `Sequences.again`.
        """
        if self._sequences is None:
            raise ClientError("_STATE", "sequences_again needs a sequences_append before it")
        return self._sequences.again()

    def keepsake_leave(self, replication: int, config: Mapping[str, str], timeout_s: float = 60.0) -> dict[str, Any]:
        """Leaves what must survive an upgrade: see `Keepsake.leave`."""
        return self._keepsake.leave(replication, config, timeout_s)

    def keepsake_look(self, timeout_s: float = 3.0) -> dict[str, int | None]:
        """Returns the committed offset that was left: see `Keepsake.look`."""
        return self._keepsake.look(timeout_s)

    def keepsake_finish(self, timeout_s: float = 60.0) -> dict[str, Any]:
        """Commits the transaction that was left open, and reads everything back: see `Keepsake.finish`."""
        return self._keepsake.finish(timeout_s)

    def _topics(self) -> dict[str, int]:
        """Returns topic -> number of partitions, for the run's topics."""
        return dict(Counter(str(row["topic"]) for row in self.partitions()))
