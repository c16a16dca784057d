"""What brokers say of the logs that a client works on: leaders, starts and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.clients.client_protocols import Admin
from harness.clients.reader import Reader
from harness.clients.settings import Settings
from harness.protocol.error_codes import ClientError

WithinS = Callable[[], float]
"""The timeout of the next question, in seconds."""


def key_facts(keys: Iterable[int], settings: Settings, admin: Admin, within_s: WithinS) -> list[list[Any]]:
    """[key, facts] of each key: leader, in-sync replicas, log start and high watermark. Raises ClientError."""
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
    """Positions, and the logs' ends as the broker says after the poll: ListOffsets at the consumer's
    isolation level, so the last stable offset under read_committed. Without an answer, no ends.

    An open transaction holds the last stable offset below committed records. A reader there has not
    caught up, so a key has no end until its last stable offset is its high watermark."""
    facts: dict[str, Any] = {"positions": [[key, at] for key, at in reader.positions().items()]}
    assigned, isolation = reader.assigned(), settings.isolation_level
    try:
        found = admin().offsets(assigned, isolation, within_s())
        # Asked for second: a high watermark only grows, so if they are equal, no transaction was open.
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
            f"ends: last stable offset below the high watermark, a transaction is open: {', '.join(behind)}"
        )
    facts["ends"] = sorted(ends)
    return facts
