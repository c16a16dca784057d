"""The settings of a client: plain JSON data from the plan, validated, with defaults.

If a setting may be None, None means the library's own default, unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.model.racks import rack

TRANSACTION_TIMEOUT_S: Final = 10.0
SESSION_TIMEOUT_S: Final = 6.0
ISOLATION: Final = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one process's client.

    run                   run id, with which the names of the run's topics begin
    process               process number
    partitions_per_topic  P: key k is partition k mod P of the topic <run>-<k div P>
    partitions_max        for topics that are deleted and created again: key k then stands for partition
                          (k mod P) mod partitions_max, so that the records of each incarnation have keys of their own.
                          None: topics are created once
    incarnation           how often the run's topics have been created again
    retries               None: the library's default; 0: off
    op_timeout_s          time after which the harness abandons an op; the client's own timeouts are a little shorter
    logical_offsets       start reading at a logical offset, such as BEGINNING, instead of offset 0: see `reader`
    poll_ms               how long a poll waits for its first record
    records_max           how many records a poll returns at most
    record_size           shorter payloads are padded to this many bytes
    pipelined             do not wait for a delivery report between two sends of an op, even outside transactions
    reuse_producers       after a send with an unknown outcome, the slot's next process continues with the same producer
    rewind                after a failed op, seek back to the first records that the op had read
    racks                 number of racks over which clients are spread; 0: clients are in no rack
    record_keys           number of record keys in each partition; 0: records have no key
    sub_pattern           subscribe with a regular expression that matches all topics of the run
    group                 consumer group; None: <run>-group
    connection            librdkafka's connection properties, including secrets
    transactional_id      None: <run>-<process>; with this id a new process does not fence the one that it replaces,
                          whose open transaction ends by the transaction timeout
    """

    bootstrap: str
    run: str
    process: int = 0
    library: str = "confluent"
    partitions_per_topic: int = 4
    partitions_max: int | None = None
    incarnation: int = 0
    acks: str = "all"
    retries: int | None = None
    idempotence: bool = False
    txn: bool = False
    isolation_level: str = "read_committed"
    auto_offset_reset: str = "earliest"
    auto_commit: bool = False
    logical_offsets: bool = False
    delivery_timeout_s: float | None = None
    request_timeout_s: float | None = None
    op_timeout_s: float = 10.0
    poll_ms: float = 100.0
    records_max: int = 500
    record_size: int = 0
    pipelined: bool = False
    reuse_producers: bool = False
    rewind: bool = True
    group: str | None = None
    racks: int = 0
    record_keys: int = 0
    sub_pattern: bool = False
    session_timeout_s: float = SESSION_TIMEOUT_S
    transaction_timeout_s: float = TRANSACTION_TIMEOUT_S
    transactional_id: str | None = None
    producer_config: Mapping[str, Any] = field(default_factory=dict)
    consumer_config: Mapping[str, Any] = field(default_factory=dict)
    connection: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def patience_s(self) -> float:
        """How long the client may take for an op, in seconds.

        This is less than `op_timeout_s`, because the harness ignores a later completion.
        """
        return max(self.op_timeout_s - 0.5, 0.8 * self.op_timeout_s)

    def patient(self) -> Settings:
        """Returns a copy of these settings for a producer that tries as long as an op may take.

        The copy has the library's default number of retries, long timeouts, and none of the user's producer properties.
        """
        return replace(
            self,
            retries=None,
            delivery_timeout_s=self.patience_s,
            request_timeout_s=self.patience_s,
            producer_config={},
        )

    @property
    def of_rack(self) -> dict[str, str]:
        """The consumer property that names the client's rack, from whose replicas the consumer then reads (KIP-392)."""
        return {"client.rack": rack(self.process, self.racks)} if self.racks else {}

    @property
    def group_id(self) -> str:
        return self.group or f"{self.run}-group"

    @property
    def retries_off(self) -> bool:
        given = self.producer_config.get("message.send.max.retries", self.producer_config.get("retries", self.retries))
        return given is not None and int(given) == 0

    def partition(self, key: int) -> tuple[str, int]:
        """Returns the (topic, partition) for which a key stands."""
        number, place = divmod(key, self.partitions_per_topic)
        return f"{self.run}-{number}", place % (self.partitions_max or self.partitions_per_topic)

    def key(self, topic: str, partition: int) -> int | None:
        """Returns the key that stands for a partition.

        Returns None if the topic does not belong to the run, or the partition was added after the topic's creation.
        """
        run, dash, number = topic.rpartition("-")
        if not dash or run != self.run or not number.isdecimal() or partition >= self.partitions_per_topic:
            return None
        return int(number) * self.partitions_per_topic + self.incarnation * (self.partitions_max or 0) + partition


_NAMES: Final = frozenset(each.name for each in fields(Settings))


def parse_settings(config: Mapping[str, Any]) -> Settings:
    """Converts plain JSON data to `Settings`. Ignores unknown fields, which are settings of other roles.

    Raises BadInput if a field is missing or invalid.
    """
    for name in ("bootstrap", "run"):
        if not config.get(name):
            raise BadInput(f"client settings: `{name}` is missing; every client needs it")
    fields_given = {name: config[name] for name in _NAMES & config.keys()}
    for name in ("producer_config", "consumer_config"):
        fields_given[name] = dict(config.get(name) or {})
    fields_given["connection"] = dict(config.get("connection") or {})
    fields_given["acks"] = str(config.get("acks", "all"))
    parsed = Settings(**fields_given)
    problems = {
        "partitions_per_topic": parsed.partitions_per_topic < 1,
        "op_timeout_s": parsed.op_timeout_s <= 0,
        "poll_ms": parsed.poll_ms < 0,
        "records_max": parsed.records_max < 1,
        "isolation_level": parsed.isolation_level not in ISOLATION,
    }
    for name, wrong in problems.items():
        if wrong:
            raise BadInput(f"client settings: {name}={getattr(parsed, name)!r} is not a valid value")
    return parsed
