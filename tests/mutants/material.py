"""What a mutant must survive: histories with known answers, checked by the plain kernels.

Everything that does not depend on the kernels (tables, expectations, the answers of the plain checker) is
made once, by `prepare`, before workers are forked. `stages` then asks the checker as the worker imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from checker.anomalies.pipeline_modes import MODES
from checker.pipeline.judge import AHEAD
from checker.pipeline.offset_machine import Event
from checker.tables import make_tables
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import to_data
from harness.pipeline_app.mistakes import MISTAKES, NOT_FENCED, SHARED_ID
from harness.pipeline_app.ports import Options
from harness.sim.pipeline import run as pipeline_run
from harness.sim.queue.bugs import BUGS
from harness.sim.queue.run import simulate
from tests.property.small import nearly_right
from tests.property.test_pipeline_sim import by_partition
from tests.unit.checker import jepsen
from tests.unit.checker.cases import Case, cases, differences
from tests.unit.checker.plain import Plain, shaped_all
from tests.unit.checker.plain_cycles import ALL, Cycles, complaints

RANDOM_LOGS = 120
HONEST = 12
HONEST_PIPELINES = 2
TXN = Settings(
    acks="all",
    idempotence=True,
    txn=True,
    isolation_level="read_committed",
    auto_offset_reset="earliest",
    replication=3,
    min_insync_replicas=2,
    unclean_election=False,
)

Judge = Callable[[Any, CheckOptions], Any]


@dataclass(frozen=True)
class Pipeline:
    """A simulated run of a pipeline: its instances' events by partition, the offsets of its input, its mistake."""

    events: Sequence[tuple[Sequence[Event], frozenset[int]]]
    kinds: frozenset[str]
    ahead: bool
    mistake: str | None


@dataclass(frozen=True)
class Material:
    """Tables with what is expected of them."""

    cases: Sequence[tuple[Case, Any]]
    logs: Sequence[tuple[Any, dict[str, Any], tuple[Cycles, Cycles], bool]]
    runs: Sequence[tuple[Any, str | None, bool]]
    rows: Sequence[tuple[Any, Sequence[jepsen.Row]]]
    pipelines: Sequence[Pipeline]


def prepare() -> Material:
    """Everything that is asked later; some seconds."""
    logs = []
    for seed in range(RANDOM_LOGS):
        ops, ww_deps = nearly_right(seed), seed % 4 != 0
        graphs = Cycles(ops, ww_deps), Cycles(ops, ww_deps, ALL)
        logs.append((make_tables.of_ops(ops), Plain(ops).answer(), graphs, ww_deps))
    runs: list[tuple[Any, str | None, bool]] = []
    for seed in range(HONEST):
        runs.append((make_tables.of_ops(simulate(seed, ops=200, txn=seed % 2 == 0)), None, seed % 2 == 0))
    for bug in BUGS:
        runs.append((make_tables.of_ops(simulate(1, ops=400, bugs=frozenset({bug}))), bug, True))
    rows = []
    for _, group in groupby(jepsen.rows(), key=lambda row: row["history"]):
        some = list(group)
        rows.append((make_tables.collect(jepsen.history(some[0])), some))
    return Material([(case, make_tables.collect(case.path)) for case in cases()], logs, runs, rows, list(_pipelines()))


def _pipelines() -> Iterator[Pipeline]:
    """Honest ones of each mode, and one with each mistake that the events show."""
    for mode in MODES - {"files"}:  # judged as exactly-once
        for eager in (True, False):
            for seed in range(HONEST_PIPELINES):
                yield _pipeline(Options(mode=mode, abort_p=0.05), seed, eager, 200)
    for mistake in sorted(MISTAKES.keys() - {SHARED_ID}):
        turns = 600 if mistake == NOT_FENCED else 200
        yield _pipeline(Options(mistake=mistake, abort_p=0.05), 0, True, turns)


def _pipeline(options: Options, seed: int, eager: bool, turns: int) -> Pipeline:
    world = pipeline_run.simulate(options, seed, turns, eager)
    kinds = frozenset(line["event"] for lines in world.events.values() for line in lines)
    events = [
        (told, frozenset(offset for offset, _, _ in world.inputs[at])) for at, told in by_partition(world).items()
    ]
    return Pipeline(events, kinds, options.mode in AHEAD, options.mistake)


def stages(material: Material, judge: Judge) -> Iterator[tuple[str, Callable[[], Sequence[str]]]]:
    """(name, check): a check gives what is wrong. The quick ones first."""
    yield "cases", lambda: _cases(material, judge)
    yield "logs", lambda: _logs(material, judge)
    yield "runs", lambda: _runs(material, judge)
    yield "jepsen", lambda: _jepsen(material, judge)


def pipeline_stages(material: Material) -> Iterator[tuple[str, Callable[[], Sequence[str]]]]:
    """As `stages`, for what judges pipelines."""
    yield "pipelines", lambda: _offsets(material)


def _offsets(material: Material) -> list[str]:
    from checker.pipeline.offset_machine import findings

    for run in material.pipelines:
        found = [
            one.anomaly
            for events, inputs in run.events
            for one in findings(events, run.kinds, 0, run.ahead)
            if not one.verify or any(one.first <= offset < one.until for offset in inputs)
        ]
        if bool(found) != (run.mistake is not None):
            return [f"a pipeline with {run.mistake}: {sorted(set(found))}"]
    return []


def _cases(material: Material, judge: Judge) -> list[str]:
    for case, tables in material.cases:
        found = differences(case, judge(tables, case.options))
        if found:
            return [f"{case.name}: {found[0]}"]
    return []


def _logs(material: Material, judge: Judge) -> list[str]:
    for tables, plain, (cycles, all_kinds), ww_deps in material.logs:
        result = judge(tables, CheckOptions(jepsen_compatible=True, ww_deps=ww_deps))
        found = {anomaly.name: anomaly.witnesses for anomaly in result.anomalies}
        shaped = {
            name: shaped_all(name, witnesses)
            for name, witnesses in found.items()
            if not jepsen.is_cycle(name) and name != "empty-transaction-graph"
        }
        if shaped != plain or complaints(cycles, found):
            return ["a random log"]
        options = CheckOptions(jepsen_compatible=True, ww_deps=ww_deps, edges=frozenset(ALL))
        more = {anomaly.name: anomaly.witnesses for anomaly in judge(tables, options).anomalies}
        if complaints(all_kinds, more):
            return ["a random log, with edges of all kinds"]
    return []


def _runs(material: Material, judge: Judge) -> list[str]:
    for tables, bug, txn in material.runs:
        settings = TXN if txn else replace(TXN, txn=False)
        result = judge(tables, CheckOptions(settings=settings, require_final_polls=True))
        found = {anomaly.name for anomaly in result.anomalies if anomaly.bad}
        if bug is None and (result.valid, found) != ("valid", set()):
            return [f"an honest run: {sorted(found)}"]
        if bug is not None and not BUGS[bug].shows <= found <= BUGS[bug].shows | BUGS[bug].may_show:
            return [f"a run with {bug}: {sorted(found)}"]
    return []


def _jepsen(material: Material, judge: Judge) -> list[str]:
    for tables, rows in material.rows:
        for row in rows:
            found = jepsen.differences(row, to_data(judge(tables, jepsen.options(row))))
            if found:
                return [f"{row['history']}: {found[0]}"]
    return []
