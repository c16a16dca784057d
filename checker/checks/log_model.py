"""The log-model check: turns the divergences between brokers and the log model into anomalies.

A run of this workload executes random steps on the brokers and on an executable model of their logs. It compares the
results of each step immediately, because the following steps depend on the result. It writes each divergence to
events/harness.jsonl, with a program (a list of steps) that `harness model replay` can repeat. The verdict is unknown if
the run was cut short, or if nothing was acknowledged or read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from checker.anomalies.log_divergence import ANOMALY
from checker.tables.buckets_of_a_history import Source
from checker.verdict import results, unknown_reasons
from checker.version import VERSION
from harness.model.check_options import CheckOptions
from harness.model.check_result import AnomalyFound, Result, Verdict

SHOWN: Final = 20
_NEEDED: Final = ("log-append", "log-read")


def check(source: Source, options: CheckOptions) -> Result:
    """Returns a result in which each divergence that the run recorded is an anomaly."""
    folder = source.run or source.noted
    recorded = unknown_reasons.run_events(folder) if folder is not None else None
    events = None if recorded is None else recorded.events
    counts = source.meta["counts"]
    reasons = [*source.meta["doubts"], *unknown_reasons.truncated_history(source.meta)]
    if folder is None or events is None:
        reasons.append(
            f"the results of the steps are in the run's {unknown_reasons.EVENTS}, which is missing or unreadable"
        )
    else:
        reasons += unknown_reasons.trouble(folder)
    divergences = [event for event in events or () if event.get("event") == "divergence"]
    steps = next((event for event in events or () if event.get("event") == "steps"), {})
    if not divergences and steps.get("done") != steps.get("asked", -1):
        reasons.append(f"not all steps were executed: {steps.get('detail', 'the run ended early')}")
    if steps.get("copied") == 0:
        reasons.append("no segment was ever copied to the remote tier")
    reasons += [f"no {f} ever succeeded" for f in _NEEDED if not _succeeded(counts, f)]
    witnesses = [_witness(event) for event in divergences]
    if source.run is not None:
        results.clear(source.run)
        if witnesses:
            results.write_part(source.run, ANOMALY.name, 0, witnesses)
        results.finish(source.run)
    found = AnomalyFound(
        ANOMALY.name,
        ANOMALY.summary,
        len(witnesses),
        ANOMALY.bad(witnesses, options),
        ANOMALY.promised(options.settings),
        tuple(witnesses[:SHOWN]),
    )
    figures = {"ops": source.meta["ops"], "steps": steps.get("done", 0), "seconds": steps.get("seconds")}
    figures["left_out"] = steps.get("left_out", 0)
    figures |= {"copied": steps["copied"]} if "copied" in steps else {}
    figures["by_f"] = counts
    verdict: Verdict = "invalid" if witnesses else "unknown" if reasons else "valid"
    return Result(verdict, True if witnesses else None, tuple(reasons), (found,) if witnesses else (), figures, VERSION)


def _succeeded(counts: dict[str, Any], f: str) -> bool:
    return any(kinds.get("ok") for name, kinds in counts.items() if name in (f, f"{f}-all"))


def _witness(event: Mapping[str, Any]) -> dict[str, Any]:
    names = ("seen", "step", "actions", "program", "said")
    return {"over": event.get("detail", ""), **{name: event.get(name) for name in names}}
