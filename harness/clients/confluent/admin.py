"""The admin client, implemented with confluent-kafka's AdminClient."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from harness.clients.confluent import admin_changes, shared_cluster
from harness.clients.confluent.settings_and_errors import converted, placed
from harness.protocol.error_codes import ClientError, TopicPartition

METADATA_PERIOD_S: Final = 0.05
MOCK: Final = "mockCluster"  # prefix of the cluster id of librdkafka's mock cluster (rdkafka_mock.c)
# Errors of ListOffsets for a client whose metadata is older than the latest election.
STALE: Final = frozenset({"FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "NOT_LEADER_FOR_PARTITION"})
CONTROLLER_S: Final = 3.0  # timeout of a search for the controller, and of one attempt
_NO_ANSWER: Final = frozenset({"_TIMED_OUT", "_TRANSPORT"})
SLACK_S: Final = 1.0  # how much longer than the request's timeout a future is awaited

_ISOLATION: Final = {
    "read_committed": ck.IsolationLevel.READ_COMMITTED,
    "read_uncommitted": ck.IsolationLevel.READ_UNCOMMITTED,
}


def _unanswered(what: str) -> ClientError:
    """Returns the error to raise for a negative offset. `what` names the request, for the message.

    librdkafka reports a timeout as the offset -1001, without an error.
    """
    return ClientError("_TIMED_OUT", f"{what}: no answer")


class ConfluentAdmin:
    """`client_protocols.Admin`, implemented with confluent-kafka's AdminClient.

    End offsets come from ListOffsets: under read_committed, they are last stable offsets (KIP-98).
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._admin: Any = AdminClient(self._config)

    def create_topics(
        self,
        names: Sequence[str],
        partitions: int,
        replication: int,
        config: Mapping[str, str],
        timeout_s: float = 30.0,
    ) -> list[str]:
        deadline = time.monotonic() + timeout_s
        if self._metadata(None, timeout_s).cluster_id.startswith(MOCK):
            return self._create_in_mock(names, partitions, deadline)
        topics = [
            NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config))
            for name in names
        ]
        created: list[str] = []
        if topics:
            futures = self._admin.create_topics(topics, operation_timeout=timeout_s, request_timeout=timeout_s)
            for name, future in futures.items():
                try:
                    future.result(timeout=max(0.0, deadline - time.monotonic()) + SLACK_S)
                    created.append(name)
                except ck.KafkaException as error:
                    if error.args[0].code() != ck.KafkaError.TOPIC_ALREADY_EXISTS:
                        raise converted(error) from None
                except FutureTimeout:
                    raise ClientError("_TIMED_OUT", f"topic {name} was not created in {timeout_s:.0f} s") from None
        self._await_leaders(names, partitions, deadline)
        return created

    def _create_in_mock(self, names: Sequence[str], partitions: int, deadline: float) -> list[str]:
        """Creates topics in librdkafka's mock cluster.

        The mock cluster has no CreateTopics; it creates a topic with 4 partitions when its metadata is requested.
        """
        created: list[str] = []
        for name in names:
            left_s = max(METADATA_PERIOD_S, deadline - time.monotonic())
            count = len(self._metadata(name, left_s).topics[name].partitions)
            if count not in (0, partitions):
                raise ClientError(
                    "INVALID_PARTITIONS",
                    f"the mock cluster creates topics with {count} partitions, not {partitions}",
                )
            created.append(name)
        self._await_leaders(names, partitions, deadline)
        return created

    def _metadata(self, topic: str | None, timeout_s: float) -> Any:
        try:
            return self._admin.list_topics(topic, timeout=timeout_s)
        except ck.KafkaException as error:
            raise converted(error) from None

    def _await_leaders(self, names: Sequence[str], partitions: int, deadline: float) -> None:
        """Waits until all partitions have leaders. New topics appear in the brokers' metadata with a delay."""
        while names:
            rows = self.partitions(names, max(METADATA_PERIOD_S, deadline - time.monotonic()))
            led = sum(row["leader"] is not None for row in rows)
            if led >= len(names) * partitions:
                return
            if time.monotonic() > deadline:
                raise ClientError("_TIMED_OUT", f"{led} of {len(names) * partitions} new partitions have a leader")
            time.sleep(METADATA_PERIOD_S)

    def partitions(self, names: Sequence[str] | None = None, timeout_s: float = 5.0) -> list[dict[str, Any]]:
        return placed(self._metadata(None, timeout_s).topics, names)

    def offsets(
        self, partitions: Sequence[TopicPartition], isolation_level: str, timeout_s: float = 5.0
    ) -> dict[TopicPartition, tuple[int, int]]:
        try:
            return self._offsets(partitions, isolation_level, timeout_s)
        except ClientError as error:
            if error.code not in STALE:
                raise
        # librdkafka keeps using the leader epochs that it has; a new client requests them.
        self._admin = AdminClient(self._config)
        return self._offsets(partitions, isolation_level, timeout_s)

    def _offsets(
        self, partitions: Sequence[TopicPartition], isolation_level: str, timeout_s: float
    ) -> dict[TopicPartition, tuple[int, int]]:
        starts = self._list_offsets(partitions, OffsetSpec.earliest(), isolation_level, timeout_s)
        ends = self._list_offsets(partitions, OffsetSpec.latest(), isolation_level, timeout_s)
        deadline = time.monotonic() + timeout_s + SLACK_S
        pairs: dict[TopicPartition, tuple[int, int]] = {}
        for partition in partitions:
            pair: list[int] = []
            for futures in (starts, ends):
                try:
                    answer = futures[partition].result(timeout=max(0.0, deadline - time.monotonic()))
                except ck.KafkaException as error:
                    raise converted(error) from None
                except FutureTimeout:
                    text = f"offsets of {partition}: no answer within {timeout_s:.1f} s"
                    raise ClientError("_TIMED_OUT", text) from None
                if answer.offset < 0:
                    raise _unanswered(f"offsets of {partition}")
                pair.append(int(answer.offset))
            pairs[partition] = (pair[0], pair[1])
        return pairs

    def delete_records(
        self, before: Mapping[TopicPartition, int], timeout_s: float = 10.0
    ) -> dict[TopicPartition, int]:
        requested = [ck.TopicPartition(topic, number, offset) for (topic, number), offset in before.items()]
        if not requested:
            return {}
        deadline = time.monotonic() + timeout_s + SLACK_S
        futures = self._admin.delete_records(requested, request_timeout=timeout_s, operation_timeout=timeout_s)
        starts = {}
        for place, future in futures.items():
            try:
                answer = future.result(timeout=max(0.0, deadline - time.monotonic()))
            except ck.KafkaException as error:
                raise converted(error) from None
            except FutureTimeout:
                raise ClientError("_TIMED_OUT", f"records of {place} were not deleted in time") from None
            if answer.low_watermark < 0:
                raise _unanswered(f"deletion of records of {place}")
            starts[place.topic, place.partition] = int(answer.low_watermark)
        return starts

    def _list_offsets(
        self, partitions: Sequence[TopicPartition], which: Any, isolation_level: str, timeout_s: float
    ) -> dict[TopicPartition, Any]:
        if not partitions:
            return {}
        requested = {ck.TopicPartition(topic, number): which for topic, number in partitions}
        futures = self._admin.list_offsets(
            requested, isolation_level=_ISOLATION[isolation_level], request_timeout=timeout_s
        )
        return {(partition.topic, partition.partition): future for partition, future in futures.items()}

    def _look_for_controller(self) -> None:
        """Refreshes the metadata, so that librdkafka finds a new controller.

        By itself, librdkafka would wait for the last controller that it knows.
        """
        with contextlib.suppress(ClientError):
            self._metadata(None, CONTROLLER_S)

    def elect(
        self, partitions: Sequence[TopicPartition], unclean: bool, timeout_s: float = 10.0
    ) -> dict[TopicPartition, str]:
        self._look_for_controller()
        return admin_changes.elect(self._admin, partitions, unclean, timeout_s)

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]], timeout_s: float = 10.0) -> None:
        admin_changes.reassign(self.cluster, replicas, timeout_s)

    def add_partitions(self, totals: Mapping[str, int], timeout_s: float = 10.0) -> None:
        self._look_for_controller()
        admin_changes.add_partitions(self._admin, totals, timeout_s)

    def change_configs(self, topics: Sequence[str], changes: Mapping[str, str | None], timeout_s: float = 10.0) -> None:
        """Changes settings of topics. Retries until the timeout, because the request is idempotent."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._look_for_controller()
            try:
                return admin_changes.change_configs(self._admin, topics, changes, CONTROLLER_S)
            except ClientError as error:
                if error.code not in _NO_ANSWER or time.monotonic() + CONTROLLER_S > deadline:
                    raise
            time.sleep(METADATA_PERIOD_S)

    def configure_groups(self, groups: Sequence[str], changes: Mapping[str, str], timeout_s: float = 10.0) -> None:
        admin_changes.configure_groups(self._admin, groups, changes, timeout_s)

    def configs(
        self, topics: Sequence[str], names: Sequence[str], timeout_s: float = 10.0
    ) -> dict[str, dict[str, str]]:
        return admin_changes.configs(self._admin, topics, names, timeout_s)

    def broker_configs(self, names: Sequence[str], timeout_s: float = 10.0) -> dict[str, dict[str, str]]:
        brokers = self.cluster(timeout_s)["brokers"]
        return admin_changes.broker_configs(self._admin, sorted(brokers), names, timeout_s)

    def features(self, timeout_s: float = 5.0) -> dict[str, int] | None:
        return admin_changes.features_in_force(self.cluster(timeout_s)["brokers"], timeout_s)

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], timeout_s: float = 5.0
    ) -> dict[TopicPartition, int | None]:
        return admin_changes.committed(self._config, group, partitions, timeout_s)

    def group(self, group: str, timeout_s: float = 5.0) -> dict[str, Any]:
        return admin_changes.group(self._admin, group, timeout_s)

    def topic_ids(self, names: Sequence[str], timeout_s: float = 5.0) -> dict[str, str]:
        return admin_changes.topic_ids(self._admin, names, timeout_s)

    def unregister(self, broker: int, timeout_s: float = 10.0) -> None:
        admin_changes.unregister(self.cluster, broker, timeout_s)

    def set_features(self, levels: Mapping[str, int], downgrade: bool, timeout_s: float = 10.0) -> None:
        admin_changes.set_features(self.cluster, levels, downgrade, timeout_s)

    def delete_topics(self, names: Sequence[str], timeout_s: float = 30.0) -> None:
        shared_cluster.delete_topics(self._admin, names, timeout_s)

    def forbidden(self, topic: str, timeout_s: float = 10.0) -> list[str]:
        return shared_cluster.forbidden(self._admin, topic, timeout_s)

    def cluster(self, timeout_s: float = 5.0) -> dict[str, Any]:
        metadata = self._metadata(None, timeout_s)
        brokers = {number: f"{broker.host}:{broker.port}" for number, broker in metadata.brokers.items()}
        controller = metadata.controller_id if metadata.controller_id >= 0 else None
        return {"controller": controller, "brokers": brokers}

    def close(self) -> None:
        self._admin = None
