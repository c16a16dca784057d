"""The admin role: what the harness asks of the cluster, as JSON requests through a worker process.

Each public method is a request by its name; arguments and values are plain JSON data.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.clients.client_protocols import Admin, Library
from harness.clients.extra_group_member import Storm
from harness.clients.log_model.send_old_sequences import Sequences
from harness.clients.settings import Settings
from harness.clients.table import problem_of
from harness.protocol.error_codes import ClientError

_NO_GROUP: Final = "GROUP_AUTHORIZATION_FAILED"


class AdminRole:
    """Answers for one run: where no topics are named, the run's are meant."""

    def __init__(self, admin: Admin, settings: Settings, library: Library, clients: Mapping[str, Any]) -> None:
        """`clients`: the plain settings of the run's clients, which may be of other libraries."""
        self._admin, self._settings, self._library, self._clients = admin, settings, library, clients
        self._storm: Storm | None = None
        self._sequences: Sequences | None = None

    def problem(self) -> str:
        """What the harness or a library of the run has against the clients' settings, as a sentence that
        names the first; empty when there is nothing. Asks no broker."""
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
        """Make the topics that do not exist, and wait for leaders everywhere. Names of those made."""
        count = partitions or self._settings.partitions_per_topic
        return self._admin.create_topics(names, count, replication, config or {}, timeout_s)

    def leaders(self, timeout_s: float = 5.0) -> list[list[Any]]:
        """[topic, partition, broker id or None] of every partition of the run."""
        return [[row["topic"], row["partition"], row["leader"]] for row in self.partitions(timeout_s)]

    def partitions(self, timeout_s: float = 5.0, everything: bool = False) -> list[dict[str, Any]]:
        """{"topic", "partition", "leader", "replicas", "isr"} of every partition of the run, or of all."""
        of_run = self._settings.key
        rows = self._admin.partitions(None, timeout_s)
        return [row for row in rows if everything or of_run(row["topic"], 0) is not None]

    def controller(self, timeout_s: float = 5.0) -> int | None:
        """The broker that metadata names as controller. In KRaft mode that is any live broker (KIP-590):
        it accepts administration, and says nothing about the quorum's leader."""
        controller: int | None = self._admin.cluster(timeout_s)["controller"]
        return controller

    def brokers(self, timeout_s: float = 5.0) -> list[list[Any]]:
        """[id, "host:port"] of every registered broker."""
        return [[number, at] for number, at in sorted(self._admin.cluster(timeout_s)["brokers"].items())]

    def list_offsets(
        self, keys: Sequence[int], isolation_level: str | None = None, timeout_s: float = 5.0
    ) -> list[list[int]]:
        """[key, log start, end] of each key; the end is the last stable offset under read_committed."""
        made = self._settings
        partitions = {made.partition(key): key for key in keys}
        offsets = self._admin.offsets(list(partitions), isolation_level or made.isolation_level, timeout_s)
        return [[partitions[partition], start, end] for partition, (start, end) in offsets.items()]

    def keys(self, timeout_s: float = 5.0) -> list[int]:
        """Every key that has a partition, ascending."""
        rows = self.partitions(timeout_s)
        keys = [self._settings.key(row["topic"], row["partition"]) for row in rows]
        return sorted(key for key in keys if key is not None)

    def places(self, timeout_s: float = 5.0) -> list[list[Any]]:
        """[key, topic, partition] of every key that has a partition, ascending."""
        return [[key, *self._settings.partition(key)] for key in self.keys(timeout_s)]

    def delete_records(self, before: Sequence[Sequence[int]], timeout_s: float = 10.0) -> list[list[int]]:
        """[key, offset] of each: delete what is below. [key, where its log begins now]."""
        partitions = {self._settings.partition(key): (key, offset) for key, offset in before}
        wanted = {partition: offset for partition, (_, offset) in partitions.items()}
        starts = self._admin.delete_records(wanted, timeout_s)
        return [[partitions[partition][0], start] for partition, start in starts.items()]

    def elect(
        self, partitions: Sequence[Sequence[Any]], unclean: bool = False, timeout_s: float = 10.0
    ) -> list[list[Any]]:
        """[topic, partition] of each: elect its preferred leader, or an unclean one. With each its error."""
        wanted = [(topic, number) for topic, number in partitions]
        return [[*at, error] for at, error in self._admin.elect(wanted, unclean, timeout_s).items()]

    def reassign(self, replicas: Sequence[Sequence[Any]], timeout_s: float = 10.0) -> None:
        """[topic, partition, [broker id]] of each: move it there, the preferred leader first."""
        self._admin.reassign({(topic, number): ids for topic, number, ids in replicas}, timeout_s)

    def add_partitions(self, totals: Mapping[str, int], timeout_s: float = 10.0) -> None:
        """Grow topics to so many partitions each."""
        self._admin.add_partitions(totals, timeout_s)

    def change_configs(self, topics: Sequence[str], changes: Mapping[str, str | None], timeout_s: float = 10.0) -> None:
        """Change topics' settings; None takes one back."""
        self._admin.change_configs(topics, changes, timeout_s)

    def configs(
        self, topics: Sequence[str], names: Sequence[str], timeout_s: float = 10.0
    ) -> dict[str, dict[str, str]]:
        """topic -> setting -> the value in force."""
        return self._admin.configs(topics, names, timeout_s)

    def settings_in_force(
        self, topics: Mapping[str, Sequence[str]], broker: Sequence[str], internal: Sequence[str], timeout_s: float
    ) -> dict[str, Any]:
        """What the cluster says of itself; what it does not say is left out.

        topics    {"run": names of settings, asked of the run's topics, "internal": of the internal ones}
        broker    names of settings that brokers are asked for
        internal  names of the internal topics that may be there

        {"run", "internal": {topic: {"replication": count, setting: value}}, "brokers": {id: {setting: value}},
        "features": {feature: level}}
        """
        found: dict[str, Any] = {}
        rows = self._admin.partitions(None, timeout_s)
        copies: dict[str, int] = {}
        for row in rows:
            copies[row["topic"]] = min(len(row["replicas"]), copies.get(row["topic"], len(row["replicas"])))
        of_run = [topic for topic in copies if self._settings.key(topic, 0) is not None]
        for group, wanted in (("run", of_run), ("internal", [topic for topic in internal if topic in copies])):
            with contextlib.suppress(ClientError):
                told = self._admin.configs(wanted, topics[group], timeout_s)
                found[group] = {topic: {"replication": copies[topic], **told.get(topic, {})} for topic in wanted}
        with contextlib.suppress(ClientError):
            found["brokers"] = self._admin.broker_configs(broker, timeout_s)
        with contextlib.suppress(ClientError):
            levels = self._admin.features(timeout_s)
            found |= {} if levels is None else {"features": levels}
        return found

    def unregister(self, broker: int, timeout_s: float = 10.0) -> None:
        """Have the cluster forget a broker that does not run."""
        self._admin.unregister(broker, timeout_s)

    def storm_start(self, period_s: float) -> None:
        """From now on a stranger joins and leaves the run's group, every `period_s`: see `storm`."""
        self.storm_stop()
        self._storm = Storm(self._library, self._settings, self._topics, period_s)

    def storm_seen(self) -> dict[str, Any]:
        """What has come of it so far."""
        return self._storm.seen() if self._storm is not None else {}

    def storm_stop(self) -> dict[str, Any]:
        """The stranger leaves; what came of it, empty when there was none."""
        storm, self._storm = self._storm, None
        return storm.stop() if storm is not None else {}

    def forbidden(self, topic: str, timeout_s: float = 10.0) -> list[str]:
        """What the run would have to do with a topic of its own, its group and its transactions, and may
        not: "Write on topics". Not known is not forbidden."""
        made = replace(self._settings, group=f"{self._settings.run}-may-i")
        missing = list(self._admin.forbidden(topic, timeout_s))
        consumer = self._library.consumer(made)
        try:
            consumer.commit({(topic, 0): 0}, timeout_s)
        except ClientError as error:
            # Without a coordinator the commit fails for that, and the next poll tells why there is none.
            errors = [error, *consumer.poll(1.0, 1).errors]
            missing += ["Read on groups"] if any(each.code == _NO_GROUP for each in errors) else []
        finally:
            consumer.close(leave=False)
        if made.txn:
            producer = self._library.producer(replace(made, transactional_id=made.group_id))
            try:
                producer.init(timeout_s)
            except ClientError as error:
                missing += ["Write on transactional ids"] if "AUTHORIZATION" in error.code else []
            finally:
                producer.close()
        return missing

    def delete_runs(self, runs: Sequence[str], timeout_s: float = 30.0) -> list[str]:
        """Delete the topics of runs; names of those that were there. Brokers forget a group when all of its
        offsets went with its topics."""
        of = [replace(self._settings, run=run) for run in runs]
        named = {str(row["topic"]) for row in self._admin.partitions(None, timeout_s)}
        left_topics = sorted(topic for topic in named for each in of if each.key(topic, 0) is not None)
        self._admin.delete_topics(left_topics, timeout_s)
        return left_topics

    def sequences_append(self, topic: str) -> list[int]:
        """An idempotent producer of its own appends some batches; their offsets: see `sequences`."""
        self._sequences = Sequences(self._settings.bootstrap, topic)
        return self._sequences.append()

    def sequences_again(self) -> dict[str, Any]:
        """What the broker makes of a batch that is there already, and of one that leaves a gap."""
        if self._sequences is None:
            raise ClientError("_STATE", "nothing was appended before")
        return self._sequences.again()

    def _topics(self) -> dict[str, int]:
        """The run's topics, and how many partitions each has."""
        return dict(Counter(str(row["topic"]) for row in self.partitions()))
