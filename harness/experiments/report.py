"""Reports the results of experiments as text, Markdown and CSV: one row per case, with claimed and measured effects."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from harness.experiments import record
from harness.experiments.expectations import figure
from harness.experiments.run import Attempt, Tried, describe, summary
from harness.experiments.spec import Experiment
from harness.plan import derived
from harness.plan.test_plan import TestPlan

# Column of the study's table -> path of the statistic that counts the affected records.
EFFECTS: Final[Mapping[str, str]] = {
    "phantom": "delivery.phantoms",
    "duplicate": "delivery.duplicates",
    "loss": "delivery.lost",
}
SETTINGS: Final[Mapping[str, Callable[[TestPlan], Any]]] = {
    "acks": lambda plan: plan.acks,
    "retries": lambda plan: "default" if plan.retries is None else plan.retries,
    "idempotence": lambda plan: "on" if derived.idempotent(plan) else "off",
    "fault": lambda plan: ", ".join(plan.nemesis) or "none",
    "fetch wait": lambda plan: plan.broker_config.get("replica.fetch.wait.max.ms", "default"),
    "min bytes": lambda plan: plan.broker_config.get("replica.fetch.min.bytes", "default"),
    "lag": lambda plan: plan.broker_config.get("replica.lag.time.max.ms", "default"),
    "record": lambda plan: f"{plan.record_bytes} B" if plan.record_bytes else "default",
    "request timeout": lambda plan: f"{plan.request_timeout_s:g} s",
    "Kafka": lambda plan: plan.kafka_version,
    "client": lambda plan: ",".join(plan.client),
}


def write(folder: Path, chosen: Experiment, tried: Sequence[Tried], began: str) -> None:
    """Writes report.md, table.csv and results.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(document(chosen, tried))
    (folder / "table.csv").write_text(as_csv(rows(tried)))
    (folder / record.FILE).write_text(json.dumps(record.data(chosen, tried, began), default=str, indent=1))


def rows(tried: Sequence[Tried]) -> list[dict[str, str]]:
    """Returns a row for each case: its settings, effects, cost, and whether its results are as expected.

    An effect is "claimed | measured", with ≠ if the two differ. Omits columns that do not apply: the effects, if no
    case uses the delivery workload; and settings and figures that no case has.
    """
    accounted = any(one.case.test_plan(0).workload == "delivery" for one in tried)
    found = [_row(one) for one in tried]
    omitted = {name for name in SETTINGS if all(row[name] == "default" for row in found)}
    omitted |= {name for row in found[:1] for name in row if all(not row[name] for row in found)}
    omitted |= set() if accounted else set(EFFECTS)
    return [{name: value for name, value in row.items() if name not in omitted} for row in found]


def _row(tried: Tried) -> dict[str, str]:
    case = tried.case
    plan = case.test_plan(0)
    judged = [attempt for attempt in tried.attempts if attempt.figures]
    row = {"case": f"{case.name} {case.variant}".strip()}
    row |= {name: str(read(plan)) for name, read in SETTINGS.items()}
    for effect, path in EFFECTS.items():
        row[effect] = _effect(case.claimed.get(effect), [figure(attempt.figures, path) for attempt in judged])
    row |= _cost(judged, plan)
    row["runs"] = str(len(tried.attempts))
    row["as expected"] = {0: "yes", 1: "NO"}.get(tried.exit_code, "unknown")
    return row


def _effect(claimed: bool | None, found: Sequence[float]) -> str:
    """Returns the claim about an effect, in how many runs it occurred, and how many records it affected.

    Appends ≠ if the claim and the measurement differ.

    found  the number of affected records in each run
    """
    if not found:
        return "not run"
    hit = sum(1 for count in found if count)
    low, high = min(found), max(found)
    records = "" if not hit else f": {low:.0f}" if low == high else f": {low:.0f} to {high:.0f}"
    measured = f"{hit} of {len(found)}{records}"
    if claimed is None:
        return measured
    return f"{'yes' if claimed else 'no'} | {measured}{'' if claimed == bool(hit) else ' ≠'}"


def _cost(judged: Sequence[Attempt], plan: TestPlan) -> dict[str, str]:
    """Returns medians over the runs: the latencies of acknowledged sends, and their number per second of load."""
    latencies = [attempt.figures.get("latencies", {}).get("send", {}) for attempt in judged]
    p50 = [float(latency["p50_ms"]) for latency in latencies if "p50_ms" in latency]
    p99 = [float(latency["p99_ms"]) for latency in latencies if "p99_ms" in latency]
    rates = [] if plan.records else [figure(attempt.figures, "acknowledged") / plan.time_limit_s for attempt in judged]
    return {
        "p50 ms": f"{median(p50):.1f}" if p50 else "",
        "p99 ms": f"{median(p99):.0f}" if p99 else "",
        "records/s": f"{median(rates):.0f}" if rates else "",
    }


def markdown(found: Sequence[Mapping[str, str]], columns: Sequence[str] | None = None) -> str:
    """Formats rows as a Markdown table. Columns with the same value in every row are listed below the table."""
    if not found:
        return ""
    names = list(columns or found[0])
    same = [name for name in names if len({row[name] for row in found}) == 1 and len(found) > 1]
    shown = [name for name in names if name not in same]
    lines = ["| " + " | ".join(shown) + " |", "|" + " --- |" * len(shown)]
    lines += ["| " + " | ".join(row[name].replace("|", "\\|") for name in shown) + " |" for row in found]
    stated = [f"{name}: {found[0][name]}" for name in same if found[0][name]]
    return "\n".join([*lines, "", *([f"In every row: {', '.join(stated)}."] if stated else [])])


def text(found: Sequence[Mapping[str, str]]) -> str:
    """Formats the columns whose values differ between rows, and the effects, aligned for a terminal."""
    names = [name for name in (found[0] if found else ()) if len({row[name] for row in found}) > 1]
    names = list(dict.fromkeys(["case", *names, *(name for row in found[:1] for name in EFFECTS if name in row)]))
    widths = {name: max(len(name), *(len(row[name]) for row in found)) for name in names}
    lines = ["  ".join(f"{name:{widths[name]}}" for name in names)]
    lines += ["  ".join(f"{row[name]:{widths[name]}}" for name in names) for row in found]
    return "\n".join(line.rstrip() for line in lines)


def as_csv(found: Sequence[Mapping[str, str]]) -> str:
    """Formats all columns as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(found[0]) if found else [])
    writer.writeheader()
    writer.writerows(found)
    return out.getvalue()


def document(chosen: Experiment, tried: Sequence[Tried]) -> str:
    """Describes the whole experiment in Markdown: its purpose, the table, and every case with its runs."""
    parts = [f"# {chosen.name}: {chosen.title}", chosen.why, f"Source: {chosen.source}"]
    parts.append(markdown(rows(tried)))
    for case_tried in tried:
        parts.append(f"## {case_tried.case.name} {case_tried.case.variant}".rstrip())
        parts.append(case_tried.case.title)
        parts.append("\n".join(f"- {line}" for line in summary(case_tried)))
        parts.append("\n".join(f"- {describe(attempt)}" for attempt in case_tried.attempts))
    return "\n\n".join(part for part in parts if part) + "\n"
