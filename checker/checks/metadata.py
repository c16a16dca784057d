"""The metadata check: judges KRaft's metadata log, as the servers of a run had it at the end.

A run on a local cluster asks the quorum's leader and the brokers once a second, and copies the metadata log of every
server at its end (the event `metadata-log`). The rules are in checker.disk.metadata. The verdict is unknown if a copy
or an answer is missing that ought to be there. A run that did not watch its quorum is not judged: the result is valid.

The figures show how much a valid verdict says: how many records were compared, and how many elections, snapshots and
leader epochs there were to judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from checker.anomalies.metadata_log import METADATA
from checker.disk.metadata import agreement, node_log, quorum_answers, reported
from checker.disk.metadata import replay as replays
from checker.disk.metadata.node_log import NodeLog
from checker.disk.metadata.replay import Replayed
from checker.disk.metadata.witnesses import Found
from checker.tables.buckets_of_a_history import Source
from checker.verdict import results, unknown_reasons
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict
from harness.model.values_as_text import listed

EVENT: Final = "metadata-log"
FOLDER: Final = "metadata"
SHOWN: Final = 16
DELETES_TOPICS: Final = ("share-recreate",)  # ops of clients
UNJUDGED: Final = Result("valid", checker_version=VERSION)


def check(source: Source, options: CheckOptions) -> Result:
    """Judges the metadata log of a run."""
    run = source.run or source.noted
    events = unknown_reasons.run_events(run) if run is not None else None
    watched = [event for event in events.events if event["event"] == EVENT] if events is not None else []
    if run is None or not watched:
        return UNJUDGED
    deleted = any(f in source.meta["counts"] for f in DELETES_TOPICS)
    found, reasons, figures = judge(run, watched[-1], _settings_changed(source), deleted)
    by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        by_name[one.name].append(one.as_witness())
    anomalies = []
    for name, rows in by_name.items():
        row = METADATA[name]
        if source.run is not None:
            results.write_part(source.run, name, 0, rows)
        promised = row.promised(options.settings)
        anomalies.append(AnomalyFound(name, row.summary, len(rows), True, promised, tuple(rows[:SHOWN])))
    if source.run is not None:
        results.finish(source.run)
    answers = {anomaly.promised for anomaly in anomalies}
    promise = None if not anomalies else True if True in answers else None
    verdict: Verdict = "invalid" if anomalies else "unknown" if reasons else "valid"
    return Result(verdict, promise, tuple(reasons), tuple(anomalies), {"metadata": figures}, VERSION)


def judge(
    run: Path, event: Mapping[str, Any], settings: Mapping[str, str], deleted: bool = False
) -> tuple[list[Found], list[str], dict[str, Any]]:
    """Judges the copies in a run folder. Returns (witnesses, reasons for unknown, figures).

    event     the last event `metadata-log` of the run
    settings  settings of topics that the cluster acknowledged during the run
    deleted   whether the run deleted topics
    """
    nodes: list[str] = list(event.get("nodes", ()))
    if not nodes or event.get("detail") != "copied":
        why = event.get("why") or "the run ended before"
        return [], [f"the metadata logs of the servers were not copied: {why}"], {}
    read = {node: node_log.read(node, run / FOLDER / node) for node in nodes}
    logs = [log for log in read.values() if log is not None and (log.batches or log.snapshots)]
    said = quorum_answers.read(run)
    snapshots = [snapshot for log in logs for snapshot in log.snapshots]
    committed = max([said.committed, *(snapshot.end for snapshot in snapshots if snapshot.flaw is None)])
    agreed = agreement.compare(logs, committed)
    replayed = replays.replay(agreed.reference, snapshots)
    leaders, epochs, changes = quorum_answers.two_leaders(said, logs)
    found = [*agreed.found, *leaders, *quorum_answers.watermark_regressions(said), *replayed.found]
    figures = {
        "servers": len(logs),
        "answers": len(said.answers),
        "committed": committed,
        "compared": agreed.records,
        "epochs": epochs,
        "leader_changes": changes,
        "snapshots": len(snapshots),
        "snapshots_compared": replayed.counts["snapshots"],
        "elections": replayed.counts["elections"],
        "unclean_elections": replayed.counts["unclean"],
        "partition_changes": replayed.counts["changes"],
        "not_decoded": {f"type {kind} version {version}": n for (kind, version), n in replayed.image.unknown.items()},
    }
    reasons = _reasons(nodes, logs, said, replayed)
    if replayed.unreadable is None and replayed.image.complete:
        found += _against_servers(replayed, logs, said, figures)
        created: Mapping[str, Any] = event.get("topics") or {}
        figures["topics"] = len(created.get("names", ()))
        found += reported.topics(replayed, created, deleted)
        if not replayed.base:
            found += reported.some_topic_has(replayed, settings)
    return found, reasons, figures


def _against_servers(
    replayed: Replayed, logs: list[NodeLog], said: quorum_answers.Said, figures: dict[str, Any]
) -> list[Found]:
    """Compares the whole log with leader epochs that servers used and reported. Adds to the figures."""
    stored, figures["checkpoint_epochs"] = reported.checkpoints(replayed, logs)
    answered, figures["metadata_answers"] = reported.metadata_answers(replayed, said.leaders)
    return [*stored, *answered]


def _reasons(nodes: list[str], logs: list[NodeLog], said: quorum_answers.Said, replayed: Replayed) -> list[str]:
    """Returns which evidence is missing."""
    found = []
    missing = sorted(set(nodes) - {log.node for log in logs})
    if missing:
        found.append(f"there is no metadata log of {listed(missing)}")
    if said.damaged:
        found.append(f"{quorum_answers.FILE} has lines that cannot be read; restore the file that the run wrote")
    if said.committed < 0:
        found.append(
            "no leader of the metadata quorum reported its high watermark, so nothing is known to be committed"
        )
    if replayed.unreadable is not None:
        found.append(f"the metadata log cannot be replayed: {replayed.unreadable}")
    return found


def _settings_changed(source: Source) -> dict[str, str]:
    """Returns the settings of topics that the fault config-change has set, according to the cluster."""
    found: dict[str, str] = {}
    for value in source.small("nemesis").column("value").to_pylist():
        data = orjson.loads(value)
        if isinstance(data, dict) and data.get("took_effect") is True and isinstance(data.get("settings"), dict):
            found |= data["settings"]
    return found
