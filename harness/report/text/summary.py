"""The summary of a run on one screen: the verdict, its reasons, the anomalies, the faults, and where to find more."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.model.check_result import AnomalyFound, Result
from harness.model.values_as_text import plain
from harness.report import order_paths
from harness.report.text import client_names, pipeline_text
from harness.report.text.witness_text import witness_text
from harness.stored import fault_spans, find_runs
from harness.stored.operations_and_records import Lookup, of_run

WIDTH: Final = 100
TABLED: Final = 6


BRIEF: Final = 3


def summary(run: Path, result: Result, witnesses: int = 1, brief: bool = False) -> str:
    """Summarizes a run's result as plain text.

    run        the run folder, or a history file; for a file, the summary is shorter
    witnesses  maximum number of witnesses for each bad anomaly; results.json may contain fewer
    brief      whether to shorten the summary so that it fits on a screen: few faults, and witnesses of few anomalies
    """
    folder = run if (run / "history").is_dir() else None
    plan = find_runs.plan_of(folder) if folder is not None else {}
    facts = of_run(folder) if folder is not None else None
    blocks = [
        [_wrap(verdict(result, plan), "", "  "), _about(run, plan)],
        _reasons(result),
        _anomalies(result, brief),
        *_witnesses(result, facts, witnesses, BRIEF if brief else None),
        _faults(facts.spans if facts is not None else [], BRIEF if brief else TABLED),
        [*_statistics(result.statistics), *_metadata(result.statistics.get("metadata"))],
        [_wrap(line, "", "  ") for line in pipeline_text.figures(result.statistics)],
        _where(folder, result, brief),
    ]
    return "\n\n".join("\n".join(line for line in block if line) for block in blocks if any(block))


def witness(found: Mapping[str, Any], anomaly: str, facts: Lookup | None = None) -> str:
    """Describes one witness in prose, without line breaks."""
    return witness_text(anomaly, found, facts)


def _wrap(text: str, first: str = "  ", rest: str = "    ") -> str:
    return textwrap.fill(
        plain(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _settings(plan: Mapping[str, Any]) -> str:
    """Returns the settings that decide what Kafka guarantees: acks, transactions, idempotence, isolation level."""
    parts = [f"acks={plan['acks']}"] if plan.get("acks") is not None else []
    if plan.get("txn"):
        parts.append("transactions")
    elif plan.get("idempotence") is not None:
        parts.append(f"idempotence {'on' if plan['idempotence'] else 'off'}")
    if plan.get("isolation_level") == "read_uncommitted":
        parts.append("read_uncommitted")
    return ", ".join(parts)


PROMISE: Final[Mapping[bool | None, str]] = {
    True: "The settings{} guarantee that this cannot happen.",
    False: "The settings{} do not rule this out.",
    None: "It is unknown whether the settings{} rule this out.",
}


def verdict(result: Result, plan: Mapping[str, Any]) -> str:
    """Returns the verdict as one or two sentences on one line."""
    bad = [found for found in result.anomalies if found.bad]
    if result.valid == "invalid":
        names = ", ".join(f"{found.name} ({found.count:,})" for found in bad)
        settings = _settings(plan)
        promise = PROMISE[result.promised].format(f" ({settings})" if settings else "")
        if plan.get("app") and result.promised is None:
            promise = f"The application promises {plan['app'].get('promise')}."
        return f"INVALID: {names}. {promise}"
    if result.valid == "unknown":
        first = result.reasons[0] if result.reasons else "nothing was checked"
        more = f" (and {_count(len(result.reasons) - 1, 'more reason')})" if len(result.reasons) > 1 else ""
        return f"UNKNOWN: {first}{more}"
    return f"VALID: no anomaly in {_count(int(result.statistics.get('ops', 0)), 'operation')}"


def _about(run: Path, plan: Mapping[str, Any]) -> str:
    if not plan:
        return f"history {run}"
    nemesis = find_runs.faults_of(plan)
    limit = plan.get("time_limit_s")
    versions = plan.get("versions")
    kafka = versions.get("kafka") if isinstance(versions, dict) else None
    upgraded = f" to {plan['upgrade_to']}" if plan.get("upgrade_to") else ""
    parts = [
        str(plan.get("workload") or ""),
        f"nemesis {', '.join(nemesis)}" if nemesis else "no nemesis",
        _settings(plan),
        f"{limit:g} s of load" if isinstance(limit, int | float) else "",
        "librdkafka's mock cluster" if plan.get("cluster") == "mock" else f"Kafka {kafka}{upgraded}" if kafka else "",
        client_names.client_text(plan),
    ]
    return _wrap(f"run {plan.get('run') or run.name}: {', '.join(part for part in parts if part)}", "", "  ")


def _reasons(result: Result) -> list[str]:
    if not result.reasons or (result.valid == "unknown" and len(result.reasons) == 1):
        return []
    head = "why" if result.valid == "unknown" else "even without these anomalies the run would not be valid, because"
    return [head, *(_wrap(reason, "  - ") for reason in result.reasons)]


MARKS: Final[Mapping[bool | None, str]] = {
    True: " (The settings guarantee that this cannot happen.)",
    False: " (The settings do not rule this out.)",
    None: " (It is unknown whether the settings rule this out.)",
}


def _anomalies(result: Result, brief: bool) -> list[str]:
    if not result.anomalies:
        return []
    bad = [found for found in result.anomalies if found.bad]
    fine = [found for found in result.anomalies if not found.bad]
    width = max(len(found.name) for found in result.anomalies)
    mixed = len({found.promised for found in bad}) > 1  # otherwise the first line of the summary covers all of them
    lines = ["anomalies"] if bad else []
    lines += [_anomaly(found, width, MARKS[found.promised] if mixed else "") for found in bad]
    if fine and brief:
        names = ", ".join(f"{found.name} {found.count:,}" for found in fine)
        lines.append(_wrap(f"anomalies that do not affect the verdict: {names}", "", "  "))
    elif fine:
        lines += ["anomalies that do not affect the verdict"]
        lines += [_anomaly(found, width, "") for found in fine]
    return lines


def _anomaly(found: AnomalyFound, width: int, mark: str) -> str:
    head = f"  {found.name:{width}} {found.count:>8,}  "
    return _wrap(found.summary + mark, head, " " * len(head))


def _witnesses(result: Result, facts: Lookup | None, count: int, anomalies_max: int | None) -> list[list[str]]:
    """Returns a block with at most `count` witnesses for each bad anomaly.

    anomalies_max  maximum number of anomalies; None: all
    """
    blocks: list[list[str]] = []
    for found in result.anomalies:
        if not found.bad or count <= 0 or not found.witnesses:
            continue
        if anomalies_max is not None and len(blocks) >= anomalies_max:
            break
        shown = found.witnesses[:count]
        head = found.name if len(shown) == found.count else f"{found.name}, {len(shown)} of {found.count:,}"
        if found.name == "unseen":
            head = found.name
        blocks.append([head, *(_wrap(witness_text(found.name, each, facts), "  - ") for each in shown)])
    return blocks


def _faults(found: Sequence[fault_spans.Span], most: int) -> list[str]:
    if not found:
        return []
    lines = []
    for name in dict.fromkeys(span.fault for span in found):
        mine = [span for span in found if span.fault == name]
        took = sum(span.took_effect is True for span in mine)
        lines.append(f"  {name}: {_count(len(mine), 'time')}, {took} took effect")
        lines += [_wrap(_span(span), "    ", "      ") for span in mine[:most]]
        if len(mine) > most:
            lines.append(f"    ... and {len(mine) - most} more")
    return ["faults", *lines]


def _span(span: fault_spans.Span) -> str:
    begin = f"{span.begin_ns / 1e9:.1f}"
    when = f"{begin} s to the end" if span.end_ns is None else f"{begin}-{span.end_ns / 1e9:.1f} s"
    what = "no node" if span.detail or span.new_leaders else "no target"
    text = f"{when}  {', '.join(span.hit) or what}"
    if span.took_effect is False:
        return f"{text}: no effect"
    details = [span.detail] if span.detail else []
    if span.new_leaders:
        nodes = ", ".join(sorted(set(span.new_leaders.values())))
        details.append(f"{_count(len(span.new_leaders), 'partition')} got a new leader ({nodes})")
    return f"{text}: {'; '.join(details)}" if details else text


def _statistics(figures: Mapping[str, Any]) -> list[str]:
    sent = figures.get("sent")
    if not isinstance(sent, int):
        return []
    acknowledged = int(figures.get("acknowledged", 0))

    def share(name: str, of: int) -> str:
        n = int(figures.get(name, 0))
        return f"{n:,} {name}" + (f" ({_percent(n, of)})" if n and of else "")

    records = [f"{sent:,} sent", share("acknowledged", sent)]
    records += [share(name, acknowledged) for name in ("seen", "lost", "duplicated")]
    if figures.get("phantom"):
        records.append(f"{figures['phantom']:,} phantom")
    lines = [_wrap(f"records: {', '.join(records)}", "", "  ")]
    outcomes = _outcomes(figures.get("by_f"))
    if outcomes:
        lines.append(_wrap(f"operations: {outcomes}", "", "  "))
    if figures.get("started_over"):
        times = _count(figures["started_over"], "time")
        why = "they read nothing for ten seconds, or an operation had no outcome"
        lines.append(_wrap(f"final polls: clients started over {times}, because {why}", "", "  "))
    if figures.get("truncated"):
        lines.append(_wrap(f"the history is truncated: {figures['truncated']}", "", "  "))
    return lines


def _metadata(figures: Any) -> list[str]:
    """Returns what there was to judge in the metadata log."""
    if not isinstance(figures, Mapping) or "compared" not in figures:
        return []
    parts = (("epochs", "epoch"), ("snapshots_compared", "snapshot"), ("elections", "partition election"))
    counts = [_count(figures[name], what) for name, what in parts]
    compared = f"{_count(figures['compared'], 'record')} compared on {_count(figures['servers'], 'server')}"
    return [_wrap(f"metadata log: {', '.join([compared, *counts])}", "", "  ")]


def _percent(part: int, whole: int) -> str:
    """Formats part / whole as a percentage. Only the whole becomes 100%; very small parts become "< 0.1%"."""
    value = 100 * part / whole
    if part == whole:
        return "100%"
    return "< 0.1%" if value < 0.1 else "> 99.9%" if value > 99.9 else f"{value:.1f}%"


def _outcomes(by_f: Any) -> str:
    if not isinstance(by_f, dict):
        return ""
    return "; ".join(
        f"{f} {', '.join(f'{kinds[kind]:,} {kind}' for kind in ('ok', 'fail', 'info') if kinds.get(kind))}"
        for f, kinds in sorted(by_f.items(), key=lambda item: -sum(item[1].values()))
    )


def _where(folder: Path | None, result: Result, brief: bool) -> list[str]:
    if folder is None:
        return []
    if brief:  # the suggested commands follow the summary
        return [f"plots: {folder / 'plots'}   server logs: {folder / 'logs'}"]
    lines = [f"open: {folder / find_runs.PAGE}"] if (folder / find_runs.PAGE).is_file() else []
    if any(found.count for found in result.anomalies):
        lines.append(f"explanations: harness explain {folder}")
    if order_paths.index(folder).is_file():
        lines.append(f"writers and readers of every offset, key by key: {order_paths.index(folder)}")
    if any(found.count for found in result.anomalies):
        lines.append(f"all witnesses: {folder / 'results' / 'witnesses'}")
    lines.append(f"plots: {folder / 'plots'}   server logs: {folder / 'logs'}")
    return lines
