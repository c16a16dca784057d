"""The share check: judges what share groups (KIP-932) delivered, and how acknowledgements were answered.

Searches each bucket of keys for those anomalies of the catalogue that have a function `find_share`. The queue check
judges the log itself. The statistics show how much a valid verdict says: how often records were delivered, and why they
were delivered again. The verdict is unknown if nothing was delivered, or if the evidence for a rule is incomplete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from checker.anomalies.catalogue import CATALOGUE
from checker.checks import share_statistics
from checker.checks.share_statistics import Sums
from checker.kernels.share_bucket import ShareBucket, column
from checker.kernels.share_unfinished import Found, unfinished
from checker.kernels.witness import plain, worst
from checker.tables.buckets_of_a_history import Part, Source
from checker.tables.coding import decoder
from checker.tables.schema import OK, SHARE_DEAD_LETTERS, SHARE_FS
from checker.verdict import results, unknown_reasons
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict
from harness.model.values_as_text import many

SHOWN: Final = 32
PLACE: Final = ("group", "key", "offset")
Topics = Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of one bucket. `anomalies`: name -> (number of witnesses, table of the worst witnesses)."""

    anomalies: Mapping[str, tuple[int, pa.Table]]
    unfinished: Found
    sums: Sums


def first_of_topics(part: Part, per_topic: int) -> Topics:
    """Returns (group, number of the topic) -> time in ns at which the first poll that returned a record completed."""
    _, small = part.load()
    found: dict[tuple[int, int], int] = {}
    names = ("group", "key", "complete_ns")
    for group, key, done in zip(*(column(small.deliveries, name).tolist() for name in names), strict=True):
        topic = (group, key // per_topic)
        found[topic] = min(done, found.get(topic, done))
    return found


def judged(part: Part, options: CheckOptions, topics: Topics, run: str | None) -> Judged:
    """Returns the anomalies and statistics of one bucket. Writes all witnesses if `run`, a run folder, is given."""
    data, small = part.load()
    share = ShareBucket(data, small, options, topics)
    found: dict[str, tuple[int, pa.Table]] = {}
    for name, anomaly in CATALOGUE.items():
        if anomaly.find_share is None:
            continue
        rows = anomaly.find_share(share)
        if rows.num_rows == 0:
            continue
        if run is not None:
            results.write_part(Path(run), name, part.number, plain(rows, decoder(results.texts_of(part))))
        found[name] = rows.num_rows, worst(rows, SHOWN, anomaly.worst_first).combine_chunks()
    return Judged(found, share.once(unfinished), share_statistics.of_bucket(share))


def check(source: Source, options: CheckOptions) -> Result:
    """Judges the share groups of a history. Raises BadHistory if its tables cannot be used."""
    topics: dict[tuple[int, int], int] = {}
    per_topic = options.settings.share.partitions_per_topic
    for found in source.map(partial(first_of_topics, per_topic=per_topic)) if per_topic else ():
        for topic, done in found.items():
            topics[topic] = min(done, topics.get(topic, done))
    parts = source.map(partial(judged, options=options, topics=topics, run=source.written))
    if source.run is not None:
        source.fetch(results.PARTS)
        results.finish(source.run)
    original = decoder(source.texts())
    anomalies = [row for name in CATALOGUE for row in _anomaly(name, parts, options, original)]
    anomalies.sort(key=lambda anomaly: not anomaly.bad)
    reasons = [*source.meta["doubts"], *unknown_reasons.truncated_history(source.meta)]
    reasons += _reasons(source, parts, options, original)
    wrong = [anomaly for anomaly in anomalies if anomaly.bad]
    verdict: Verdict = "invalid" if wrong else "unknown" if reasons else "valid"
    answers = {anomaly.promised for anomaly in wrong}
    promise = None if not wrong else True if True in answers else None if None in answers else False
    figures = share_statistics.of_history([part.sums for part in parts], source.small("nemesis"), original)
    figures["dead_letters"] = len(
        set(zip(*(column(source.small("dead_letters"), n).tolist() for n in PLACE), strict=True))
    )
    return Result(verdict, promise, tuple(reasons), tuple(anomalies), {"share": figures}, VERSION)


def _anomaly(name: str, parts: list[Judged], options: CheckOptions, original: Mapping[int, Any]) -> list[AnomalyFound]:
    found = [part.anomalies[name] for part in parts if name in part.anomalies]
    if not found:
        return []
    anomaly = CATALOGUE[name]
    rows = plain(worst(pa.concat_tables([rows for _, rows in found]), SHOWN, anomaly.worst_first), original)
    promised = anomaly.promised(options.settings, rows)
    count = sum(count for count, _ in found)
    return [AnomalyFound(name, anomaly.summary, count, anomaly.bad(rows, options), promised, tuple(rows))]


def _dead_letter_queues(ops: pa.Table) -> tuple[set[int], set[int]]:
    """Returns (the groups whose dead letter queues were requested, those whose queues were read)."""
    mine = column(ops, "kind") == SHARE_DEAD_LETTERS
    group = column(ops, "group")
    return set(group[mine].tolist()), set(group[mine & (column(ops, "type") == OK)].tolist())


def _reasons(source: Source, parts: list[Judged], options: CheckOptions, original: Mapping[int, Any]) -> list[str]:
    """Returns why the verdict cannot be valid."""
    counts, settings = source.meta["counts"], options.settings.share
    if not any(f in counts for f in SHARE_FS):
        return ["the history contains no op of a share group"]
    found = []
    if not any(part.sums.deliveries for part in parts):
        found.append("no share group got a record")
    unknown = {"record lock duration": settings.lock_ms, "delivery limit": settings.delivery_limit}
    missing = [name for name, value in unknown.items() if value is None]
    if missing:
        found.append(f"the {' and the '.join(missing)} of the share groups is not known, so losses were not judged")
    asked, read = _dead_letter_queues(source.small("share_ops"))
    if asked - read:
        names = ", ".join(str(original.get(group, group)) for group in sorted(asked - read)[:4])
        found.append(f"the dead letter queue of share group {names} could not be read")
    unwatched = sorted({group for part in parts for group in part.unfinished.unwatched})
    if unwatched:
        names = ", ".join(str(original.get(group, group)) for group in unwatched[:4])
        found.append(
            f"the members of the final phase of share group {names} did not poll for 15 s without a record, so it is "
            "unknown whether records are left"
        )
    doubtful = sum(part.unfinished.doubtful for part in parts)
    if doubtful:
        found.append(
            f"share groups did not finish {many(doubtful, 'record')}, perhaps because members that ended or lost their "
            "connection had acquired them until the delivery limit was reached"
        )
    early = sum(part.unfinished.early for part in parts)
    if early:
        found.append(
            f"the final phase ended less than 15 s after the locks of {many(early, 'record')} that share groups had "
            "not finished, so it is unknown whether they would have been delivered again"
        )
    unplaced = sum(part.unfinished.unplaced for part in parts)
    if unplaced:
        found.append(
            f"it is unknown where share groups started in keys from which they got no record "
            f"({many(unplaced, 'record')}); use auto.offset.reset earliest"
        )
    rewritten = sum(part.unfinished.rewritten for part in parts)
    if rewritten:
        found.append(f"at some offsets of {many(rewritten, 'log')}, share groups got other records than the log has")
    return found
