"""Formats explanations for a terminal: an overview of all anomalies, or one witness in full."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from checker.anomalies import cycle_prose
from harness.model.check_result import AnomalyFound, Result
from harness.model.values_as_text import many, plain, seconds
from harness.report import order_paths
from harness.report.text import op_text, witness_lookup
from harness.report.text.gather_explanation import Explanation, InvolvedOp
from harness.report.text.witness_text import witness_text
from harness.stored import fault_spans
from harness.stored.operations_and_records import Lookup, of_run

WIDTH: Final = 110
FAULTS_MAX: Final = 8
PROMISED: Final[Mapping[bool | None, str]] = {
    True: "the settings guarantee that this cannot happen",
    False: "the settings do not rule this out",
    None: "it is unknown whether the settings rule this out",
}


def _fill(text: str, indent: str = "  ", rest: str | None = None) -> str:
    return textwrap.fill(
        plain(text),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  " if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def overview(run: Path, result: Result) -> str:
    """Describes every anomaly: its count, its first witness, and the command that shows more."""
    blocks = [f"run {run.name}: {result.valid.upper()}" + _because(result)]
    facts = of_run(run)
    for anomaly in result.anomalies:
        blocks.append(_block(run, anomaly, facts))
    if not result.anomalies:
        blocks.append("no anomaly was found")
    pages = order_paths.pages(run)
    if pages:
        blocks.append(f"writers and readers of every offset, key by key: {order_paths.index(run)}")
    return "\n\n".join(blocks)


def _because(result: Result) -> str:
    return "".join(f"\n{_fill(reason, '  - ', '    ')}" for reason in result.reasons)


def _block(run: Path, anomaly: AnomalyFound, facts: Lookup | None) -> str:
    lines = [_fill(f"{_head(anomaly)}. {anomaly.summary}", "")]
    if anomaly.witnesses:
        lines.append(_fill(witness_text(anomaly.name, anomaly.witnesses[0], facts), "  - ", "    "))
        more = (
            f"   ({anomaly.name}#2 for the second one)"
            if anomaly.count > 1 and anomaly.name not in witness_lookup.JOINED
            else ""
        )
        lines.append(f"  in full: harness explain {run} {anomaly.name}{more}")
    return "\n".join(lines)


def _head(anomaly: AnomalyFound) -> str:
    if not anomaly.bad:
        return f"{anomaly.name}: {anomaly.count:,}, does not affect the verdict"
    return f"{anomaly.name}: {anomaly.count:,}; {PROMISED[anomaly.promised]}"


def text(explanation: Explanation) -> str:
    """Formats the explanation of one witness as text."""
    prose = [] if explanation.chain else [_fill(explanation.text)]  # a chain of reasons contains the same, in detail
    blocks = [
        _title(explanation),
        prose,
        _operations(explanation),
        _reasoning(explanation),
        _faults(explanation),
        _servers(explanation),
    ]
    return "\n\n".join("\n".join(block) for block in [*blocks, _onwards(explanation)] if block)


def _title(explanation: Explanation) -> list[str]:
    anomaly = explanation.anomaly
    of = f" of {anomaly.count:,}" if anomaly.name not in witness_lookup.JOINED else ""
    state = PROMISED[anomaly.promised] if anomaly.bad else "does not affect the verdict"
    return [f"{anomaly.name}#{explanation.number}{of}; {state}", _fill(anomaly.summary)]


def _operations(explanation: Explanation) -> list[str]:
    if not explanation.ops:
        return []
    head = "Let" if explanation.chain else "operations"
    lines = [head]
    for op in explanation.ops:
        lines.append(_fill(op_line(op), "  ", "      "))
        lines += [_fill(line, "      ") for line in op_text.micro_ops(op.value, explanation.involved.focus)]
        lines += [_fill(line, "      ") for line in extras(op.extra)]
    size = explanation.witness.get("scc-size")
    every = size if type(size) is int and "cycle" not in explanation.witness else len(explanation.involved.ops)
    omitted = every - len(explanation.ops)
    return [*lines, f"  ... and {many(omitted, 'more operation')}"] if omitted > 0 else lines


def op_line(op: InvolvedOp) -> str:
    """Describes an operation in one line: its name, process, function, outcome and times."""
    name = f"{op.name} = op {op.id}" if not op.name.startswith("op ") else op.name
    fact = op.fact
    if fact is None:
        return f"{name}: not found in the tables"
    ended = fact.type if fact.complete_ns is not None else "never completed"
    when = seconds(fact.invoke_ns)
    if fact.complete_ns is not None and fact.complete_ns != fact.invoke_ns:
        when = f"{fact.invoke_ns / 1e9:.3f}-{seconds(fact.complete_ns)}"
    why = f" ({plain(fact.error)})" if fact.error else ""
    return f"{name}: process {fact.process}, {fact.f} {ended}, {when}{why}"


def extras(extra: Mapping[str, Any]) -> list[str]:
    """Describes the rebalances and notes of an operation, one line each."""
    lines = []
    for event in extra.get("rebalance_log") or ():
        if isinstance(event, Mapping):
            lines.append(f"rebalance: {plain(event.get('event'))} keys {plain(event.get('keys'))}")
    lines += [f"note: {plain(note)}" for note in extra.get("notes") or ()]
    return lines[:4]


def _reasoning(explanation: Explanation) -> list[str]:
    if not explanation.chain:
        return []
    lines = ["Then", *(_fill(line) for line in explanation.chain)]
    return [*lines, _fill(cycle_prose.FORBIDDEN)] if explanation.witness.get("forbidden") else lines


def _faults(explanation: Explanation) -> list[str]:
    lines = ["active faults"]
    if not (explanation.moments or explanation.surrounding):
        return [*lines, "  unknown, because the time of this witness is not known"]
    for span in explanation.spans[:FAULTS_MAX]:
        end = "the end" if span.end_ns is None else seconds(span.end_ns)
        doubt = " (no effect)" if span.took_effect is False else ""
        lines.append(
            _fill(f"{span.label}{doubt}, {span.begin_ns / 1e9:.3f} s to {end}: during {_during(explanation, span)}")
        )
    if len(explanation.spans) > FAULTS_MAX:
        lines.append(f"  ... and {len(explanation.spans) - FAULTS_MAX} more")
    if not explanation.spans:
        last = explanation.before
        past = f"; the previous fault, {last.label}, ended at {seconds(last.end_ns or 0)}" if last else ""
        lines.append(_fill(f"{nothing_on(explanation)}{past}"))
    return lines


def _during(explanation: Explanation, span: fault_spans.Span) -> str:
    """Returns the names of the operations during which a fault was active; without any, a text like "this witness"."""
    hit = [op.name for op in explanation.ops if op.moment is not None and fault_spans.during([span], *op.moment)]
    if not hit and any(fault_spans.during([span], *moment) for moment in explanation.moments):
        hit = ["this witness"]
    elif not hit and explanation.between is not None and fault_spans.during([span], *explanation.between):
        hit = ["the time between the copies"]
    return ", ".join(hit) or "the surrounding events"


def nothing_on(explanation: Explanation) -> str:
    """Returns a text that says that no fault was active at the times of the witness."""
    timed = any(op.moment is not None for op in explanation.ops) and not explanation.surrounding
    return "none while these operations ran" if timed else "none at the times of this witness"


def _servers(explanation: Explanation) -> list[str]:
    if not explanation.logs:
        return []
    lines = [f"broker logs (the most relevant lines; the full logs are in {explanation.run / 'logs'})"]
    return [
        *lines,
        *(_fill(f"{seconds(line.time_ns):>9}  {line.node}  {line.text}", "  ", " " * 17) for line in explanation.logs),
    ]


def _onwards(explanation: Explanation) -> list[str]:
    lines = []
    for key, offset, value in explanation.involved.places[:2]:
        place = f"--offset {offset}" if offset is not None else f"--value {plain(value)}"
        lines.append(f"  harness around {explanation.run} --key {plain(key)} {place}")
    for key in explanation.involved.keys[:4]:
        page = order_paths.page(explanation.run, key)
        if page.is_file():
            lines.append(f"  {page}")
    if explanation.anomaly.name not in witness_lookup.JOINED and explanation.number < explanation.anomaly.count:
        lines.append(f"  harness explain {explanation.run} '{explanation.anomaly.name}#{explanation.number + 1}'")
    return ["see also", *lines] if lines else []
