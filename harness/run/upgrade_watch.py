"""Watches a cluster during an upgrade, and writes what it sees as events of the run, for checker.checks.upgrade.

    {"event": "keepsake", "detail": "left" | "changed" | "found", ...}    see harness.clients.keepsake
    {"event": "features", "detail": SERVER, "epoch": N, "levels": {feature: level}, "final": bool}

A server's features are recorded whenever the levels differ from those that it reported before, and at the end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from harness.history_writer import Events
from harness.model.capabilities import Releases
from harness.model.errors_and_exit_codes import ClusterTrouble
from harness.run.roles import Call

KEEPSAKE: Final = "keepsake"
FEATURES: Final = "features"
PERIOD_S: Final = 1.0
LOOK_PERIODS: Final = 5
LOOK_S: Final = 3.0
LEAVE_S: Final = 60.0
FINAL_S: Final = 15.0  # until every server that answers reports the same levels
SLACK_S: Final = 5.0
log = logging.getLogger("harness")


def leave(call: Call, replication: int, config: Mapping[str, str]) -> dict[str, Any]:
    """Leaves the keepsake. Returns what was left, or {"error": why nothing was}."""
    return _ask(call, "keepsake_leave", LEAVE_S, replication=replication, config=dict(config))


def _ask(call: Call, name: str, within_s: float, **arguments: Any) -> dict[str, Any]:
    """Returns the answer of the admin worker, or {"error": why there is none}."""
    try:
        answer: dict[str, Any] = call(name, within_s + SLACK_S, timeout_s=within_s, **arguments)
    except ClusterTrouble as error:
        return {"error": str(error)}
    return answer


class UpgradeWatch:
    """Watches from `start` to `stop`, then looks at the keepsake and at the features for the last time.

    left  the result of `leave`
    """

    def __init__(self, cluster: Releases, call: Call, events: Events, left: Mapping[str, Any]) -> None:
        self._cluster, self._call, self._events = cluster, call, events
        self._levels: dict[str, Mapping[str, int]] = {}
        self._left = left
        offsets = left.get("offsets", {})
        self._offsets: Mapping[str, int] = offsets
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="upgrade-watch", daemon=True)

    def start(self) -> None:
        self._events.write(KEEPSAKE, "left", **self._left)
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch, and records what is found at the end. Call it when the cluster is healthy again."""
        self._ended.set()
        self._thread.join(LOOK_S + SLACK_S)
        deadline = time.monotonic() + FINAL_S
        while len({repr(sorted(levels.items())) for _, levels in self._features(False).values()}) > 1:
            if time.monotonic() > deadline:
                break
            time.sleep(PERIOD_S)
        self._features(True)
        if self._offsets:
            self._events.write(KEEPSAKE, "found", **_ask(self._call, "keepsake_finish", LEAVE_S))

    def _watch(self) -> None:
        turn = 0
        while not self._ended.wait(PERIOD_S):
            turn += 1
            try:
                self._features(False)
            except ClusterTrouble as error:  # the cluster is about to go
                log.warning("the features were not watched to the end: %s", error)
                return
            if turn % LOOK_PERIODS == 0 and self._offsets:
                self._look()

    def _look(self) -> None:
        found = _ask(self._call, "keepsake_look", LOOK_S)
        if "error" not in found and found != self._offsets:
            self._events.write(KEEPSAKE, "changed", offsets=found)

    def _features(self, final: bool) -> dict[str, tuple[int, Mapping[str, int]]]:
        """Asks every server for its features. Writes those that are new, or all if `final`. Returns the answers."""
        answers = {}
        for server in self._cluster.upgrade_path().servers:
            found = self._cluster.reported_features(server)
            if found is None:
                continue
            answers[server] = found
            epoch, levels = found
            if final or self._levels.get(server) != levels:
                self._levels[server] = levels
                self._events.write(FEATURES, server, epoch=epoch, levels=dict(levels), final=final)
        return answers


class NoWatch:
    """The watch of a run without an upgrade."""

    def start(self) -> None:
        """Does nothing."""

    def stop(self) -> None:
        """Does nothing."""
