"""The native verdict: why it is withheld.

Most of the native rules are in the kernels (tail loss, legal deletion, rebalances) and the catalogue of
anomalies (which count under the isolation level in force). Here is what remains: the reasons for `unknown`.
Where a history or its run cannot show that all is well, the verdict does not say so. Source:
jepsen.tests.kafka, whose verdict it widens.
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

# An f that never succeeded says nothing when it is one of these.
MAY_ALWAYS_FAIL: Final = frozenset({"crash", "debug-topic-partitions"})
EVENTS: Final = "events/harness.jsonl"
TROUBLE: Final = frozenset({"trouble", "interrupted"})
# The event that a run writes once every client's final polls have reached the end of its logs.
FINAL_POLLS_COMPLETE: Final = ("phase", "final polls complete")


def faults_without_effect(nemesis: pa.Table, expected: Iterable[str]) -> list[str]:
    """Those of the expected faults of which no start says that it took effect."""
    took: set[str] = set()
    for fault, value in zip(nemesis.column("fault").to_pylist(), nemesis.column("value").to_pylist(), strict=True):
        data = orjson.loads(value)
        if isinstance(data, dict) and data.get("took_effect") is True:
            took.add(fault)
    return [name for name in expected if name not in took]


@dataclass(frozen=True, slots=True)
class Noted:
    """What a run noted in events/harness.jsonl: its events, and the numbers of the lines that are none."""

    events: tuple[Mapping[str, Any], ...]
    damaged: tuple[int, ...]


def noted(run: Path) -> Noted | None:
    """The lines of events/harness.jsonl; None when a run folder has no such file, or it cannot be read."""
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
    return Noted(tuple(found), tuple(damaged))


def unfinished(run: Path, options: CheckOptions) -> list[str]:
    """Why the final polls do not count though all that is recorded of them may look well.

    A client whose last final op never completed is not among those that must have caught up, and its slot may
    never have got another: only the run knows whether each slot was done.
    """
    if not options.require_final_polls:
        return []
    found = noted(run)
    if found is None:
        return [f"the run's {EVENTS} is missing, so whether its final polls finished is not known; put it back"]
    if any((event["event"], event.get("detail")) == FINAL_POLLS_COMPLETE for event in found.events):
        return []
    return ["the final polls did not finish"]


def perhaps_lost(count: int, settings: Settings) -> list[str]:
    """That `count` more records are lost if the settings that are not known are such that they had to exist."""
    if not count:
        return []
    names = (("transactions", settings.txn), ("isolation.level", settings.isolation_level))
    which = " and ".join(name for name, value in names if value is None)
    return [
        f"{many(count, 'record')} of operations whose outcome is not known {_were(count)} missing in what was read to "
        f"the end, and whether this is a loss depends on settings that are not known: {which}"
    ]


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def trouble(run: Path) -> list[str]:
    """What the harness itself noted in events/harness.jsonl as trouble or interruption, and lines that it cannot
    have noted."""
    events = noted(run)
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
        more = f" (and {len(events.damaged) - 1} more lines)" if len(events.damaged) > 1 else ""
        found.append(f"{EVENTS}, line {events.damaged[0]}: not an event{more}; put back the file as the run wrote it")
    return list(dict.fromkeys(found))


def cut_off(meta: Mapping[str, Any]) -> list[str]:
    """That the history breaks off in its last line."""
    if meta.get("truncated") is None:
        return []
    return [f"{meta['truncated']}: what is absent from the rest proves nothing; judge the whole history"]


def reasons(
    meta: Mapping[str, Any],
    statistics: Mapping[str, Any],
    unseen: int,
    nemesis: pa.Table,
    ends: pa.Table,
    options: CheckOptions,
) -> list[str]:
    """Why the history cannot be called valid, each a sentence. `unseen`: values never polled that should exist."""
    if meta["ops"] == 0:
        return ["the history holds no operations"]
    found = cut_off(meta)
    if not any(f in meta["counts"] for f in ("send", "poll", "txn")):
        found.append("the history holds no send, poll or txn")
    elif statistics["acknowledged"] == 0:
        found.append("nothing was acknowledged, so nothing could be lost")
    for f, kinds in sorted(meta["counts"].items()):
        if not kinds.get("ok") and f not in MAY_ALWAYS_FAIL:
            tried = sum(kinds.values())
            found.append(f"no {f} ever succeeded ({tried} tried)")
    for fault in faults_without_effect(nemesis, options.expected_faults):
        found.append(f"the fault {fault} never took effect")
    if options.require_final_polls:
        behind = not_caught_up(ends, meta)
        if behind:
            found.append(behind)
        elif statistics["keys_not_read_to_end"]:
            left = statistics["keys_not_read_to_end"]
            found.append(f"{many(left, 'log')} with records that should be there {_were(left)} not read to the end")
    if unseen and statistics["keys_not_read_to_end"]:
        which = f"{many(unseen, 'record')} that should be in the log {_were(unseen)} never read"
        found.append(f"{which}, and not every log was read to its end")
    return found
