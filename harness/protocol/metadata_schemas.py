"""The fields of the records of KRaft's metadata log that the harness decodes, by record type. Data only.

All versions are flexible (KIP-482): strings and arrays are compact, and every structure ends with tagged fields. A
version that is newer than `Schema.newest` is not decoded, because its fields are not known. Source: the schemas in
Kafka's metadata module up to 4.4 (KIP-631; KIP-841, KIP-858, KIP-919, KIP-966, KIP-1066 for later fields).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

REGISTER_BROKER: Final = 0
UNREGISTER_BROKER: Final = 1
TOPIC: Final = 2
PARTITION: Final = 3
CONFIG: Final = 4
PARTITION_CHANGE: Final = 5
FENCE_BROKER: Final = 7
UNFENCE_BROKER: Final = 8
REMOVE_TOPIC: Final = 9
FEATURE_LEVEL: Final = 12
PRODUCER_IDS: Final = 15
BROKER_CHANGE: Final = 17
NO_OP: Final = 20
MIGRATION_STATE: Final = 21
BEGIN_TRANSACTION: Final = 23
END_TRANSACTION: Final = 24
ABORT_TRANSACTION: Final = 25
REGISTER_CONTROLLER: Final = 27
CLEAR_ELR: Final = 28
UNREGISTER_CONTROLLER: Final = 29

NO_CHANGE: Final = -2  # `leader` of a change that keeps the leader


class Field(NamedTuple):
    """A field of a record.

    type     a name of a type in `harness.protocol.metadata_records`; "[]" before it: an array; fields: an array of
             structures with these fields
    since    first version that has the field
    tag      number of a tagged field; None: not tagged
    default  value of a tagged field that is absent
    """

    name: str
    type: str | tuple[Field, ...]
    since: int = 0
    tag: int | None = None
    default: Any = None


Fields: TypeAlias = tuple[Field, ...]


class Schema(NamedTuple):
    """The fields of a record type, and the newest version that they describe."""

    newest: int
    fields: Fields


_ENDPOINTS: Final = (
    Field("name", "string"),
    Field("host", "string"),
    Field("port", "uint16"),
    Field("security_protocol", "int16"),
)
_FEATURES: Final = (Field("name", "string"), Field("min", "int16"), Field("max", "int16"))
_FENCING: Final = Schema(0, (Field("broker", "int32"), Field("broker_epoch", "int64")))

SCHEMAS: Final[Mapping[int, Schema]] = {
    REGISTER_BROKER: Schema(
        4,
        (
            Field("broker", "int32"),
            Field("migrating", "bool", since=2),
            Field("incarnation", "uuid"),
            Field("broker_epoch", "int64"),
            Field("endpoints", _ENDPOINTS),
            Field("features", _FEATURES),
            Field("rack", "string"),
            Field("fenced", "bool"),
            Field("in_controlled_shutdown", "bool", since=1),
        ),
    ),
    UNREGISTER_BROKER: _FENCING,
    TOPIC: Schema(0, (Field("name", "string"), Field("topic_id", "uuid"))),
    PARTITION: Schema(
        2,
        (
            Field("partition", "int32"),
            Field("topic_id", "uuid"),
            Field("replicas", "[]int32"),
            Field("isr", "[]int32"),
            Field("removing", "[]int32"),
            Field("adding", "[]int32"),
            Field("leader", "int32"),
            Field("recovery", "int8", tag=0, default=0),
            Field("leader_epoch", "int32"),
            Field("partition_epoch", "int32"),
            Field("directories", "[]uuid", since=1),
            Field("elr", "[]int32", since=2, tag=1),
            Field("last_known_elr", "[]int32", since=2, tag=2),
        ),
    ),
    PARTITION_CHANGE: Schema(
        2,
        (
            Field("partition", "int32"),
            Field("topic_id", "uuid"),
            Field("isr", "[]int32", tag=0),
            Field("leader", "int32", tag=1, default=NO_CHANGE),
            Field("replicas", "[]int32", tag=2),
            Field("removing", "[]int32", tag=3),
            Field("adding", "[]int32", tag=4),
            Field("recovery", "int8", tag=5, default=-1),
            Field("elr", "[]int32", since=2, tag=6),
            Field("last_known_elr", "[]int32", since=2, tag=7),
            Field("directories", "[]uuid", since=1, tag=8),
        ),
    ),
    CONFIG: Schema(
        0,
        (
            Field("resource_type", "int8"),
            Field("resource", "string"),
            Field("name", "string"),
            Field("value", "string"),
        ),
    ),
    FENCE_BROKER: _FENCING,
    UNFENCE_BROKER: _FENCING,
    REMOVE_TOPIC: Schema(0, (Field("topic_id", "uuid"),)),
    FEATURE_LEVEL: Schema(0, (Field("name", "string"), Field("level", "int16"))),
    PRODUCER_IDS: Schema(
        0, (Field("broker", "int32"), Field("broker_epoch", "int64"), Field("next_producer_id", "int64"))
    ),
    BROKER_CHANGE: Schema(
        3,
        (
            Field("broker", "int32"),
            Field("broker_epoch", "int64"),
            Field("fenced", "int8", tag=0, default=0),
            Field("in_controlled_shutdown", "int8", since=1, tag=1, default=0),
        ),
    ),
    NO_OP: Schema(0, ()),
    MIGRATION_STATE: Schema(0, (Field("state", "int8"),)),
    BEGIN_TRANSACTION: Schema(0, ()),
    END_TRANSACTION: Schema(0, ()),
    ABORT_TRANSACTION: Schema(0, ()),
    REGISTER_CONTROLLER: Schema(
        0,
        (
            Field("controller", "int32"),
            Field("incarnation", "uuid"),
            Field("migration_ready", "bool"),
            Field("endpoints", _ENDPOINTS),
            Field("features", _FEATURES),
        ),
    ),
    CLEAR_ELR: Schema(0, (Field("topic", "string"),)),
    UNREGISTER_CONTROLLER: Schema(0, (Field("controller", "int32"),)),
}
