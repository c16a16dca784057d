"""Records of a real metadata log and its snapshots, against Kafka's own dump; unknown and truncated records."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from harness.protocol import metadata_records, metadata_schemas
from harness.protocol.flaws import Unreadable
from harness.protocol.metadata_records import MetadataRecord, decode
from tests.unit.checker.disk import metadata_copy

DUMP: Final = metadata_copy.ARCHIVE.with_name("4.1.1.json.gz")
# Fields whose names differ from Kafka's by more than spelling.
NAMES: Final = {
    "broker": {"brokerId", "id"},
    "broker_epoch": {"brokerEpoch", "epoch"},
    "partition": {"partitionId"},
    "controller": {"controllerId"},
    "migrating": {"isMigratingZkBroker"},
    "incarnation": {"incarnationId"},
    "migration_ready": {"zkMigrationReady"},
    "removing": {"removingReplicas"},
    "adding": {"addingReplicas"},
    "recovery": {"leaderRecoveryState"},
    "elr": {"eligibleLeaderReplicas"},
    "resource": {"resourceName"},
    "level": {"featureLevel"},
    "min": {"minSupportedVersion"},
    "max": {"maxSupportedVersion"},
    "endpoints": {"endPoints"},
}


def plain(fields: Any) -> Any:
    """Returns decoded fields as Kafka's dump names them, without those that have default values."""
    if isinstance(fields, tuple):
        return [plain(one) for one in fields]
    if not hasattr(fields, "items"):
        return fields
    named = {}
    for name, value in fields.items():
        usual = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
        named[min(NAMES.get(name, {usual}))] = plain(value)
    return named


def pairs(folder: Path) -> Iterator[tuple[MetadataRecord, dict[str, Any]]]:
    """Yields (decoded record, Kafka's dump of it)."""
    copy = metadata_copy.copied(folder)
    for file, rows in json.loads(gzip.decompress(DUMP.read_bytes())).items():
        content = (copy.log("n1").parent / file).read_bytes()
        mine = [(offset, decode(value)) for _, offset, value in metadata_copy.values(content)]
        assert [offset for offset, _ in mine] == [offset for offset, _ in rows]
        yield from zip([record for _, record in mine], [payload for _, payload in rows], strict=True)


def test_records_are_those_of_kafkas_dump(tmp_path: Path) -> None:
    checked = set()
    for record, payload in pairs(tmp_path):
        name = payload["type"].removesuffix("_RECORD").replace("BROKER_REGISTRATION_CHANGE", "BROKER_CHANGE")
        assert getattr(metadata_schemas, name) == record.type
        assert record.fields is not None and record.version == payload["version"]
        mine = plain(record.fields)
        # Kafka's dump leaves out tagged fields with default values. Fields that nothing uses are not decoded.
        expected = {key: value for key, value in payload["data"].items() if key in mine}
        assert {key: value for key, value in mine.items() if key in expected} == expected
        assert {key for key in payload["data"] if key not in mine} <= {"logDirs", "name"}
        assert all(mine[key] in (None, 0, -1, -2) for key in mine.keys() - expected.keys())
        checked.add(name)
    assert checked >= {"TOPIC", "PARTITION", "PARTITION_CHANGE", "CONFIG", "REGISTER_BROKER", "BROKER_CHANGE"}


def test_unknown_types_and_versions_are_not_decoded() -> None:
    assert decode(bytes([1, 99, 1, 0])) == MetadataRecord(99, 1, None)
    newer = metadata_schemas.SCHEMAS[metadata_schemas.TOPIC].newest + 1
    assert decode(bytes([1, metadata_schemas.TOPIC, newer, 0])).fields is None


def test_an_unknown_tagged_field_is_skipped() -> None:
    level = bytes([1, metadata_schemas.FEATURE_LEVEL, 0]) + b"\x02a\x00\x03" + b"\x01\x07\x02xx"
    assert decode(level).fields == {"name": "a", "level": 3}


def test_a_record_that_does_not_match_its_schema_is_refused(tmp_path: Path) -> None:
    content = metadata_copy.copied(tmp_path).log("n1").read_bytes()
    for _, _, value in list(metadata_copy.values(content))[:40]:
        for length in range(3, len(value)):
            with pytest.raises(Unreadable):
                decode(value[:length])
        with pytest.raises(Unreadable, match="unexpected bytes"):
            decode(value + b"\0")
    with pytest.raises(Unreadable, match="frame version 0"):
        decode(bytes([0, 2, 0]))


def test_the_new_leader_of_a_truncated_control_record() -> None:
    record = metadata_records.Record(0, 0, b"\0\0\0\2", b"\0\0\0", ())
    assert metadata_records.control_type(record) == metadata_records.LEADER_CHANGE
    with pytest.raises(Unreadable):
        metadata_records.new_leader(record)
    with pytest.raises(Unreadable):
        metadata_records.control_type(record._replace(key=None))
