"""The native verdict: why it is withheld.

Most of the native rules are in the kernels (tail loss, legal deletion, rebalances) and the catalogue of
anomalies (which count under the isolation level in force). Here is what remains: the reasons for `unknown`.
Where a history or its run cannot show that all is well, the verdict does not say so. Source:
jepsen.tests.kafka, whose verdict it widens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from checker.kernels.log_starts_and_ends import not_caught_up
from harness.model.check_options import CheckOptions

# An f that never succeeded says nothing when it is one of these.
MAY_ALWAYS_FAIL: Final = frozenset({"crash", "debug-topic-partitions"})
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


def events(run: Path) -> list[dict[str, Any]] | None:
    """The lines of events/harness.jsonl; None when a run folder has no such file."""
    file = run / "events" / "harness.jsonl"
    if not file.is_file():
        return None
    found = []
    for line in file.read_bytes().splitlines():
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:  # the torn last line of a killed writer
            continue
        if isinstance(event, dict):
            found.append(event)
    return found


def unfinished(run: Path, options: CheckOptions) -> list[str]:
    """Why the final polls do not count though all that is recorded of them may look well.

    A client whose last final op never completed is not among those that must have caught up, and its slot may
    never have got another: only the run knows whether each slot was done.
    """
    noted = events(run)
    if not options.require_final_polls or noted is None:
        return []
    if any((event.get("event"), event.get("detail")) == FINAL_POLLS_COMPLETE for event in noted):
        return []
    return ["the final polls did not finish"]


def trouble(run: Path) -> list[str]:
    """What the harness itself noted in events/harness.jsonl as trouble or interruption."""
    found: list[str] = []
    for event in events(run) or ():
        if event.get("event") in TROUBLE:
            detail = event.get("detail") or ""
            text = detail if isinstance(detail, str) else orjson.dumps(detail).decode()
            found.append("the run was interrupted" if event["event"] == "interrupted" else "the run had trouble")
            if text:
                found[-1] += f": {text}"
    return list(dict.fromkeys(found))


def reasons(
    meta: Mapping[str, Any],
    statistics: Mapping[str, Any],
    unseen: int,
    nemesis: pa.Table,
    ends: pa.Table,
    options: CheckOptions,
) -> list[str]:
    """Why the history cannot be called valid, each a sentence. `unseen`: acknowledged values never polled."""
    if meta["ops"] == 0:
        return ["the history holds no operations"]
    found = []
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
            found.append(f"{left} keys with acknowledged records were not read to their end")
    if unseen and statistics["keys_not_read_to_end"]:
        found.append(f"{unseen} acknowledged records were never read, and their logs were not read to the end")
    return found
