"""Writes the run page of a stored run: runs/ID/report.html.

Missing or damaged files of the run are reported on the page. The size of the page does not depend on the length of
the history: it is at most BYTES_MAX. If the witnesses are large, fewer are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.model.values_as_text import plain
from harness.report.page import chart_series, document, record_lives, settings_and_command, witness_groups
from harness.report.page.record_lives import Lives
from harness.report.page.witness_groups import Group
from harness.report.plots import bin_operations
from harness.report.plots.bin_operations import Readings
from harness.report.text import summary
from harness.stored import damaged, fault_spans, find_runs
from harness.stored.fault_spans import Span

BYTES_MAX: Final = 3_000_000
# (witnesses, lines) per anomaly, tried in turn until the page is small enough.
SHOWN: Final = ((witness_groups.OF_EACH, witness_groups.LISTED_MAX), (5, 100), (3, 30), (1, 0), (0, 0))
FAULTS_MAX: Final = 300
RUNNING: Final = "owner"  # a file in the run folder while the run is in progress; see `harness.history_writer`
FIGURES: Final = ("sent", "acknowledged", "seen", "lost", "duplicated", "phantom")
OUTCOMES: Final = ("ok", "info", "fail")


def path(run: Path) -> Path:
    """Returns the path of a run's page."""
    return run / find_runs.PAGE


def draw(run: Path) -> Path:
    """Writes the page of a run folder and returns its path. Raises Missing if it cannot be written."""
    text = page(run)
    target = path(run)
    temporary = target.with_name(f"{find_runs.PAGE}.part")
    try:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(target)
    except OSError as error:
        raise Missing(
            f"{target}: cannot be written ({error.strerror}); free some space or fix the permissions, or copy the "
            "run folder to a writable place"
        ) from None
    return target


def page(run: Path) -> str:
    """Returns the page of a run folder as HTML, with as many witnesses as its maximum size allows."""
    plan = find_runs.plan_of(run)
    result, notes = _result(run)
    data, faults = _readings(run, notes)
    groups = _groups(run, result, data, notes)
    charts = chart_series.of_run(run, data, faults)
    lives = record_lives.of_run(run, plan, result)
    text = ""
    for most, lines in SHOWN:
        kept = [replace(group, shown=group.shown[:most], listed=_thinned(group.listed, lines)) for group in groups]
        values = _values(run, plan, result, notes, faults, kept, data, lives)
        text = document.render("report.html.j2", {**charts, **_found(run, kept, data.end_s)}, values)
        if len(text.encode(errors="backslashreplace")) <= BYTES_MAX:
            break
    return text


def _thinned(listed: Sequence[Any], most: int) -> tuple[Any, ...]:
    """Returns at most `most` of the items, evenly spaced."""
    return tuple(listed[:: -(-len(listed) // most)]) if most and listed else ()


def _found(run: Path, groups: Sequence[Group], end_s: float) -> dict[str, Any]:
    """Returns the data about witnesses and anomalies that the page's scripts use."""
    return {
        "explain": f"harness explain {plain(run)}",
        "witnesses": {one.slug: one.data for group in groups for one in group.shown},
        "anomalies": [
            {
                "name": plain(group.found.name),
                "slug": group.slug,
                "bad": group.found.bad,
                "count": group.found.count,
                "joined": group.joined,
                "verb": group.verb,
                "listed": [list(row) for row in group.listed],
                **chart_series.moments(group.times, end_s),
            }
            for group in groups
        ],
    }


def _result(run: Path) -> tuple[Result | None, list[str]]:
    """Returns the result and an empty list, or None and a message that says why there is no usable result."""
    try:
        result = find_runs.result_of(run)
    except BadInput as error:
        return None, [f"The results cannot be used: {plain(error)}"]
    if result is not None:
        return result, []
    if (run / RUNNING).exists():
        return None, ["This run was still in progress, or had been interrupted, when this page was made."]
    return None, [f"This run was not judged (it has no results.json); run: harness check {plain(run)}"]


def _sentence(result: Result | None, plan: Mapping[str, Any]) -> str:
    return "Not judged." if result is None else plain(summary.verdict(result, plan))


def _readings(run: Path, notes: list[str]) -> tuple[Readings, list[Span]]:
    """Returns the operations and faults for the charts.

    If the run's tables are missing or damaged, returns empty data and appends a message to `notes`.
    """
    try:
        data, faults = bin_operations.read(run), fault_spans.of_run(run)
    except damaged.DAMAGED as error:
        notes.append(f"No charts: the tables cannot be read ({plain(error)}). Run: harness check {plain(run)}")
        return Readings(0.0, None, {}), []
    if not data.by_f:
        notes.append(f"No charts: there are no tables yet. Run: harness check {plain(run)}")
    return data, faults


def _groups(run: Path, result: Result | None, data: Readings, notes: list[str]) -> list[Group]:
    if result is None:
        return []
    ops = sum(reading.count for reading in data.by_f.values())
    try:
        return witness_groups.groups_of_run(run, result, ops, data.end_s)
    except damaged.DAMAGED as error:
        notes.append(f"The witnesses in results.json cannot be shown ({type(error).__name__}: {plain(error)})")
        return []


def _values(
    run: Path,
    plan: Mapping[str, Any],
    result: Result | None,
    notes: Sequence[str],
    faults: Sequence[Span],
    groups: Sequence[Group],
    data: Readings,
    lives: Lives,
) -> dict[str, Any]:
    figures = result.statistics if result is not None else {}
    return {
        "name": plain(plan.get("run") or run.resolve().name),
        "folder": plain(run),
        "verdict": result.valid if result is not None else "not judged",
        "sentence": _sentence(result, plan),
        "reasons": [plain(reason) for reason in result.reasons] if result is not None else [],
        "notes": notes,
        "about": _about(plan, result, data),
        "settings": settings_and_command.changed(plan),
        "command": settings_and_command.command(plan, str(run)),
        "figures": [(name, value) for name in FIGURES if type(value := figures.get(name)) is int],
        "by_f": _by_f(data),
        "outcomes": OUTCOMES,
        "faults": chart_series.faults(faults[:FAULTS_MAX], data.end_s),
        "faults_left": max(0, len(faults) - FAULTS_MAX),
        "groups": groups,
        "lives": lives,
        "charted": bool(data.by_f),
    }


def _about(plan: Mapping[str, Any], result: Result | None, data: Readings) -> list[tuple[str, str]]:
    """Returns (name, text) for each fact about the run that is known, such as its workload."""
    versions = plan.get("versions")
    named = versions.items() if isinstance(versions, dict) else ()
    commit = plan.get("git_commit")
    ops = sum(reading.count for reading in data.by_f.values())
    rows = [
        ("workload", plan.get("workload")),
        ("faults", ", ".join(find_runs.faults_of(plan)) or ("none" if plan else None)),
        ("started", plan.get("started")),
        ("length", f"{data.end_s:.1f} s, {ops:,} operations" if ops else None),
        ("versions", ", ".join(f"{name} {version}" for name, version in named)),
        ("commit", str(commit)[:12] if commit else None),
        ("checker", result.checker_version if result is not None else None),
    ]
    return [(name, plain(value)) for name, value in rows if value]


def _by_f(data: Readings) -> list[tuple[str, dict[str, int]]]:
    """Returns (f, {outcome: number of operations}) for each function f, the most frequent first."""
    return [
        (
            plain(f),
            {name: int(data.by_f[f].rates[name].sum()) for name in OUTCOMES if name in data.by_f[f].rates},
        )
        for f in data.fs
    ]
