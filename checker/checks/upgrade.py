"""The upgrade check: what must survive an upgrade of the cluster, and whether the upgrade was complete.

It reads the nemesis's ops of the verbs upgrade, roll-back, finalize and downgrade, and the events that
harness.run.upgrade_watch wrote: the finalized features that each server reported, and the keepsake, which consists of
records, a group's committed offset and an open transaction from before the upgrade. (The records of the run's own keys
are judged by the queue check: its final polls read every log again from the beginning, after the upgrade.)

Features are compared by their epoch, the offset in the metadata log up to which a server knows them. So a server that
is behind does not count as one that went back, except at the end of the run, when the cluster is healthy. Two kinds of
reports are not compared: those with epoch 0, from a server that has not loaded any metadata yet, and, in a migration,
those without metadata.version, from a broker with ZooKeeper, whose epoch is not an offset in the metadata log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from checker.anomalies import (
    feature_regression,
    offset_not_kept,
    record_not_kept,
    transaction_not_kept,
    version_does_not_start,
)
from checker.anomalies.anomaly_row import Anomaly
from checker.tables.buckets_of_a_history import Source
from checker.verdict.unknown_reasons import run_events
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict

VERBS: Final = ("upgrade", "roll-back", "finalize", "downgrade", "migrate")
HALF_WAY, BACK = "migrate:to-kraft", "migrate:back"  # a migration that goes back was never complete
SHOWN: Final = 8
# A server knows this feature from its log, which may be ahead of the metadata whose epoch it reports.
WITHOUT_EPOCH: Final = frozenset({"kraft.version"})
# An open transaction is aborted after 900 s; this close to it, its end proves nothing.
OPEN_S: Final = 840.0
# Answers to a commit that mean that the transaction is lost. Others, such as timeouts, leave the outcome open.
LOST: Final = frozenset(
    {
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
        "PRODUCER_FENCED",
        "UNKNOWN_PRODUCER_ID",
        "_FENCED",
    }
)
Row = Mapping[str, Any]
Rows = list[dict[str, Any]]


def steps(source: Source) -> list[dict[str, Any]]:
    """Returns the value of each completed op of an upgrade, in order, with `verb`, `fault` and `begun_ns`.

    The value of an op that failed with an error has no field `nodes`.
    """
    found, begun_ns = [], dict[str, int]()
    for row in source.small("nemesis").to_pylist():
        fault = str(row["fault"] or "")
        verb = fault.partition(":")[0]
        if verb not in VERBS:
            continue
        if row["phase"] != "complete":
            begun_ns[fault] = row["time_ns"]
            continue
        value = orjson.loads(row["value"])
        fields = value if isinstance(value, dict) else {}
        at_ns = begun_ns.get(fault, row["time_ns"])
        found.append({**fields, "verb": verb, "fault": fault, "begun_ns": at_ns})
    return found


def healed(source: Source) -> bool:
    """Returns whether every server was up and every replica in sync after the load.

    Only the value of an op that failed with an error has the field `took_effect`.
    """
    for row in source.small("nemesis").to_pylist():
        if row["f"] == "heal" and row["phase"] == "complete":
            value = orjson.loads(row["value"])
            return isinstance(value, dict) and not value.get("unhealthy") and "took_effect" not in value
    return False


def _lowered_ns(done: Sequence[Row]) -> int | None:
    """Returns when a request that may have lowered features was sent first; None if there was none."""
    times = (
        step["begun_ns"]
        for step in done
        if step["verb"] == "downgrade" and ("nodes" not in step or ("asked" in step and not step.get("refused")))
    )
    return min(times, default=None)


def regressions(reports: Sequence[Row], done: Sequence[Row]) -> Rows:
    """Returns the features that went back without a request: see the module's docstring.

    reports  the events `features`, in order of time
    done     the result of `steps`
    """
    lowered_ns = _lowered_ns(done)
    counted = [report for report in reports if lowered_ns is None or report["time_ns"] < lowered_ns]
    migrated = any(step["verb"] == "migrate" for step in done)
    loaded = [
        report
        for report in counted
        if report["epoch"] > 0 and not (migrated and "metadata.version" not in report["levels"])
    ]
    found = {}
    for name in sorted({name for report in loaded for name in report["levels"]} - WITHOUT_EPOCH):
        highest: Row | None = None
        for report in sorted(loaded, key=lambda one: (one["epoch"], -one["levels"].get(name, 0))):
            level = report["levels"].get(name, 0)
            if highest is None or level >= highest["levels"].get(name, 0):
                highest = report
            else:
                found[report["detail"], name] = _regression(report, name, highest["levels"][name], highest["detail"])
    acknowledged = {} if lowered_ns is not None else _acknowledged(done)
    for report in counted:
        for name, level in acknowledged.items() if report.get("final") else ():
            if report["levels"].get(name, 0) < level:
                row = _regression(report, name, level, "the acknowledged request")
                found.setdefault((report["detail"], name), row)
    return list(found.values())


def _acknowledged(done: Sequence[Row]) -> dict[str, int]:
    """Returns feature -> the level that the controller acknowledged last."""
    levels: dict[str, int] = {}
    for step in done:
        if step["verb"] == "finalize" and "asked" in step and not step.get("refused"):
            levels |= step["asked"]
    return levels


def _regression(report: Row, feature: str, before: int, at: str) -> dict[str, Any]:
    level = report["levels"].get(feature, 0)
    return {
        "server": report["detail"],
        "feature": feature,
        "level": level,
        "epoch": report["epoch"],
        "before": before,
        "at": at,
    }


def offsets_lost(left: Row, seen: Sequence[Row]) -> Rows:
    """Returns the committed offsets that are not what was committed before the upgrade."""
    return [
        {"group": group, "committed": offset, "found": event["offsets"][group], "when": event["detail"]}
        for group, offset in left.get("offsets", {}).items()
        for event in seen
        if group in event.get("offsets", {}) and event["offsets"][group] != offset
    ]


def records_lost(left: Row, found: Row) -> Rows:
    """Returns the records of before the upgrade that are missing, or are other ones. Offsets are those of the log."""
    sent, values = left.get("values", []), found.get("values", [])
    pairs = ((offset, value, values[offset] if offset < len(values) else None) for offset, value in enumerate(sent))
    return [{"offset": offset, "sent": value, "found": other} for offset, value, other in pairs if other != value]


def transaction_lost(left: Row, found: Row) -> Rows:
    """Returns the transaction that was open before the upgrade, if its commit failed or committed only a part."""
    commit = found.get("commit")
    if commit is None or "values" not in found:
        return []
    of_transaction = {group: at for group, at in found["offsets"].items() if group not in left.get("offsets", {})}
    there = {"record": left["in_transaction"] in found["values"], "offset": None not in of_transaction.values()}
    failed = commit.partition(":")[0] in LOST and float(found.get("open_s", 0.0)) < OPEN_S
    half = commit == "" and not all(there.values())
    return (
        [{"commit": commit or "acknowledged", "open_s": found.get("open_s"), "found": there}] if failed or half else []
    )


def not_started(done: Sequence[Row]) -> Rows:
    """Returns the servers that did not start with a version, although the version starts on empty folders.

    If the cluster was healthy after the load, they have started later.
    """
    return [
        {"server": step["nodes"][0], "version": step.get("version"), "error": step["ended"]}
        for step in done
        if step.get("ended") and step.get("trial") == "starts"
    ]


def undone(done: Sequence[Row], expected: Sequence[str]) -> Iterator[str]:
    """Yields why the upgrade is not complete: for each verb of the run whose last op left something to do."""
    last = {step["fault"]: step for step in done}
    turned = HALF_WAY if BACK in expected else ""
    for fault in (name for name in expected if name.partition(":")[0] in VERBS and name != turned):
        step = last.get(fault)
        if step is not None and step.get("complete"):
            continue
        versions = (step or {}).get("versions") or (step or {}).get("modes") or {}
        why = (step or {}).get("refused") or (step or {}).get("why") or (step or {}).get("ended")
        now = f"; {', '.join(f'{server}: {version}' for server, version in versions.items())}" if versions else ""
        yield f"{fault} was not completed{f': {why}' if why else ''}{now}; a longer --time-limit may help"


def not_judged(done: Sequence[Row]) -> Iterator[str]:
    """Yields, for each server that did not start with a version, why the version may not be to blame."""
    for step in done:
        if step.get("ended") and step.get("trial") != "starts":
            trial = step.get("trial") or "this was not tried"
            yield f"{step['nodes'][0]} did not start with {step.get('version')}; alone on empty folders: {trial}"


def _unproven(left: Row, found: Row) -> Iterator[str]:
    """Yields why it is not known what survived."""
    if not left or "error" in left:
        yield f"nothing was left before the upgrade that could be looked for ({left.get('error', 'no event')})"
    elif not found or "error" in found:
        yield f"what survived the upgrade was not read back ({found.get('error', 'no event')})"
    elif found.get("commit") and found["commit"].partition(":")[0] not in LOST:
        yield f"whether the transaction from before the upgrade survived is not known: {found['commit']}"


def _anomaly(row: Anomaly, witnesses: Rows, options: CheckOptions) -> list[AnomalyFound]:
    if not witnesses:
        return []
    promise = row.promised(options.settings)
    return [AnomalyFound(row.name, row.summary, len(witnesses), True, promise, tuple(witnesses[:SHOWN]))]


def check(source: Source, options: CheckOptions) -> Result:
    """Judges an upgrade. The verdict is unknown if the upgrade was not completed, or the events are missing."""
    run, done = source.run or source.noted, steps(source)
    recorded = run_events(run) if run is not None else None
    events = recorded.events if recorded is not None else ()
    reports = [event for event in events if event["event"] == "features"]
    kept = {event["detail"]: event for event in events if event["event"] == "keepsake"}
    left, found = kept.get("left", {}), kept.get("found", {})
    seen = [event for event in events if event["event"] == "keepsake" and event["detail"] != "left"]
    anomalies = (
        *_anomaly(feature_regression.ANOMALY, regressions(reports, done), options),
        *_anomaly(record_not_kept.ANOMALY, records_lost(left, found) if "values" in found else [], options),
        *_anomaly(offset_not_kept.ANOMALY, offsets_lost(left, seen), options),
        *_anomaly(transaction_not_kept.ANOMALY, transaction_lost(left, found), options),
        *_anomaly(version_does_not_start.ANOMALY, [] if healed(source) else not_started(done), options),
    )
    reasons = (*not_judged(done), *undone(done, options.expected_faults), *_unproven(left, found))
    figures = {
        "steps": [_figures(step) for step in done],
        "features": {one["detail"]: one["levels"] for one in reports},
    }
    verdict: Verdict = "invalid" if anomalies else "unknown" if reasons else "valid"
    answers = {anomaly.promised for anomaly in anomalies}
    promise = True if True in answers else None if None in answers or not answers else False
    return Result(verdict, promise, reasons, anomalies, {"upgrade": figures}, VERSION)


def _figures(step: Row) -> dict[str, Any]:
    """Returns the fields of a step that a report shows."""
    shown = ("fault", "begun_ns", "nodes", "from", "version", "took_effect", "asked", "refused", "versions", "why")
    return {name: step[name] for name in shown if name in step}
