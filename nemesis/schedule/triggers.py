"""Watching a cluster for what faults wait for: lines of server logs, changes of leaders, rolled segments."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.model.capabilities import Cluster, ServerLogs, offers
from harness.model.errors_and_exit_codes import BadInput, HarnessError
from harness.model.fault_and_generator_protocols import Roles
from harness.model.op import Op
from nemesis.schedule.entry import LEADER_CHANGE, LOG, SEGMENT_ROLL, TXN_OPEN, Entry, Trigger
from nemesis.schedule.rounds import notice

POLL_S: Final = 0.1
LEADERS_S: Final = 0.3
LINE_MAX: Final = 2000
TEXT_MAX: Final = 300
# Kafka's LocalLog and UnifiedLog, 2.4 to 4.3.
ROLLED: Final = "Rolled new log segment"

Tell = Callable[[Op], None]


def refuse_unsupported(schedule: Sequence[Entry], cluster: Cluster, why: str) -> None:
    """Raises BadInput for a trigger that needs what the cluster cannot do; `why` says what it is."""
    for entry in schedule:
        if entry.when and entry.when.kind in (LOG, SEGMENT_ROLL) and not offers(cluster, ServerLogs):
            raise BadInput(
                f"the schedule: {entry.fault} waits for {entry.when.kind}: that needs ServerLogs, which {why}"
            )


class LogWatch:
    """New lines of the servers' logs. `prefix`: what the names of the run's topics begin with."""

    def __init__(self, logs: ServerLogs, nodes: Sequence[str], prefix: str) -> None:
        self._logs, self._nodes, self._prefix = logs, nodes, prefix
        self._at: dict[str, int | None] = dict.fromkeys(nodes)
        self._rest: dict[str, bytes] = dict.fromkeys(nodes, b"")

    def look(self, wanted: Mapping[Trigger, re.Pattern[str]]) -> list[tuple[Trigger, str]]:
        """The first new line for each trigger that it fires."""
        found: dict[Trigger, str] = {}
        for node in self._nodes:
            for line in self._fresh(node):
                for trigger, pattern in wanted.items():
                    if trigger.node in ("", node) and trigger not in found and pattern.search(line):
                        found[trigger] = f"{node} logged: {line[:TEXT_MAX]}"
        return list(found.items())

    def patterns(self, triggers: Sequence[Trigger]) -> dict[Trigger, re.Pattern[str]]:
        """What is looked for, of those triggers that are about logs."""
        rolled = re.compile(f"partition={re.escape(self._prefix)}.*{ROLLED}")
        return {
            trigger: re.compile(trigger.pattern) if trigger.kind == LOG else rolled
            for trigger in triggers
            if trigger.kind in (LOG, SEGMENT_ROLL)
        }

    def _fresh(self, node: str) -> list[str]:
        """Whole lines that the log has gained; none of what was there before the first look."""
        chunk, self._at[node] = self._logs.read_log(node, self._at[node])
        *whole, rest = (self._rest[node] + chunk).split(b"\n")
        self._rest[node] = rest[-LINE_MAX:]
        return [line[:LINE_MAX].decode(errors="replace") for line in whole]


class LeaderWatch:
    """Partitions that have another leader than before; a time without one does not count by itself."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._known: dict[tuple[str, int], str] = {}

    def look(self) -> str:
        """What changed, in words; empty for nothing."""
        now = {at: node for at, node in self._roles.leaders().items() if node is not None}
        moved = [at for at, node in sorted(now.items()) if self._known.get(at, node) != node]
        text = ""
        if moved:
            first = moved[0]
            more = f", and of {len(moved) - 1} more" if len(moved) > 1 else ""
            text = f"the leader of {first[0]}-{first[1]} changed from {self._known[first]} to {now[first]}{more}"
        self._known.update(now)
        return text


class Watch:
    """A thread that looks, and tells of what it sees as notices, between `start` and `stop`.

    What cannot be asked just now is asked again. What is seen again and again is told at most once a
    look; the schedule decides what it heeds.
    """

    def __init__(self, schedule: Sequence[Entry], cluster: Cluster, roles: Roles, tell: Tell) -> None:
        triggers = dict.fromkeys(entry.when for entry in schedule if entry.when is not None)
        self._triggers = [trigger for trigger in triggers if trigger.kind != TXN_OPEN]
        self._cluster, self._roles, self._tell = cluster, roles, tell
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="triggers", daemon=True)

    def start(self) -> None:
        if self._triggers:
            self._thread.start()

    def stop(self) -> None:
        """Safe to repeat, and without a start."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _work(self) -> None:
        cluster = self._cluster
        leaders = LeaderWatch(self._roles)
        changed = [trigger for trigger in self._triggers if trigger.kind == LEADER_CHANGE]
        logs = LogWatch(cluster, cluster.nodes, self._roles.topic_prefix()) if offers(cluster, ServerLogs) else None
        patterns = logs.patterns(self._triggers) if logs is not None else {}
        last_query_s = 0.0
        while not self._ended.wait(POLL_S):
            try:
                if logs is not None and patterns:
                    for trigger, text in logs.look(patterns):
                        self._tell(notice(trigger, text))
                if changed and time.monotonic() - last_query_s >= LEADERS_S:
                    last_query_s = time.monotonic()
                    text = leaders.look()
                    for trigger in changed if text else ():
                        self._tell(notice(trigger, text))
            except (HarnessError, OSError):
                continue
