"""Decides under the native rules why a verdict is `unknown`.

A verdict is `valid` only if the history and the run are complete enough to show that nothing is wrong. If not, this
module gives the reasons, and the verdict is `unknown`. The other native rules are in the kernels (tail loss, legal
deletion, rebalances) and in the catalogue of anomalies (which anomalies count at the isolation level in use). Source:
the verdict of jepsen.tests.kafka, which the native rules extend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from checker.kernels.log_starts_and_ends import not_caught_up
from harness.model.check_options import CheckOptions, Settings
from harness.model.values_as_text import many

# The fs that may fail throughout a run without making its verdict unknown.
MAY_ALWAYS_FAIL: Final = frozenset({"crash", "debug-topic-partitions"})
EVENTS: Final = "events/harness.jsonl"
TROUBLE: Final = frozenset({"trouble", "interrupted"})
# The event that a run writes once the final polls of every client have reached the end of its logs.
FINAL_POLLS_COMPLETE: Final = ("phase", "final polls complete")


def faults_without_effect(nemesis: pa.Table, expected: Iterable[str]) -> list[str]:
    """Returns the expected faults that never took effect.

    nemesis  the table NEMESIS of the history
    """
    took: set[str] = set()
    for fault, value in zip(nemesis.column("fault").to_pylist(), nemesis.column("value").to_pylist(), strict=True):
        data = orjson.loads(value)
        if isinstance(data, dict) and data.get("took_effect") is True:
            took.add(fault)
    return [name for name in expected if name not in took]


@dataclass(frozen=True, slots=True)
class RunEvents:
    """The content of a run's events/harness.jsonl.

    events   the events, in the order of the file
    damaged  the numbers of the lines that are not events
    """

    events: tuple[Mapping[str, Any], ...]
    damaged: tuple[int, ...]


def run_events(run: Path) -> RunEvents | None:
    """Reads events/harness.jsonl of a run folder. Returns None if it does not exist or cannot be read."""
    file = run / EVENTS
    try:
        lines = file.read_bytes().split(b"\n") if file.is_file() else None
    except OSError:
        lines = None
    if lines is None:
        return None
    found: list[Mapping[str, Any]] = []
    damaged = []
    for number, line in enumerate(lines, 1):
        event: Any = None
        with suppress(orjson.JSONDecodeError):
            event = orjson.loads(line)
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            found.append(event)
        elif line and number < len(lines):  # the last line of a killed writer may be torn
            damaged.append(number)
    return RunEvents(tuple(found), tuple(damaged))


def unfinished_final_polls(run: Path, options: CheckOptions) -> list[str]:
    """Returns the reasons why the final polls may be incomplete although the history shows no incomplete one.

    If a client's last final poll never completed, `not_caught_up` does not require this client to have read to the end,
    because a new client normally replaces it. Only the run's events show whether the final polls really finished.
    """
    if not options.require_final_polls:
        return []
    events = run_events(run)
    if events is None:
        return [
            f"the run's {EVENTS} is missing or unreadable, so it is unknown whether the final polls finished; restore "
            "the file"
        ]
    if any((event["event"], event.get("detail")) == FINAL_POLLS_COMPLETE for event in events.events):
        return []
    return ["the final polls did not finish"]


def perhaps_lost(count: int, settings: Settings) -> list[str]:
    """Returns a list with the reason for `unknown` if it depends on unknown settings whether missing records are lost.

    `count` is the number of these records. If it is 0, the list is empty.
    """
    if not count:
        return []
    names = (("transactions", settings.txn), ("isolation.level", settings.isolation_level))
    which = " and ".join(name for name, value in names if value is None)
    are = "is" if count == 1 else "are"
    return [
        f"{many(count, 'record')} of indeterminate operations {are} missing from logs that were read to the end; "
        f"whether this is a loss depends on settings that are not known: {which}"
    ]


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def trouble(run: Path) -> list[str]:
    """Returns the reasons for `unknown` that the run's events give: trouble, interruptions, and damaged lines."""
    events = run_events(run)
    if events is None:
        return []
    found: list[str] = []
    for event in events.events:
        if event["event"] in TROUBLE:
            detail = event.get("detail") or ""
            text = detail if isinstance(detail, str) else orjson.dumps(detail).decode()
            found.append("the run was interrupted" if event["event"] == "interrupted" else "the run had trouble")
            if text:
                found[-1] += f": {text}"
    if events.damaged:
        others = len(events.damaged) - 1
        more = f" (and {many(others, 'more line')})" if others else ""
        found.append(f"{EVENTS}, line {events.damaged[0]}: not an event{more}; restore the file that the run wrote")
    return list(dict.fromkeys(found))


def truncated_history(meta: Mapping[str, Any]) -> list[str]:
    """Returns a list with the reason for `unknown` if the history is truncated in its last line; otherwise []."""
    if meta.get("truncated") is None:
        return []
    return [f"{meta['truncated']}, so records missing from the rest prove nothing; check the complete history"]


def reasons(
    meta: Mapping[str, Any],
    statistics: Mapping[str, Any],
    unseen: int,
    nemesis: pa.Table,
    ends: pa.Table,
    options: CheckOptions,
) -> list[str]:
    """Returns the reasons why the verdict cannot be `valid`, each as a sentence.

    meta        the metadata of the tables (checker.tables.make_tables)
    statistics  the totals of the history (checker.kernels.statistics)
    unseen      the number of values that must exist and were never polled
    nemesis     the table NEMESIS
    ends        the table ENDS
    """
    if meta["ops"] == 0:
        return ["the history contains no operations"]
    found = truncated_history(meta)
    if not any(f in meta["counts"] for f in ("send", "poll", "txn")):
        found.append("the history contains no send, poll or txn")
    elif statistics["acknowledged"] == 0:
        found.append("nothing was acknowledged, so nothing could be lost")
    for f, kinds in sorted(meta["counts"].items()):
        if not kinds.get("ok") and f not in MAY_ALWAYS_FAIL:
            tried = sum(kinds.values())
            found.append(f"no {f} ever succeeded ({many(tried, 'attempt')})")
    for fault in faults_without_effect(nemesis, options.expected_faults):
        found.append(f"the fault {fault} never took effect")
    if options.require_final_polls:
        behind = not_caught_up(ends, meta)
        if behind:
            found.append(behind)
        elif statistics["keys_not_read_to_end"]:
            left = statistics["keys_not_read_to_end"]
            found.append(f"{many(left, 'log')} that should contain records {_were(left)} not read to the end")
    if unseen and statistics["keys_not_read_to_end"]:
        which = f"{many(unseen, 'record')} that should be in the log {_were(unseen)} never read"
        found.append(f"{which}, and not every log was read to its end")
    return found
