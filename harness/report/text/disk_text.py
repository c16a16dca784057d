"""The output of `harness inspect`, as text and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from checker.disk.comparison import Comparison
from checker.disk.missing_record_causes import CAUSES, KINDS, Finding
from checker.disk.replica_survey import Survey
from harness.protocol.flaws import Flaw
from harness.stored.disk_inspection import Inspection

SHOWN: Final = 5
_KIND: Final = {
    "lost": "acknowledged, but never read",
    "gone": "read, but no longer in the log",
    "phantom": "read, although according to the history they cannot exist",
}


def text(found: Inspection, detailed: bool = False) -> str:
    """Formats the inspection as text. With `detailed`, all replicas, flaws and findings are listed."""
    return "\n".join([*_head(found), *_partitions(found, detailed), *_causes(found, detailed)])


def _head(found: Inspection) -> Iterator[str]:
    replicas = [one for each in found.partitions for one in each.replicas.values()]
    records = sum(one.records for one in replicas)
    size = sum(one.bytes for one in replicas) / (1 << 20)
    several = "" if len(found.partitions) == 1 else "s"
    count = f"{len(found.partitions)} partition{several} on {', '.join(found.nodes)}"
    yield f"{found.place}: {count}; {records} records, {size:.1f} MiB in all replicas"
    same = [one for one in found.partitions if one.same]
    yield f"partitions with identical replicas up to the high watermark: {len(same)} of {len(found.partitions)}"
    flawed = sum(1 for one in replicas if one.flaws)
    yield f"replicas with damaged files: {flawed} of {len(replicas)}"
    if not found.judged:
        yield "there is no history, so causes of missing records cannot be determined"
    if found.missing:
        keys = ", ".join(map(str, found.missing[:SHOWN]))
        yield f"no data for {len(found.missing)} keys: {keys}{'...' if len(found.missing) > SHOWN else ''}"


def _partitions(found: Inspection, detailed: bool) -> Iterator[str]:
    for one in found.partitions:
        if detailed or not one.same or one.flaws or one.behind:
            yield ""
            yield from _partition(one, detailed)


def _partition(one: Comparison, detailed: bool) -> Iterator[str]:
    mark = "unknown" if one.high_watermark is None else str(one.high_watermark)
    yield f"{one.topic}-{one.partition}: high watermark {mark}, compared with {one.reference or 'no other replica'}"
    differences = {each.node: each for each in one.differences}
    for node, replica in one.replicas.items():
        if not detailed and node not in differences and node not in one.behind and not replica.flaws:
            continue
        yield f"  {node}: {_replica(replica)}"
        if node in differences:
            difference = differences[node]
            where = {True: "below", False: "above", None: "possibly below"}[difference.committed]
            yield f"    differs from {difference.reference} at offset {difference.offset}, {where} the high watermark:"
            yield f"      {node} has {difference.has}"
            yield f"      {difference.reference} has {difference.should}"
        if node in one.behind:
            yield f"    its log ends at offset {one.behind[node]}, below the high watermark"
        yield from _flaws(replica, detailed)
    if one.absent and detailed:
        yield f"  no replica on {', '.join(one.absent)}"


def _replica(one: Survey) -> str:
    parts = [
        f"offsets {one.log_start} to {one.end}",
        f"{one.records} records in {one.batches} batches in {one.segments} segments",
        f"leader epochs {', '.join(f'{epoch.epoch} from {epoch.start}' for epoch in one.epochs) or 'none'}",
    ]
    if one.recovery_point is not None:
        parts.append(f"recovery point {one.recovery_point}")
    if one.aborted or one.open:
        parts.append(f"{one.aborted} transactions aborted, {one.open} open")
    if one.compacted:
        parts.append("compacted")
    return "; ".join(parts)


def _flaws(one: Survey, detailed: bool) -> Iterator[str]:
    shown = one.flaws if detailed else one.flaws[:SHOWN]
    yield from (f"    ! {flaw}" for flaw in shown)
    rest = len(one.flaws) - len(shown) + one.more
    if rest:
        yield f"    and {rest} more"


def _causes(found: Inspection, detailed: bool) -> Iterator[str]:
    if not found.judged:
        return
    every = [one for findings in found.findings.values() for one in findings]
    yield ""
    if not every:
        yield "every acknowledged or read record is in its place in the log"
        return
    counts = Counter((one.kind, one.cause) for one in every)
    for kind in KINDS:
        of_kind = {cause: counts[kind, cause] for cause in CAUSES if counts[kind, cause]}
        if not of_kind:
            continue
        yield f"{kind}: {sum(of_kind.values())} records ({_KIND[kind]})"
        for cause, count in of_kind.items():
            yield f"  {count} {cause}: {CAUSES[cause]}"
            mine = [one for one in every if (one.kind, one.cause) == (kind, cause)]
            shown = mine if detailed else mine[:SHOWN]
            yield from (f"    {_finding(one)}" for one in shown)


def _finding(one: Finding) -> str:
    at = "at an unknown offset" if one.offset < 0 else f"at offset {one.offset}"
    return f"key {one.key}, value {one.value} {at}, op {one.op}: {one.shown}"


def data(found: Inspection) -> dict[str, Any]:
    """Returns the inspection as plain data."""
    return {
        "place": str(found.place),
        "well": found.well,
        "nodes": {node: str(path) for node, path in found.nodes.items()},
        "partitions": [_comparison(one) for one in found.partitions],
        "findings": [asdict(one) for findings in found.findings.values() for one in findings],
        "judged": found.judged,
        "missing_keys": list(found.missing),
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "same": one.same,
        "high_watermark": one.high_watermark,
        "compared": list(one.compared),
        "reference": one.reference,
        "absent": list(one.absent),
        "behind": dict(one.behind),
        "differences": [asdict(each) for each in one.differences],
        "replicas": {node: _survey(each) for node, each in one.replicas.items()},
    }


def _survey(one: Survey) -> dict[str, Any]:
    survey_data = asdict(one)
    for name in ("node", "topic", "partition"):
        del survey_data[name]
    return {**survey_data, "folder": str(one.folder), "flaws": [_flaw(flaw) for flaw in one.flaws]}


def _flaw(flaw: Flaw) -> dict[str, Any]:
    return asdict(flaw)
