"""Asks brokers for the leaders, start offsets and end offsets of the partitions that a client uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.clients.client_protocols import Admin
from harness.clients.reader import Reader
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError

WithinS = Callable[[], float]
"""Returns the timeout of the next request, in seconds."""


def key_facts(keys: Iterable[int], settings: Settings, admin: Admin, within_s: WithinS) -> list[list[Any]]:
    """Returns [[key, facts], ...], where facts are the key's leader, ISR, log start offset and high watermark.

    Raises ClientError. `within_s`: returns the timeout of the next request, in seconds.
    """
    partitions = {key: settings.partition(key) for key in keys}
    rows = admin.partitions(sorted({topic for topic, _ in partitions.values()}), within_s())
    led = {(row["topic"], row["partition"]): row for row in rows}
    led_partitions = [at for at in partitions.values() if at in led and led[at]["leader"] is not None]
    ends = admin.offsets(led_partitions, "read_uncommitted", within_s())
    value = []
    for key, at in partitions.items():
        row, (start, end) = led.get(at, {}), ends.get(at, (None, None))
        facts = {"leader": row.get("leader"), "isr": row.get("isr", []), "start": start, "end": end}
        value.append([key, facts])
    return value


def final_ends(reader: Reader, settings: Settings, admin: Callable[[], Admin], within_s: WithinS) -> dict[str, Any]:
    """Returns the reader's positions, and the end offsets that brokers report now, after the poll.

    The end offsets come from ListOffsets at the consumer's isolation level, so under read_committed they are last
    stable offsets. If brokers do not answer, the end offsets are omitted. `within_s` returns the timeout of the next
    request, in seconds.

    An open transaction keeps the last stable offset below committed records, so a reader at the last stable offset has
    not read everything. Therefore a key's end offset is omitted unless its last stable offset equals its high
    watermark.
    """
    facts: dict[str, Any] = {"positions": [[key, at] for key, at in reader.positions().items()]}
    assigned, isolation = reader.assigned(), settings.isolation_level
    try:
        found = admin().offsets(assigned, isolation, within_s())
        # Requested second: a high watermark only grows, so if both are equal, no transaction was open.
        high = found
        if isolation == "read_committed":
            high = admin().offsets(assigned, "read_uncommitted", within_s())
    except ClientError as error:
        reader.notes.append(f"ends: {error}")
        return facts
    ends: list[list[int]] = []
    behind: list[str] = []
    for at, (start, end) in found.items():
        key = settings.key(*at)
        if key is None:
            continue
        if end < high[at][1]:
            behind.append(f"key {key} {end} < {high[at][1]}")
        else:
            ends.append([key, start, end])
    if behind:
        reader.notes.append(
            f"ends: a transaction is open, so the last stable offset is below the high watermark: {', '.join(behind)}"
        )
    facts["ends"] = sorted(ends)
    return facts
