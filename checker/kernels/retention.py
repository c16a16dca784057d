"""Decides which log starts are explained by retention (age or size), or by deletion up to the end of the log.

Age: a broker deletes a segment once its largest timestamp is older than the limit. A log start is explained if, when it
was seen, all records below it had been sent longer ago than the limit. Timestamps are set by producers (CreateTime) and
are never older than the send. Brokers decide by their own clocks, so if a fault changed clocks, age explains nothing.

Size: a broker deletes the oldest segments of a log while the rest of the log is at least as large as the limit. A log
start is therefore explained if the log from this offset to its end is at least as large as the limit.

With the cleanup policy `compact` alone, neither limit applies to a topic. The age limit is the topic's retention.ms or,
if it is not set, the first of the broker's settings log.retention.ms, log.retention.minutes and log.retention.hours
that is set. By default, the age limit is a week, and there is no limit of size. If a fault set retention.ms for a
topic, this limit applies until the fault ends.

Deletion up to the end of the log (a DeleteRecords request with offset -1, KIP-107) explains the removal of every record
that was sent before the request completed.

Source: Kafka documentation, topic and broker configurations (retention.ms, retention.bytes, cleanup.policy,
message.timestamp.type).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from checker.kernels.bucket_of_keys import Bucket
from checker.kernels.log_starts_and_ends import FOREVER, MovedStart, moved_starts
from checker.tables.packing import Bools, Ints
from harness.model.check_options import Settings

_AGES: Final = (
    ("retention.ms", 1),
    ("log.retention.ms", 1),
    ("log.retention.minutes", 60_000),
    ("log.retention.hours", 3_600_000),
)
_SIZES: Final = ("retention.bytes", "log.retention.bytes")
_WEEK_MS: Final = 168 * 3_600_000
_CHANGE, _BACK = "config-change", "config-back"


def _number(text: Any) -> int | None:
    """Returns a limit as a number. Returns None if there is no limit (-1), or if the text is not a number."""
    try:
        value = int(text)
    except (TypeError, ValueError):
        return None
    return value if value >= 0 else None


def age_limit_ns(settings: Settings) -> int | None:
    """Returns the age in ns at which brokers delete a segment; None if there is no limit."""
    for name, factor_ms in _AGES:
        if name in settings.broker:
            limit = _number(settings.broker[name])
            return None if limit is None else limit * factor_ms * 1_000_000
    return _WEEK_MS * 1_000_000


def size_limit(settings: Settings) -> int | None:
    """Returns how many bytes of a log must remain when brokers delete a segment by size; None if there is no limit."""
    named = [name for name in _SIZES if name in settings.broker]
    return _number(settings.broker[named[0]]) if named else None


def _values(nemesis: pa.Table) -> list[tuple[int, str, str, dict[str, Any]]]:
    """Returns (time, f, fault, value) of the completion of each nemesis operation whose value is a mapping."""
    found = []
    names = ("time_ns", "f", "fault", "phase", "value")
    for time_ns, f, fault, phase, text in zip(*(nemesis.column(name).to_pylist() for name in names), strict=True):
        value = orjson.loads(text) if phase != "invoke" else None
        if isinstance(value, dict):
            found.append((time_ns, f, fault, value))
    return found


def changed_ages(nemesis: pa.Table) -> list[tuple[int, int]]:
    """Returns (age limit, time at which the fault ended), in ns, for each fault that set retention.ms for the topics.

    The time is FOREVER if the fault did not end.
    """
    found = []
    values = _values(nemesis) if _CHANGE in nemesis.column("f").to_pylist() else []
    for place, (_, f, fault, value) in enumerate(values):
        settings = value.get("settings")
        limit = _number(settings.get("retention.ms")) if f == _CHANGE and isinstance(settings, dict) else None
        if limit is not None:
            later = [row for row in values[place:] if row[1:3] == (_BACK, fault)]
            ended = [time_ns for time_ns, _, _, back in later if "not_back" not in back]
            found.append((limit * 1_000_000, ended[0] if ended else FOREVER))
    return found


def clocks_changed(nemesis: pa.Table) -> bool:
    """Returns whether a fault changed the clock of a broker.

    Brokers decide by their clocks whether records are too old.
    """
    return any(str(fault).startswith("clock") for fault in nemesis.column("fault").to_pylist())


def _sent_last(bucket: Bucket, moved: list[MovedStart], rank: Ints) -> Ints:
    """Returns, for each log in `moved`, when the latest of the records below its log start was sent.

    Records below the offset of a DeleteRecords request are not considered. `rank` is the index of each log's key in
    `Data.keys`.
    """
    orders, data = bucket.versions, bucket.data
    start = np.zeros(len(data.keys), np.int64)
    requested = np.zeros(len(data.keys), np.int64)
    start[rank], requested[rank] = [one.start for one in moved], [one.requested for one in moved]
    key = data.pair_key[orders.entry_pair]
    writer = data.writer_row[orders.entry_pair]
    rows = (writer >= 0) & (orders.entry_offset < start[key]) & (orders.entry_offset >= requested[key])
    youngest = np.zeros(len(data.keys), np.int64)
    np.maximum.at(youngest, key[rows], bucket.sends.invoke_ns[writer[rows]])
    return youngest[rank]


def _deletes(bucket: Bucket) -> bool:
    """Returns whether brokers delete records by age and size at any time of the run.

    The result is True if a fault sets the cleanup policy to compact, because brokers may delete records before and
    after this fault.
    """
    faults = bucket.small.nemesis.column("fault").to_pylist()
    changed = any(str(fault).startswith("config-change:compact") for fault in faults)
    return changed or "delete" in (bucket.options.settings.cleanup_policy or "delete")


def unseen_deletions(bucket: Bucket) -> Bools:
    """Returns, for each value, whether a broker may have deleted it by age or size without the history showing it.

    The history does not show it if the start of the value's log was never checked.
    """
    data, settings = bucket.data, bucket.options.settings
    result = np.zeros(len(data.pair_key), np.bool_)
    checked = bucket.small.ends.column("key").to_numpy()
    unseen = ~np.isin(data.keys, checked)
    if not bool(unseen.any()) or not _deletes(bucket):
        return result
    ages = [limit for limit, _ in changed_ages(bucket.small.nemesis)]
    if (limit := age_limit_ns(settings)) is not None:
        ages.append(limit)
    last_ns = bucket.small.meta["max_ns"]
    by_size = size_limit(settings) is not None
    if by_size or min(ages, default=FOREVER) <= last_ns:
        written = data.writer_row >= 0
        sent_ns = np.zeros(len(data.pair_key), np.int64)
        sent_ns[written] = bucket.sends.invoke_ns[data.writer_row[written]]
        result = unseen[data.pair_key] & (by_size | (last_ns - sent_ns >= min(ages, default=FOREVER)))
    return result


def explained(bucket: Bucket) -> list[int]:
    """Returns the codes of the keys whose log start is explained.

    The explanation is retention (age or size), or a DeleteRecords request up to the end of the log.
    """
    moved = moved_starts(bucket.small.ends, bucket.small.deletions)
    ranks = bucket.key_ranks(np.array([one.key for one in moved], np.int64))
    moved = [one for one, rank in zip(moved, ranks.tolist(), strict=True) if rank >= 0]
    ranks = ranks[ranks >= 0]
    if not moved:
        return []
    settings, nemesis, deletes = bucket.options.settings, bucket.small.nemesis, _deletes(bucket)
    limit, least = age_limit_ns(settings), size_limit(settings)
    ages, clocks = changed_ages(nemesis), clocks_changed(nemesis)
    if limit is not None and deletes:
        ages.append((limit, FOREVER))
    _, end, _ = bucket.ends.of(bucket.data.keys[ranks])
    sent_last = _sent_last(bucket, moved, ranks).tolist()
    found = []
    for one, youngest, last in zip(moved, sent_last, end.tolist(), strict=True):
        by_age = not clocks and any(youngest <= min(one.seen_ns, until) - age for age, until in ages)
        size = settings.record_bytes
        by_size = deletes and least is not None and size is not None and (last - one.start) * size >= least
        if by_age or by_size or youngest < one.emptied_ns:
            found.append(one.key)
    return found
