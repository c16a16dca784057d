"""Anomalies of pipelines in prose: which record, who did it, and what happened around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from checker.pipeline.anomalies import OFFSETS, OUTPUTS
from harness.model.result import Result
from harness.report.text.phrases import Teller, joined, many, seconds

Witness = Mapping[str, Any]
AROUND: Final = 6
EPOCH: Final = 10**18  # nanoseconds: later than this is a time of day, not one since a run began


def at(time_ns: int) -> str:
    """A time since the run began; the time of day where it is one since 1970."""
    if time_ns < EPOCH:
        return seconds(time_ns)
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ns // 10**9))
    return f"{text}.{time_ns // 10**6 % 1000:03d}"


def who(one: Mapping[str, Any]) -> str:
    """An instance, its process, and the generation that it was in."""
    if one.get("instance") is None:
        return "nobody knows who"
    generation = f", generation {one['generation']}" if one.get("generation") is not None else ""
    return f"instance {one['instance']} (process {one.get('incarnation')}{generation})"


def _place(witness: Witness) -> str:
    if witness.get("topic") is None:
        return ""
    offset = f" offset {witness['offset']}" if witness.get("offset") is not None else ""
    return f"{witness['topic']}-{witness['partition']}{offset}"


def _range(one: Mapping[str, Any]) -> str:
    first, last = one.get("first"), one.get("last")
    if first is None:
        return ""
    return f" {first}" if last is None or last == first else f" {first} to {last}"


def event(one: Mapping[str, Any]) -> str:
    """An event around a witness: when, what, of which offsets, by whom."""
    if one.get("instance") is None:
        return f"{at(one['time_ns'])} {one['event']}"
    return f"{at(one['time_ns'])} {one['event']}{_range(one)} by {who(one)}"


def _around(witness: Witness) -> str:
    events: Sequence[Mapping[str, Any]] = witness.get("around") or ()
    if not events:
        return ""
    more = f"; {len(events) - AROUND} more" if len(events) > AROUND else ""
    return f"around it: {'; '.join(event(one) for one in events[-AROUND:])}{more}"


def _copies(witness: Witness) -> str:
    outputs: Sequence[Mapping[str, Any]] = witness.get("outputs") or ()
    told = []
    for one in outputs[:AROUND]:
        told.append(f"at {one['topic']}-{one['partition']} offset {one['offset']} by {who(one)}")
    return "; ".join(told)


def output(witness: Witness, tell: Teller) -> str:
    """An anomaly of an output or of an input record."""
    number = f", output {witness['n']}" if witness.get("n") is not None else ""
    head = f"input {_place(witness) or 'unknown'} (id {witness['id']}, key {witness['key']}){number}"
    counts = f"{many(witness['copies'], 'copy').replace('copys', 'copies')}, {witness['expected']} expected"
    copies = _copies(witness)
    last = "" if copies else f"the last to deal with it was {who(witness)}"
    if witness.get("instance") is None:
        last = ""
    return joined(f"{head}: {counts}", copies, last, _around(witness))


def offset(witness: Witness, tell: Teller) -> str:
    """A finding of the offset state machine."""
    first, until = witness.get("first"), witness.get("until")
    offsets = "" if first is None else f" offset {first}"
    if first is not None and until is not None and until - first > 1:
        offsets = f" offsets {first} to {until - 1}"
    head = f"partition {_place(witness)}{offsets}: {witness['said']}"
    return joined(head, f"{who(witness)} at {at(witness['time_ns'])}", _around(witness))


FORMS: Final[Mapping[str, Callable[[Witness, Teller], str]]] = {
    **dict.fromkeys(OUTPUTS, output),
    **dict.fromkeys(OFFSETS, offset),
}


def figures(statistics: Mapping[str, Any]) -> list[str]:
    """The lines of a summary on what went through a pipeline."""
    lines = []
    held = statistics.get("pipeline")
    if isinstance(held, Mapping) and "inputs" in held:
        lines.append(
            f"pipeline ({held.get('mode')}, {held.get('transform')}): {held['inputs']:,} input records, "
            f"{held['done']:,} done; {held['outputs']:,} outputs, {held['expected']:,} expected, "
            f"{held['extra']:,} too many, {held['aborted']:,} of aborted transactions"
        )
    told = statistics.get("offsets")
    if isinstance(told, Mapping) and isinstance(told.get("events"), Mapping):
        counts = ", ".join(f"{count:,} {name}" for name, count in told["events"].items())
        lines.append(f"events of instances: {counts or 'none'}")
    return lines


def of_logs(result: Result, witnesses: int) -> str:
    """What `harness offsets` prints."""
    held = result.statistics["offsets"]
    lines = held["lines"]
    events = sum(held["events"].values())
    said = [
        f"{result.valid.upper()}: {many(events, 'event')} of {many(held['instances'], 'instance')} in "
        f"{many(held['files'], 'file')}",
        *figures(result.statistics),
        f"lines that tell of none: {lines['unmatched']:,}; rejected: {lines['rejected']:,}; "
        f"cut because they are too long: {lines['cut']:,}",
        *(f"  - {reason}" for reason in result.reasons),
    ]
    for found in result.anomalies:
        said.append(f"{found.name:{20}} {found.count:>6,}  {found.summary}")
        said += [f"  - {offset(one, Teller(None))}" for one in found.witnesses[:witnesses]]
    return "\n".join(said)
