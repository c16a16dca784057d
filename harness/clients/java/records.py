"""Parses the text of a Java list of records. This text transfers all records of a poll in a single call."""

from __future__ import annotations

import re
from typing import Final

from harness.clients.client_protocols import Record

_RECORD: Final = re.compile(
    r"ConsumerRecord\(topic = (\S+), partition = (\d+), leaderEpoch = [^,]*, offset = (\d+), \w+ = -?\d+, "
    r"(?:deliveryCount = ([^,]*), )?serialized key size = -?\d+, serialized value size = (-?\d+), "
    r"headers = RecordHeaders\(headers = \[[^]]*\], isReadOnly = \w+\), key = (?:null|\d+), value = "
)


def parsed(text: str) -> list[Record]:
    """Returns the records in the text of a Java list of ConsumerRecord.

    Values are ISO 8859-1 text, keys are numbers or null. Values may contain any text, because the size of
    each value precedes it. Raises ValueError.
    """
    records = []
    at = 1
    while at < len(text) - 1:
        matched = _RECORD.match(text, at)
        if matched is None:
            raise ValueError(f"not a record: {text[at : at + 80]!r}")
        size = int(matched[5])
        end = matched.end() + (len("null") if size < 0 else size)
        value = None if size < 0 else text[matched.end() : end].encode("latin-1")
        deliveries = int(matched[4]) if (matched[4] or "").isdecimal() else None
        records.append(Record(matched[1], int(matched[2]), int(matched[3]), value, deliveries))
        at = end + len("), ")
    return records
