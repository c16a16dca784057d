"""Gathers everything that is known about one witness, for `harness explain` and the run page.

This includes a description, the operations with the records that they sent and polled, the reasons for the edges of a
cycle, the faults that were active, and relevant lines of the brokers' logs. The time needed hardly depends on the
length of the history: operations are found in the history by their index, and records in the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checker.anomalies import cycle_prose
from harness.model.check_result import AnomalyFound, Result
from harness.model.op import INVOKE
from harness.model.values_as_text import plain
from harness.report.text import broker_logs, pipeline_moments, witness_lookup
from harness.report.text.involved_ops import Involved, of_witness
from harness.report.text.phrases import OpPhrases
from harness.report.text.witness_text import witness_text
from harness.stored import fault_spans, find_runs
from harness.stored.fault_spans import Span
from harness.stored.op_log import OpLog
from harness.stored.operations_and_records import Lookup, OpFact, of_run

OPS_MAX: Final = 12
Moment = tuple[int, int]


@dataclass(frozen=True, slots=True)
class InvolvedOp:
    """An operation that a witness names.

    name   name of the operation in the explanation, such as T1
    fact   process, outcome and times; None if not known
    value  the operation's micro-operations; None if not known
    extra  further fields of the operation's line in the history
    """

    id: int
    name: str
    fact: OpFact | None
    value: Any
    extra: Mapping[str, Any]

    @property
    def moment(self) -> tuple[int, int] | None:
        return None if self.fact is None else (self.fact.invoke_ns, self.fact.at_ns)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One witness with everything that is known about it.

    moments      (begin, end) in nanoseconds of each operation that the witness names; (t, t) of each time t in the
                 witness
    surrounding  (t, t) of the other events that the witness of a pipeline anomaly contains, in nanoseconds
    chain        the reasons for the edges of a cycle, as sentences; empty if the witness is not a cycle
    between      (time of the first, time of the last) of the copies of an output; None if there are no two copies
    spans        faults that were active during one of the moments, between the copies, or at one of the other events
    before       the last fault that ended before the earliest of all times above; None if there is none
    """

    run: Path
    anomaly: AnomalyFound
    number: int
    witness: Mapping[str, Any]
    text: str
    involved: Involved
    ops: tuple[InvolvedOp, ...]
    moments: tuple[Moment, ...]
    surrounding: tuple[Moment, ...]
    between: Moment | None
    chain: tuple[str, ...]
    spans: tuple[Span, ...]
    before: Span | None
    logs: tuple[broker_logs.LogLine, ...]


def explain(run: Path, result: Result, wanted: witness_lookup.NamedWitness) -> Explanation:
    """Gathers everything about the witness that a user named. Raises BadInput if there is no such witness."""
    anomaly = witness_lookup.anomaly(result, wanted.name)
    return about(run, anomaly, wanted.number, witness_lookup.one(run, anomaly, wanted.number))


def about(run: Path, anomaly: AnomalyFound, number: int, witness: Mapping[str, Any]) -> Explanation:
    """Gathers everything about a witness. `number` is its number among the witnesses of the anomaly, from 1."""
    facts, log = of_run(run), OpLog(run)
    involved = of_witness(anomaly.name, witness, facts, log)
    chain = _chain(witness, OpPhrases(facts))
    names = cycle_prose.let(witness) if chain else {}
    ops = tuple(_involved_op(op, names.get(op, f"op {op}"), facts, log) for op in involved.ops[:OPS_MAX])
    own = [op.moment for op in ops if op.moment is not None]
    own += [(at, at) for at in pipeline_moments.moments(anomaly.name, witness)]
    surrounding = [(one["time_ns"], one["time_ns"]) for one in pipeline_moments.around(anomaly.name, witness)]
    moments = [*own, *surrounding]
    faults = facts.spans if facts is not None else []
    between = pipeline_moments.between_copies(anomaly.name, witness)
    times = [*moments, between] if between is not None else moments
    during = [s for s in faults if any(fault_spans.during([s], begin, end) for begin, end in times)]
    first = min((begin for begin, _ in moments), default=0)
    ended = [s for s in faults if s.end_ns is not None and s.end_ns < first]
    return Explanation(
        run,
        anomaly,
        number,
        witness,
        witness_text(anomaly.name, witness, facts),
        involved,
        ops,
        tuple(own),
        tuple(surrounding),
        between,
        chain,
        tuple(during),
        max(ended, key=lambda s: s.end_ns or 0, default=None),
        tuple(_logs(run, facts, log, _partitions(run, log, anomaly.name, witness, involved), moments)),
    )


def _chain(witness: Mapping[str, Any], phrases: OpPhrases) -> tuple[str, ...]:
    try:
        return tuple(cycle_prose.then(witness, phrases)) if "cycle" in witness else ()
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
    ):  # a witness of another version, which is described by its fields instead
        return ()


def _involved_op(id_: int, name: str, facts: Lookup | None, log: OpLog) -> InvolvedOp:
    fact = facts.op(id_) if facts is not None else None
    op = log.at(id_)
    if fact is None and op is not None:  # without tables, use what the operation's line in the history contains
        done = None if op.type == INVOKE else op.time_ns
        kind = "info" if op.type == INVOKE else op.type
        fact = OpFact(id_, id_, _number(op.process), kind, op.f, op.time_ns, done, _text(op.error))
    return InvolvedOp(id_, name, fact, None if op is None else op.value, {} if op is None else op.extra)


def _number(process: Any) -> int:
    return process if type(process) is int else -1


def _text(error: Any) -> str | None:
    return None if error is None else plain(error)


def _partitions(run: Path, log: OpLog, name: str, witness: Mapping[str, Any], involved: Involved) -> list[str]:
    """Returns the names of the partitions that the witness is about, as they occur in the brokers' logs."""
    if pipeline_moments.is_one(name):
        return [named] if (named := pipeline_moments.partition_of(witness)) else []
    per_topic = find_runs.plan_of(run).get("partitions_per_topic")
    if log.header is None or type(per_topic) is not int:
        return []
    of_run = log.header.run
    return [named for key in involved.keys if (named := broker_logs.partition(of_run, key, per_topic))]


def _logs(
    run: Path, facts: Lookup | None, log: OpLog, partitions: Sequence[str], moments: Sequence[Moment]
) -> list[broker_logs.LogLine]:
    """Returns the relevant lines of the brokers' logs.

    Returns no lines if the history has no header. Then it is not known at which wall-clock time the run began.
    """
    if log.header is None or not moments:
        return []
    end_ns = max(facts.end_ns if facts is not None else 0, *(end for _, end in moments))
    return broker_logs.around(run / "logs", log.header.wall_ns, end_ns, broker_logs.Wanted(moments, partitions))


def data(explanation: Explanation) -> dict[str, Any]:
    """Returns the explanation as plain data."""
    return {
        "anomaly": explanation.anomaly.name,
        "number": explanation.number,
        "count": explanation.anomaly.count,
        "bad": explanation.anomaly.bad,
        "promised": explanation.anomaly.promised,
        "witness": dict(explanation.witness),
        "text": explanation.text,
        "chain": list(explanation.chain),
        "ops": [
            {
                "index": op.id,
                "name": op.name,
                "value": op.value,
                **({} if op.fact is None else {n: getattr(op.fact, n) for n in OpFact.__slots__[1:]}),
            }
            for op in explanation.ops
        ],
        "faults": [
            {"fault": s.fault, "hit": list(s.hit), "begin_ns": s.begin_ns, "end_ns": s.end_ns}
            for s in explanation.spans
        ],
        "logs": [{"time_ns": line.time_ns, "node": line.node, "text": line.text} for line in explanation.logs],
    }
