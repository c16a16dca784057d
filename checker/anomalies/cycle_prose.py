"""Describes cycles in sentences, as Elle does: why each operation precedes the next one, up to a contradiction.

A witness is {"type", "cycle": [op, ..., first op], "steps": [one per edge]}. If a strongly connected component was too
large to search, or no single cycle was identified, the witness describes the component: {"type", "not" (the violated
isolation level), "subgraph" (the kinds of edges), "scc-size", "scc" (the ops)}.

Source: Elle's explanations (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental
Observations", VLDB 2020), with the edges of jepsen.tests.kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from checker.anomalies.prose import Phrases, Witness, fields
from harness.model.values_as_text import LISTED, at_offset, listed, many, plain

Step = Mapping[str, Any]
SHOWN_MAX: Final = 24
FORBIDDEN: Final = "No order of events explains this, even if the writes of transactions are not isolated."

MODELS: Final[Mapping[str, str]] = {
    "read-uncommitted": "all writes have a single order",
    "read-committed": "reads return only what was written before, and all writes have a single order",
}


def is_cycle(witness: Witness) -> bool:
    """Returns whether a witness is a cycle or a strongly connected component."""
    return isinstance(witness.get("cycle"), list) or "scc-size" in witness


def prose(witness: Witness, phrases: Phrases) -> str:
    """Describes a cycle or component in one or a few sentences."""
    if not is_cycle(witness):
        return fields(witness, phrases)
    if "cycle" not in witness:
        return component(witness)
    cycle, names = witness["cycle"], _ops(witness["cycle"])
    steps, left_out = _reasons(witness, phrases, names)
    shown = [f"{steps[0][0]} came before {steps[0][1]}, because {steps[0][2]}"]
    shown += [f"{one} before {two}, because {why}" for one, two, why in steps[1:-1]]
    if left_out:
        shown.append(f"and so on, {many(left_out, 'more step')} up to {steps[-1][0]}")
    if len(steps) > 1:
        one, two, why = steps[-1]
        shown.append(f"however, {one} came before {two}, because {why}: a contradiction")
    involved = "; ".join(phrases.who(op) for op in cycle[:-1][:LISTED])
    faults = phrases.faults(*(cycle[:-1] if not left_out else [*cycle[:SHOWN_MAX], cycle[-2]]))
    sentence = "; ".join(shown)
    sure = f" {FORBIDDEN}" if witness.get("forbidden") else ""
    which = "The operations" if len(cycle) - 1 <= LISTED else f"The first {LISTED} operations"
    return f"{sentence[0].upper()}{sentence[1:]}. {which} are {involved}{faults}.{sure}"


def let(witness: Witness) -> dict[int, str]:
    """Returns short names for the ops of a cycle: {id of the op: "T1"}."""
    return {op: f"T{number}" for number, op in enumerate(dict.fromkeys(witness["cycle"]), 1)}


def _ops(cycle: Sequence[int]) -> dict[int, str]:
    return {op: f"op {op}" for op in cycle}


def then(witness: Witness, phrases: Phrases) -> list[str]:
    """Returns one sentence for each step of a cycle, with its reason. The last sentence states the contradiction."""
    steps, left_out = _reasons(witness, phrases, let(witness))
    sentences = [f"{one} < {two}, because {why}." for one, two, why in steps[:-1]]
    if left_out:
        sentences.append(f"... and so on, {many(left_out, 'more step')} up to {steps[-1][0]}.")
    if steps:
        one, two, why = steps[-1]
        head = "However, " if sentences else ""
        sentences.append(f"{head}{one} < {two}, because {why}: a contradiction!")
    return sentences


def _reasons(witness: Witness, phrases: Phrases, names: Mapping[int, str]) -> tuple[list[tuple[str, str, str]], int]:
    """Returns ([(op before, op after, reason) per edge], number of omitted edges).

    The first few edges and the last edge are described. The others are omitted, because a cycle may have thousands of
    edges, and each reason requires a lookup in the tables.
    """
    cycle, steps = witness["cycle"], witness["steps"]
    left_out = max(0, len(steps) - SHOWN_MAX - 1)
    found = []
    for number, step in enumerate(steps):
        if SHOWN_MAX <= number < SHOWN_MAX + left_out:
            continue
        a, b = cycle[number], cycle[number + 1]
        reason = REASONS.get(str(step.get("type")), _edge_fields)
        found.append((names[a], names[b], reason(step, a, b, names, phrases)))
    return found, left_out


def _ww(step: Step, a: int, b: int, names: Mapping[int, str], phrases: Phrases) -> str:
    key, first, second = step["key"], step["value"], step["value'"]
    return (
        f"{names[a]} sent {plain(first)} to key {plain(key)}{_sent_at(phrases, key, first)}, and the next "
        f"record there is {plain(second)}{_sent_at(phrases, key, second)}, which {names[b]} sent"
    )


def _wr(step: Step, a: int, b: int, names: Mapping[int, str], phrases: Phrases) -> str:
    key, value = step["key"], step["value"]
    place = phrases.place("polled", key, b, value) or _sent_at(phrases, key, value)
    return f"{names[a]} sent {plain(value)} to key {plain(key)}{place}, and {names[b]} polled it"


def _rw(step: Step, a: int, b: int, names: Mapping[int, str], phrases: Phrases) -> str:
    key, value, missed = step["key"], step.get("value"), step["value'"]
    upto = "nothing" if value is None else f"no further than {plain(value)}{phrases.place('polled', key, a, value)}"
    return (
        f"{names[a]} polled {upto} of key {plain(key)}, so it had not seen {plain(missed)}"
        f"{_sent_at(phrases, key, missed)}, the next record there, which {names[b]} sent"
    )


def _process(step: Step, a: int, b: int, names: Mapping[int, str], phrases: Phrases) -> str:
    fact = phrases.op(a)
    process = step.get("process", "of both" if fact is None else fact.process)
    return f"process {process} executed {names[a]} before {names[b]}"


def _realtime(step: Step, a: int, b: int, names: Mapping[int, str], phrases: Phrases) -> str:
    one, two = phrases.op(a), phrases.op(b)
    if one is None or two is None or one.complete_ns is None:
        begun = f" (index {step['b']})" if "b" in step else ""
        return f"{names[a]} completed (index {a}) before {names[b]} was invoked{begun}"
    apart = (two.invoke_ns - one.complete_ns) / 1e6
    return (
        f"{names[a]} completed at {one.complete_ns / 1e9:.6f} s, {apart:,.3f} ms before "
        f"{names[b]} was invoked at {two.invoke_ns / 1e9:.6f} s"
    )


def _edge_fields(step: Step, a: int, b: int, names: Mapping[int, str], phrases: Phrases) -> str:
    """Returns the fields of an edge (`step`) of an unknown kind between the ops `a` and `b`, as text."""
    return "of " + ", ".join(f"{name} {plain(field)}" for name, field in step.items())


REASONS: Final[Mapping[str, Callable[[Step, int, int, Mapping[int, str], Phrases], str]]] = {
    "ww": _ww,
    "wr": _wr,
    "rw": _rw,
    "process": _process,
    "realtime": _realtime,
}


def _sent_at(phrases: Phrases, key: Any, value: Any) -> str:
    """Returns a phrase with the offset at which a value was sent or, if that is unknown, polled; empty if unknown."""
    for record in (*phrases.sends(key, value), *phrases.polls(key, value)):
        if record.offset is not None:
            return at_offset(record.offset)
    return ""


def component(witness: Witness) -> str:
    """Describes a strongly connected component, which proves that cycles exist."""
    ops = witness.get("scc") or []
    size = witness.get("scc-size") or len(ops)
    graph = [str(name) for name in witness.get("subgraph") or () if name != "union"]
    model = witness.get("not")
    edges = f", through edges of the kinds {', '.join(graph)}" if graph else ""
    parts = [f"{many(size, 'operation')} all precede each other{edges}, which is a contradiction"]
    if ops:
        parts.append(f"the operations are {listed(ops)}")
    if not model:
        parts.append("there are too many to search for a single cycle among them")
    else:
        why = f" ({MODELS[model]})" if model in MODELS else ""
        parts.append(f"so the history is not {model}{why}")
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)
