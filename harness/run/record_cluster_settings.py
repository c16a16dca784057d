"""Queries a cluster's settings and records them in the run's events: see `harness.plan.settings_in_force`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from harness import history_writer
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.plan.settings_in_force import EVENT, OF_BROKERS, OF_TOPICS, OFFSETS, TRANSACTIONS
from harness.run.roles import Call

SILENT: Final = frozenset({"mock", "sim"})  # clusters without such settings
ANSWER_S: Final = 5.0  # for each query
log = logging.getLogger("harness")


def record(cluster: str, call: Call, events: history_writer.Events) -> None:
    """Queries the settings of the cluster and of the run's topics, and records them as an event.

    Called at the end of a run, when all topics exist. Records nothing if the cluster does not respond.

    cluster  kind of cluster, as in the plan
    """
    if cluster in SILENT:
        return
    try:
        answer = call(
            "settings_in_force",
            5 * ANSWER_S,
            topics=OF_TOPICS,
            broker=OF_BROKERS,
            internal=(OFFSETS, TRANSACTIONS),
            timeout_s=ANSWER_S,
        )
    except ClusterTrouble as error:
        log.warning("the cluster did not report its settings: %s", error)
        return
    events.write(EVENT, "as the cluster reports them", **answer)


def recorded(folder: Path) -> Mapping[str, Any] | None:
    """Returns the settings that a run recorded last. Returns None if it recorded none, or they cannot be read."""
    path = folder / "events" / "harness.jsonl"
    found = None
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return None
    for line in lines:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # the check of the run reports this
        if isinstance(event, dict) and event.get("event") == EVENT:
            found = event
    return found
