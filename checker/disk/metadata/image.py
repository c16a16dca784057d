"""The state of a cluster according to its metadata log: replaying the log's records in order produces it.

A snapshot is the state at one offset, written as records. A record of a type or version that is not known is counted
and does not change the state. Source: KIP-631; Kafka's metadata module (image, PartitionRegistration).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from harness.protocol import metadata_schemas as types
from harness.protocol.metadata_records import MetadataRecord

RECOVERING: Final = 1  # leader recovery state after an unclean election
NO_LEADER: Final = -1
OF_TOPIC: Final = 2  # type of resource of a topic's configuration

TOPICS: Final = "topic"  # topic id -> name
PARTITIONS: Final = "partition"  # (topic id, number) -> Partition
CONFIGS: Final = "configuration"  # (type of resource, resource, setting) -> value
FEATURES: Final = "feature"  # name -> level
BROKERS: Final = "broker"  # id -> registration
CONTROLLERS: Final = "controller"  # id -> incarnation
OTHERS: Final = "other"  # name -> number
KINDS: Final = (TOPICS, PARTITIONS, CONFIGS, FEATURES, BROKERS, CONTROLLERS, OTHERS)

Fields = Mapping[str, Any]


class Partition(NamedTuple):
    """The state of a partition. Lists of replicas contain broker ids."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    recovery: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


class Change(NamedTuple):
    """A record that changed a partition. `before` is None if the record created it."""

    offset: int
    topic_id: str
    number: int
    before: Partition | None
    after: Partition


@dataclass(slots=True)
class Image:
    """The state. `parts`: for each of KINDS, the state as key -> value.

    unknown  how many records were not decoded, by (type, version)
    pending  records of an open transaction, with offsets; None: no transaction is open
    """

    parts: dict[str, dict[Any, Any]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    unknown: Counter[tuple[int, int]] = field(default_factory=Counter)
    pending: list[tuple[int, MetadataRecord]] | None = None

    @property
    def complete(self) -> bool:
        """Whether no record was skipped that belongs to the state."""
        return not any(kind in types.SCHEMAS for kind, _ in self.unknown)

    def apply(self, offset: int, record: MetadataRecord) -> list[Change]:
        """Replays the record at an offset. Returns the changes of partitions, at the end of their transaction."""
        if record.type == types.BEGIN_TRANSACTION:
            self.pending = []
        elif record.type == types.ABORT_TRANSACTION:
            self.pending = None
        elif record.type == types.END_TRANSACTION:
            ended, self.pending = self.pending or [], None
            return [change for at, one in ended for change in self._apply(at, one)]
        elif self.pending is not None:
            self.pending.append((offset, record))
        else:
            return self._apply(offset, record)
        return []

    def _apply(self, offset: int, record: MetadataRecord) -> list[Change]:
        fields = record.fields
        if fields is None:
            self.unknown[record.type, record.version] += 1
        elif record.type in (types.PARTITION, types.PARTITION_CHANGE):
            return self._partition(offset, record.type, fields)
        elif record.type in _EFFECTS:
            _EFFECTS[record.type](self.parts, fields)
        return []

    def _partition(self, offset: int, kind: int, fields: Fields) -> list[Change]:
        at = (fields["topic_id"], fields["partition"])
        before: Partition | None = self.parts[PARTITIONS].get(at)
        if kind == types.PARTITION:
            after = _created(fields)
        elif before is None:  # its creation is not in the log that was read
            return []
        else:
            after = changed(before, fields)
        self.parts[PARTITIONS][at] = after
        return [Change(offset, *at, before, after)]


def of_snapshot(records: tuple[MetadataRecord, ...]) -> Image:
    """Returns the state that a snapshot contains."""
    image = Image()
    for record in records:
        image.apply(-1, record)
    return image


def differences(one: Image, other: Image) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yields (kind, key, value in `one`, value in `other`) where the states differ; None: no value."""
    for kind in KINDS:
        here, there = one.parts[kind], other.parts[kind]
        if here != there:
            keys = sorted((key for key in {*here, *there} if here.get(key) != there.get(key)), key=str)
            for key in keys:
                yield kind, key, here.get(key), there.get(key)


def _created(fields: Fields) -> Partition:
    return Partition(
        replicas=fields["replicas"] or (),
        isr=fields["isr"] or (),
        removing=fields["removing"] or (),
        adding=fields["adding"] or (),
        leader=fields["leader"],
        recovery=fields["recovery"],
        leader_epoch=fields["leader_epoch"],
        partition_epoch=fields["partition_epoch"],
        elr=fields.get("elr") or (),
        last_known_elr=fields.get("last_known_elr") or (),
    )


def changed(before: Partition, fields: Fields) -> Partition:
    """Returns the state of a partition after a change. Naming a leader, even the same one, begins a leader epoch."""

    def new(name: str) -> tuple[int, ...]:
        value = fields.get(name)
        kept: tuple[int, ...] = getattr(before, name)
        return kept if value is None else value

    keeps = fields["leader"] == types.NO_CHANGE
    return Partition(
        replicas=new("replicas"),
        isr=new("isr"),
        removing=new("removing"),
        adding=new("adding"),
        leader=before.leader if keeps else fields["leader"],
        recovery=before.recovery if fields["recovery"] < 0 else fields["recovery"],
        leader_epoch=before.leader_epoch + (not keeps),
        partition_epoch=before.partition_epoch + 1,
        elr=new("elr"),
        last_known_elr=new("last_known_elr"),
    )


# --- other records ------------------------------------------------------------------------------------

Parts = dict[str, dict[Any, Any]]


def _remove_topic(parts: Parts, fields: Fields) -> None:
    topic_id = fields["topic_id"]
    name = parts[TOPICS].pop(topic_id, None)
    for at in [at for at in parts[PARTITIONS] if at[0] == topic_id]:
        del parts[PARTITIONS][at]
    for at in [at for at in parts[CONFIGS] if at[:2] == (OF_TOPIC, name)]:
        del parts[CONFIGS][at]


def _config(parts: Parts, fields: Fields) -> None:
    at = (fields["resource_type"], fields["resource"], fields["name"])
    if fields["value"] is None:
        parts[CONFIGS].pop(at, None)
    else:
        parts[CONFIGS][at] = fields["value"]


def _feature(parts: Parts, fields: Fields) -> None:
    if fields["level"]:
        parts[FEATURES][fields["name"]] = fields["level"]
    else:
        parts[FEATURES].pop(fields["name"], None)


def _register_broker(parts: Parts, fields: Fields) -> None:
    parts[BROKERS][fields["broker"]] = {
        "broker_epoch": fields["broker_epoch"],
        "incarnation": fields["incarnation"],
        "endpoints": sorted((one["name"], one["host"], one["port"]) for one in fields["endpoints"]),
        "rack": fields["rack"],
        "fenced": fields["fenced"],
        "in_controlled_shutdown": fields.get("in_controlled_shutdown", False),
    }


def _fence(fenced: bool) -> Callable[[Parts, Fields], None]:
    def apply(parts: Parts, fields: Fields) -> None:
        _registered(parts, fields["broker"], fenced=fenced)

    return apply


def _change_broker(parts: Parts, fields: Fields) -> None:
    changes = {"fenced": fields["fenced"] > 0} if fields["fenced"] else {}
    if fields.get("in_controlled_shutdown"):
        changes["in_controlled_shutdown"] = True
    _registered(parts, fields["broker"], **changes)


def _registered(parts: Parts, broker: int, **changes: bool) -> None:
    if broker in parts[BROKERS]:
        parts[BROKERS][broker] = {**parts[BROKERS][broker], **changes}


def _clear_elr(parts: Parts, fields: Fields) -> None:
    """Clears the eligible leader replicas of a topic, or of all topics if it is not named."""
    cleared = {"leader": types.NO_CHANGE, "recovery": -1, "elr": (), "last_known_elr": ()}
    for at, one in parts[PARTITIONS].items():
        if (one.elr or one.last_known_elr) and fields["topic"] in ("", parts[TOPICS].get(at[0])):
            parts[PARTITIONS][at] = changed(one, cleared)


def _number(parts: Parts, name: str, value: int) -> None:
    """Sets a number. The initial value, 0 or less, is the same as no value."""
    if value > 0:
        parts[OTHERS][name] = value
    else:
        parts[OTHERS].pop(name, None)


_EFFECTS: Final[Mapping[int, Callable[[Parts, Fields], Any]]] = {
    types.TOPIC: lambda parts, fields: parts[TOPICS].update({fields["topic_id"]: fields["name"]}),
    types.REMOVE_TOPIC: _remove_topic,
    types.CONFIG: _config,
    types.FEATURE_LEVEL: _feature,
    types.REGISTER_BROKER: _register_broker,
    types.UNREGISTER_BROKER: lambda parts, fields: parts[BROKERS].pop(fields["broker"], None),
    types.FENCE_BROKER: _fence(True),
    types.UNFENCE_BROKER: _fence(False),
    types.BROKER_CHANGE: _change_broker,
    types.REGISTER_CONTROLLER: lambda parts, fields: parts[CONTROLLERS].update(
        {fields["controller"]: fields["incarnation"]}
    ),
    types.UNREGISTER_CONTROLLER: lambda parts, fields: parts[CONTROLLERS].pop(fields["controller"], None),
    types.PRODUCER_IDS: lambda parts, fields: _number(parts, "next producer id", fields["next_producer_id"]),
    types.MIGRATION_STATE: lambda parts, fields: _number(parts, "migration state", fields["state"]),
    types.CLEAR_ELR: _clear_elr,
}
