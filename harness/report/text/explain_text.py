"""Explanations as text for a terminal: of everything that was found, and of one witness in full."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checker.anomalies import cycle_prose
from harness.model.result import AnomalyFound, Result
from harness.model.wording import many, plain, seconds
from harness.report import order_paths as orders
from harness.report.text import op_text, witness_lookup
from harness.report.text.explain import Explanation, Told
from harness.report.text.witness_text import text as witness_text
from harness.stored import facts as lookup
from harness.stored import fault_spans
from harness.stored.facts import Lookup

WIDTH: Final = 110
FAULTS_MAX: Final = 8
PROMISED: Final[Mapping[bool | None, str]] = {
    True: "the settings promise that it does not happen",
    False: "the settings do not promise otherwise",
    None: "whether the settings promise otherwise is not known",
}


def _fill(text: str, indent: str = "  ", rest: str | None = None) -> str:
    return textwrap.fill(
        plain(text), WIDTH, initial_indent=indent, subsequent_indent=indent + "  " if rest is None else rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def overview(run: Path, result: Result) -> str:
    """Every anomaly, its count, the first witness, and how to see more."""
    blocks = [f"run {run.name}: {result.valid.upper()}" + _because(result)]
    facts = lookup.of_run(run)
    for held in result.anomalies:
        blocks.append(_block(run, held, facts))
    if not result.anomalies:
        blocks.append("no anomaly was found, so there is nothing to explain")
    pages = orders.pages(run)
    if pages:
        blocks.append(f"who wrote and who polled, key by key: {orders.index(run)}")
    return "\n\n".join(blocks)


def _because(result: Result) -> str:
    return "".join(f"\n{_fill(reason, '  - ', '    ')}" for reason in result.reasons)


def _block(run: Path, held: AnomalyFound, facts: Lookup | None) -> str:
    lines = [_fill(f"{_head(held)}. {held.summary}", "")]
    if held.witnesses:
        lines.append(_fill(witness_text(held.name, held.witnesses[0], facts), "  - ", "    "))
        more = (
            f"   ({held.name}#2 for the next one)" if held.count > 1 and held.name not in witness_lookup.JOINED else ""
        )
        lines.append(f"  in full: harness explain {run} {held.name}{more}")
    return "\n".join(lines)


def _head(held: AnomalyFound) -> str:
    if not held.bad:
        return f"{held.name}: {held.count:,}, not counted against the verdict"
    return f"{held.name}: {held.count:,}; {PROMISED[held.promised]}"


def text(told: Explanation) -> str:
    """The explanation for a terminal."""
    said = [] if told.chain else [_fill(told.text)]  # the chain of reasons says it, with names
    blocks = [_title(told), said, _operations(told), _reasoning(told), _faults(told), _servers(told)]
    return "\n\n".join("\n".join(block) for block in [*blocks, _onwards(told)] if block)


def _title(told: Explanation) -> list[str]:
    held = told.anomaly
    of = f" of {held.count:,}" if held.name not in witness_lookup.JOINED else ""
    state = PROMISED[held.promised] if held.bad else "not counted against the verdict"
    return [f"{held.name}#{told.number}{of}; {state}", _fill(held.summary)]


def _operations(told: Explanation) -> list[str]:
    if not told.ops:
        return []
    head = "Let" if told.chain else "operations"
    lines = [head]
    for op in told.ops:
        lines.append(_fill(op_line(op), "  ", "      "))
        lines += [_fill(line, "      ") for line in op_text.micro_ops(op.value, told.involved.focus)]
        lines += [_fill(line, "      ") for line in extras(op.extra)]
    size = told.witness.get("scc-size")
    every = size if type(size) is int and "cycle" not in told.witness else len(told.involved.ops)
    left = every - len(told.ops)
    return [*lines, f"  ... and {many(left, 'more operation')}"] if left > 0 else lines


def op_line(op: Told) -> str:
    """An op in a line: its name, who, what, how it ended, and when."""
    name = f"{op.name} = op {op.id}" if not op.name.startswith("op ") else op.name
    fact = op.fact
    if fact is None:
        return f"{name}: not in the tables"
    ended = fact.type if fact.complete_ns is not None else "never completed"
    when = seconds(fact.invoke_ns)
    if fact.complete_ns is not None and fact.complete_ns != fact.invoke_ns:
        when = f"{fact.invoke_ns / 1e9:.3f}-{seconds(fact.complete_ns)}"
    why = f" ({plain(fact.error)})" if fact.error else ""
    return f"{name}: process {fact.process}, {fact.f} {ended}, {when}{why}"


def extras(extra: Mapping[str, Any]) -> list[str]:
    """What stands beside the value of an op: rebalances and notes, a line each."""
    lines = []
    for event in extra.get("rebalance_log") or ():
        if isinstance(event, Mapping):
            lines.append(f"rebalance: {plain(event.get('event'))} keys {plain(event.get('keys'))}")
    lines += [f"note: {plain(note)}" for note in extra.get("notes") or ()]
    return lines[:4]


def _reasoning(told: Explanation) -> list[str]:
    if not told.chain:
        return []
    lines = ["Then", *(_fill(line) for line in told.chain)]
    return [*lines, _fill(cycle_prose.FORBIDDEN)] if told.witness.get("forbidden") else lines


def _faults(told: Explanation) -> list[str]:
    lines = ["faults that were on"]
    if not (told.moments or told.beside):
        return [*lines, "  not known: nothing says when this was"]
    for span in told.spans[:FAULTS_MAX]:
        end = "the end" if span.end_ns is None else seconds(span.end_ns)
        doubt = " (no effect)" if span.took_effect is False else ""
        lines.append(_fill(f"{span.label}{doubt}, {span.begin_ns / 1e9:.3f} s to {end}: during {_during(told, span)}"))
    if len(told.spans) > FAULTS_MAX:
        lines.append(f"  ... and {len(told.spans) - FAULTS_MAX} more")
    if not told.spans:
        last = told.before
        past = f"; the last one before, {last.label}, ended at {seconds(last.end_ns or 0)}" if last else ""
        lines.append(_fill(f"{nothing_on(told)}{past}"))
    return lines


def _during(told: Explanation, span: fault_spans.Span) -> str:
    """What a fault that was on met."""
    hit = [op.name for op in told.ops if op.moment is not None and fault_spans.during([span], *op.moment)]
    if not hit and any(fault_spans.during([span], *moment) for moment in told.moments):
        hit = ["it"]
    return ", ".join(hit) or "what happened around it"


def nothing_on(told: Explanation) -> str:
    """That no fault was on, and when."""
    timed = any(op.moment is not None for op in told.ops) and not told.beside
    return "none while these operations ran" if timed else "none at the times that it names"


def _servers(told: Explanation) -> list[str]:
    if not told.logs:
        return []
    lines = [f"what the servers logged (the most telling lines; all are in {told.run / 'logs'})"]
    return [
        *lines,
        *(_fill(f"{seconds(line.time_ns):>9}  {line.node}  {line.text}", "  ", " " * 17) for line in told.logs),
    ]


def _onwards(told: Explanation) -> list[str]:
    lines = []
    for key, offset, value in told.involved.places[:2]:
        place = f"--offset {offset}" if offset is not None else f"--value {plain(value)}"
        lines.append(f"  harness around {told.run} --key {plain(key)} {place}")
    for key in told.involved.keys[:4]:
        page = orders.page(told.run, key)
        if page.is_file():
            lines.append(f"  {page}")
    if told.anomaly.name not in witness_lookup.JOINED and told.number < told.anomaly.count:
        lines.append(f"  harness explain {told.run} '{told.anomaly.name}#{told.number + 1}'")
    return ["see also", *lines] if lines else []
