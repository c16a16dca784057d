"""`harness shrink RUN`: reduces a run's history to a small part that shows one witness, and writes it as a run of its
own.

    RUN/shrunk/<anomaly>-<number>/history/00000.jsonl   the operations, with their original indices and times
    RUN/shrunk/<anomaly>-<number>/plan.yaml             copied from the run, so that the same settings apply
    RUN/shrunk/<anomaly>-<number>/events/harness.jsonl  copied from the run, without the events of its metadata log

The reduced history can be checked like that of any other run. Its verdict is never valid, because the checker reports
that operations are missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from harness.model import op_json
from harness.model.check_options import CheckOptions
from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import BadHistory, BadInput, Missing
from harness.model.op import INVOKE, NEMESIS, Op
from harness.model.values_as_text import plain, seconds
from harness.report.text import op_text, pipeline_moments
from harness.shrinking import find_witness, history_search, sub_history, target
from harness.shrinking.history_search import Shrunk
from harness.shrinking.target import Chosen
from harness.stored import fault_spans, op_log

FOLDER: Final = "shrunk"
_OF_METADATA: Final = b'"event":"metadata-log"'


@dataclass(frozen=True, slots=True)
class Small:
    """A reduced history that was written as a run of its own.

    folder   the new run folder
    chosen   the witness that the reduced history shows
    faults   nemesis ops that were kept because they may explain the witness
    whole    number of client operations in the original history
    """

    folder: Path
    chosen: Chosen
    shrunk: Shrunk
    faults: tuple[Op, ...]
    whole: int

    @property
    def title(self) -> str:
        return f"{self.chosen.anomaly.name}#{self.chosen.number}"


def of_run(run: Path, result: Result, requested: str | None, options: CheckOptions, faults: bool = True) -> Small:
    """Reduces a run's history to a small part that shows a witness, and writes it. Raises BadInput, BadHistory,
    Missing.

    requested  the anomaly or the witness to show, such as G1a or G1a#3; None: the most severe anomaly
    faults     whether to keep the ops of the faults that were active
    """
    try:
        chosen = target.choose(run, result, requested)
        if program := chosen.witness.get("program"):  # of the log model
            raise BadInput(f"{run / program} is already minimal; next: harness model replay {run / program}")
        if pipeline_moments.is_one(chosen.anomaly.name):
            raise BadInput(
                f"{run}: {chosen.anomaly.name} is an anomaly of a pipeline. It is found in the files that instances "
                "and readers write, so a part of the operations cannot show it; reduce the run's faults "
                f"instead: harness shrink {run} --anomaly {chosen.anomaly.name} --schedule"
            )
        keys = target.keys_of(run, chosen)
        whole, aimed = target.aim(run, result, chosen, keys, options)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        raise BadInput(
            f"{run}: results.json is malformed ({type(error).__name__}: {error}); "
            f"check the run again: harness check {run}"
        ) from None
    found = history_search.shrink(whole, aimed, keys or frozenset(sub_history.keys_of(whole.units)), options)
    if found is None and keys:  # other keys may matter: they may show that an op committed, for example
        whole, aimed = target.aim(run, result, chosen, frozenset(), options)
        found = history_search.shrink(whole, aimed, frozenset(sub_history.keys_of(whole.units)), options)
    if found is None:
        raise BadInput(
            f"{run}: the history does not show {chosen.anomaly.name}#{chosen.number}; its results may be from "
            f"another history or version. Check it again: harness check {run}"
        )
    context = _around(whole.nemesis, found.ops) if faults else ()
    folder = run / FOLDER / f"{chosen.anomaly.name}-{chosen.number}"
    _write(run, folder, [*found.ops, *context])
    total = sum(sum(kinds.values()) for kinds in whole.counts.values())
    return Small(folder, chosen, found, tuple(context), total)


def _around(nemesis: Sequence[Op], ops: Sequence[Op]) -> list[Op]:
    """Returns the nemesis ops of the faults that were active at some time between the first and the last of `ops`.

    Final polls in `ops` are ignored, unless there are no other ops.
    """
    under_load = [op for op in ops if not op.extra.get("final")] or list(ops)
    begin, end = min(op.time_ns for op in under_load), max(op.time_ns for op in under_load)
    rows = [{"time_ns": op.time_ns, "value": orjson.dumps(op.value).decode(), **op.extra} for op in nemesis]
    on = {
        (span.fault, span.begin_ns, span.end_ns) for span in fault_spans.during(fault_spans.of_rows(rows), begin, end)
    }
    return [
        op
        for op in nemesis
        if any(
            op.extra.get("fault") == fault and since <= op.time_ns and (until is None or op.time_ns <= until)
            for fault, since, until in on
        )
    ]


def _write(run: Path, folder: Path, ops: Sequence[Op]) -> None:
    header = op_log.OpLog(run).header
    lines = [op_json.header(run.name, 0, header.wall_ns if header else 0, 0, shrunk_from=run.name)]
    lines += [op_json.encode(op) for op in sorted(ops, key=lambda op: op.index)]
    try:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "history").mkdir(parents=True)
        (folder / "history" / "00000.jsonl").write_bytes(b"".join(lines))
        if (run / "plan.yaml").is_file():
            shutil.copyfile(run / "plan.yaml", folder / "plan.yaml")
        if (events := run / "events" / "harness.jsonl").is_file():
            (folder / "events").mkdir()
            lines = events.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if _OF_METADATA not in line]  # the log is not copied
            (folder / "events" / events.name).write_bytes(b"".join(kept))
    except OSError as error:
        raise Missing(
            f"{folder}: cannot be written ({error.strerror}); free disk space or fix the permissions, or copy the "
            "run folder to a writable place"
        ) from None


def confirm(small: Small, result: Result) -> None:
    """Raises BadHistory if the checker did not find the witness in the reduced history."""
    name = small.chosen.anomaly.name
    anomaly = next((anomaly for anomaly in result.anomalies if anomaly.name == name), None)
    bad = small.chosen.anomaly.bad
    if find_witness.is_cycle(name):  # of cycles, some count against the verdict and some do not
        bad = bad and bool(small.chosen.witness.get("forbidden"))
    if anomaly is None or anomaly.bad < bad or not _same(small.chosen.witness, name, anomaly.witnesses):
        raise BadHistory(
            f"{small.folder}: the checker does not find {small.title} in it. This is a bug of `harness shrink`"
        )


def _same(witness: Any, name: str, witnesses: Sequence[Any]) -> bool:
    if find_witness.is_cycle(name):
        return True
    if name == find_witness.UNSEEN:  # in the result, the keys are joined into one witness, as text
        key, value = str(witness["key"]), witness["messages"][0]
        return any(value in (candidate.get("messages") or {}).get(key, ()) for candidate in witnesses)
    claim = next(find_witness.identities(name, witness))
    return any(claim in find_witness.identities(name, candidate) for candidate in witnesses)


def text(small: Small, result: Result) -> str:
    """Describes the reduced history for a terminal: its operations and the verdict."""
    shrunk = small.shrunk
    few = "" if shrunk.minimal else " (there may be a smaller part: the search reached its limit)"
    head = f"{small.title} is shown by {_many(shrunk.units, 'operation')} of {small.whole:,}{few}:"
    lines = [head, *(line for op in sorted([*shrunk.ops, *small.faults], key=_index) for line in _op_lines(op))]
    bad = (
        ", ".join(f"{anomaly.name} {anomaly.count:,}" for anomaly in result.anomalies if anomaly.bad)
        or "no anomaly that makes the verdict invalid"
    )
    return "\n".join([*lines, "", f"the checker on this part alone: {result.valid} ({bad})"])


def data(small: Small, result: Result) -> dict[str, Any]:
    """Returns the reduced history and its verdict as plain data."""
    return {
        "folder": str(small.folder),
        "anomaly": small.chosen.anomaly.name,
        "number": small.chosen.number,
        "witness": dict(small.chosen.witness),
        "operations": small.shrunk.units,
        "of": small.whole,
        "minimal": small.shrunk.minimal,
        "asked": small.shrunk.questions,
        "ops": [op_json.to_data(op) for op in sorted([*small.shrunk.ops, *small.faults], key=_index)],
        "valid": result.valid,
        "anomalies": {anomaly.name: anomaly.count for anomaly in result.anomalies},
    }


def _index(op: Op) -> int:
    return op.index


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _op_lines(op: Op) -> list[str]:
    """Describes an op: a completion with its micro-operations, or an invocation that never completed."""
    at = f"{seconds(op.time_ns):>11}"
    if op.process == NEMESIS:
        return [
            f"{at}  {op.index:>7}  fault {plain(op.extra.get('fault') or op.f)}: {plain(op.f)}"
            f" ({plain(op.extra.get('phase') or '')})"
        ]
    head = f"{at}  {op.index:>7}  process {plain(op.process)} "
    if op.type == INVOKE:
        invoked = _invoked(op)
        return [f"{head}invokes {op.f}{': ' if invoked else ''}{invoked}"]
    why = f" ({plain(op.error)})" if op.error else ""
    lines = [f"{head}{op.f} {op.type}{why}"]
    lines += [f"{'':>24}{line}" for line in (*op_text.micro_ops(_without_empty_polls(op.value), {}), *_positions(op))]
    return lines


def _without_empty_polls(value: Any) -> Any:
    """Returns an operation's value without the polls that contain no records."""
    return [mop for mop in value if mop != ["poll", []]] if isinstance(value, list) else value


def _invoked(op: Op) -> str:
    if op.f in sub_history.MICRO and isinstance(op.value, list):
        sent = [f"{plain(mop[2])} to key {plain(mop[1])}" for mop in op.value if mop and mop[0] == "send"]
        return ", ".join(sent)
    return f"keys {', '.join(map(plain, op.value))}" if isinstance(op.value, list) else ""


def _positions(op: Op) -> list[str]:
    ends = {sub_history.name(row[0]): row[2] for row in op.extra.get("ends") or ()}
    return [
        f"position {position} in key {plain(key)}, whose log ends at {ends[sub_history.name(key)]}"
        for key, position in op.extra.get("positions") or ()
        if sub_history.name(key) in ends
    ]
