"""Watches a cluster for the triggers of a schedule: log lines, leader changes, requests that pass the wire proxy."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from harness.model.capabilities import Cluster, ServerLogs, Wire, offers
from harness.model.errors_and_exit_codes import BadInput, HarnessError
from harness.model.fault_and_generator_protocols import Roles
from harness.model.op import Op
from nemesis.schedule.entry import LEADER_CHANGE, LOG, SEGMENT_ROLL, TRUNCATION, TXN_OPEN, WIRE, Entry, Trigger
from nemesis.schedule.rounds import Seen, notice
from nemesis.schedule.wire_points import WirePoints

POLL_S: Final = 0.02
LEADERS_S: Final = 0.3
LINE_MAX: Final = 2000
TEXT_MAX: Final = 300
# Logged by Kafka's LocalLog and UnifiedLog, 2.4 to 4.3.
ROLLED: Final = "Rolled new log segment"
# Logged before a log loses records. (A truncation to its end is logged with the words "has no effect".)
TRUNCATED: Final = "Truncating to offset"
OF_LOGS: Final = (LOG, SEGMENT_ROLL, TRUNCATION)
_STAMP: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")

Emit = Callable[[Op], None]


def logged_s(line: str) -> float | None:
    """Returns when a server logged a line, in seconds since the epoch by the server's clock; None without a time."""
    stamp = _STAMP.match(line)
    if stamp is None:
        return None
    return time.mktime(time.strptime(stamp[1], "%Y-%m-%d %H:%M:%S")) + int(stamp[2]) / 1000


def needed(schedule: Sequence[Entry]) -> frozenset[type]:
    """Returns the capabilities for which a cluster must be prepared when it starts, because of triggers."""
    return frozenset({Wire} if any(entry.when and entry.when.kind == WIRE for entry in schedule) else ())


def refuse_unsupported(schedule: Sequence[Entry], cluster: Cluster, why: str) -> None:
    """Raises BadInput if a trigger in the schedule needs a capability that the cluster does not offer.

    why  the end of the message "... needs X, which ...", for example "containers do not offer"
    """
    for entry in schedule:
        if entry.when and entry.when.kind == WIRE and not offers(cluster, Wire):
            raise BadInput(f"schedule: the `wire` trigger of {entry.fault} needs Wire, which {why}")
        if entry.when and entry.when.kind in OF_LOGS and not offers(cluster, ServerLogs):
            raise BadInput(
                f"schedule: the `{entry.when.kind}` trigger of {entry.fault} needs readable server logs "
                f"(capability ServerLogs), which {why}"
            )


class LogWatch:
    """A reader of the lines that servers add to their logs. The names of the run's topics begin with `prefix`."""

    def __init__(self, logs: ServerLogs, nodes: Sequence[str], prefix: str) -> None:
        self._logs, self._nodes, self._prefix = logs, nodes, prefix
        self._at: dict[str, int | None] = dict.fromkeys(nodes)
        self._rest: dict[str, bytes] = dict.fromkeys(nodes, b"")

    def look(self, wanted: Mapping[Trigger, re.Pattern[str]]) -> list[Seen]:
        """Reads the new lines of the logs, and searches them for the regular expression of each trigger in `wanted`.

        Returns the triggers that fire; `text` quotes the first line that fires the trigger.
        """
        found: dict[Trigger, Seen] = {}
        for node in self._nodes:
            for line in self._fresh(node):
                for trigger, pattern in wanted.items():
                    if trigger.node in ("", node) and trigger not in found and pattern.search(line):
                        found[trigger] = Seen(trigger, f"{node} logged: {line[:TEXT_MAX]}", logged_s(line))
        return list(found.values())

    def patterns(self, triggers: Sequence[Trigger]) -> dict[Trigger, re.Pattern[str]]:
        """Returns trigger -> regular expression, for those of the triggers that depend on log lines."""
        of_run = {
            kind: re.compile(f"partition={re.escape(self._prefix)}.*{text}")
            for kind, text in ((SEGMENT_ROLL, ROLLED), (TRUNCATION, TRUNCATED))
        }
        return {
            trigger: of_run.get(trigger.kind) or re.compile(trigger.pattern)
            for trigger in triggers
            if trigger.kind in OF_LOGS
        }

    def _fresh(self, node: str) -> list[str]:
        """Returns the complete lines since the previous call.

        The first call returns none; it only finds the end of the log.
        """
        chunk, self._at[node] = self._logs.read_log(node, self._at[node])
        *whole, rest = (self._rest[node] + chunk).split(b"\n")
        self._rest[node] = rest[-LINE_MAX:]
        return [line[:LINE_MAX].decode(errors="replace") for line in whole]


class LeaderWatch:
    """Detects partitions whose leader has changed from one node to another.

    A partition that has lost its leader is reported only when it has a new leader.
    """

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._last_leaders: dict[tuple[str, int], str] = {}

    def look(self) -> str:
        """Returns a description of the changes since the previous call; an empty string if there are none."""
        now = {at: node for at, node in self._roles.leaders().items() if node is not None}
        moved = [at for at, node in sorted(now.items()) if self._last_leaders.get(at, node) != node]
        text = ""
        if moved:
            first = moved[0]
            more = f", and {len(moved) - 1} more" if len(moved) > 1 else ""
            text = f"the leader of {first[0]}-{first[1]} changed from {self._last_leaders[first]} to {now[first]}{more}"
        self._last_leaders.update(now)
        return text


class Watch:
    """A thread that watches for triggers between `start` and `stop`, and emits a notice each time that one fires.

    A query to the cluster that fails is repeated. A query causes at most one notice for each trigger, even if many log
    lines match. The generators of the schedule decide which notices start a round.
    """

    def __init__(self, schedule: Sequence[Entry], cluster: Cluster, roles: Roles, emit: Emit) -> None:
        triggers = dict.fromkeys(entry.when for entry in schedule if entry.when is not None)
        self._triggers = [trigger for trigger in triggers if trigger.kind != TXN_OPEN]
        self._schedule = schedule
        self._cluster, self._roles, self._emit = cluster, roles, emit
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="triggers", daemon=True)

    def start(self) -> None:
        if self._triggers:
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread. May be called several times, and also if `start` was never called."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _work(self) -> None:
        cluster = self._cluster
        leaders = LeaderWatch(self._roles)
        changed = [trigger for trigger in self._triggers if trigger.kind == LEADER_CHANGE]
        logs = LogWatch(cluster, cluster.nodes, self._roles.topic_prefix()) if offers(cluster, ServerLogs) else None
        patterns = logs.patterns(self._triggers) if logs is not None else {}
        wire = WirePoints(cluster, self._schedule) if offers(cluster, Wire) else None
        last_query_s = 0.0
        took_s = 0.0
        while not self._ended.wait(max(POLL_S, took_s)):  # queries to a remote cluster take longer
            began = time.monotonic()
            try:
                found = logs.look(patterns) if logs is not None and patterns else []
                for seen in [*found, *(wire.look() if wire is not None else ())]:
                    self._emit(notice(seen))
                if changed and time.monotonic() - last_query_s >= LEADERS_S:
                    last_query_s = time.monotonic()
                    text = leaders.look()
                    for trigger in changed if text else ():
                        self._emit(notice(Seen(trigger, text)))
            except (HarnessError, OSError):
                continue
            finally:
                took_s = time.monotonic() - began
        if wire is not None:
            with suppress(HarnessError, OSError):
                wire.clear()
