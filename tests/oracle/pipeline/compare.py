"""The checker's answer on pipelines' runs beside the oracle's: where they differ, one of them is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from checker.checks.pipeline import of_run
from checker.pipeline import judge
from checker.tables.buckets_of_a_history import in_memory
from checker.tables.make_tables import of_ops
from harness.model.check_result import INVALID, UNKNOWN, VALID, Result
from harness.model.op import INVOKE, OK, Op
from tests.oracle.compare import (
    ACCUSED,
    NOT_NAMED,
    ORACLE,
    PROMISE_DENIED,
    PROMISE_INVENTED,
    VALID_BUT_OPEN,
    VALID_BUT_SHOWN,
)
from tests.oracle.pipeline.case import ONCE, PipelineCase
from tests.oracle.pipeline.evidence import KnownOfPipeline, Thing, known
from tests.oracle.pipeline.promises import promises
from tests.oracle.pipeline.run import Files, PipelineRun, recorded, simulated

# What the oracle calls by one name, and the names under which the checker may say it.
NAMES: Mapping[str, frozenset[str]] = {
    "missing": frozenset({"missing-output"}),
    "duplicate": frozenset({"duplicate-output"}),
    "uncommitted": frozenset({"uncommitted-output"}),
    "duplicate or uncommitted": frozenset({"duplicate-output", "uncommitted-output"}),
    "wrong": frozenset({"wrong-output"}),
    "wrong or duplicate": frozenset({"wrong-output", "duplicate-output"}),
    "reordered": frozenset({"reordered-output"}),
    "aborted": frozenset({"aborted-output"}),
    "phantom-output": frozenset({"phantom-output"}),
    "lost-input": frozenset({"lost-input"}),
    "phantom-input": frozenset({"phantom-input"}),
}
WITHOUT_NUMBER = ("lost-input", "phantom-input")
WITNESSES = 32  # that a result has of an anomaly
OPS = (Op(0, 1, 0, INVOKE, "work", None), Op(1, 2, 0, OK, "work", 1))  # a history beside the run's files


@dataclass(slots=True)
class PipelineComparison:
    """wrong: (kind, what) of each difference; missed: whether `unknown` was said of what can be known."""

    run: PipelineRun
    known: KnownOfPipeline
    all: KnownOfPipeline
    result: Result
    wrong: list[tuple[str, str]] = field(default_factory=list)
    missed: str = ""


def write(folder: Path, content: Files) -> Path:
    for name, lines in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder


def compare_cases(spark: Any, cases: Iterable[PipelineCase], folder: Path) -> list[PipelineComparison]:
    """Both answers on each case; all runs are judged in one job."""
    runs = {write(folder / str(case.seed), recorded(run)): run for case in cases for run in [simulated(case)]}
    judged = judge.batch(spark, list(runs))
    return [_compared(path, run, judged) for path, run in runs.items()]


def _compared(path: Path, run: PipelineRun, judged: Mapping[Path, Result]) -> PipelineComparison:
    def already_judged(_spark: Any, paths: Sequence[Path], *_: Any, **__: Any) -> dict[Path, Result]:
        return {each: judged[each] for each in paths}

    source = replace(in_memory(of_ops(OPS)), noted=path, spark=object())
    result = of_run(already_judged, source, run.case.options())
    found = PipelineComparison(run, known(run.case, recorded(run)), known(run.case, run.files), result)
    _oracle_is_right(found)
    _verdict(found)
    _accusations(found)
    _promises(found)
    return found


def _oracle_is_right(found: PipelineComparison) -> None:
    """A lie shows, and an honest run whose mode promises all has nothing else."""
    run = found.run
    shown = {name for name, things in found.all.shown.items() if things}
    if run.case.mode in ONCE and not run.case.mistake:
        possible = run.lies | {part for lie in run.lies for part in NAMES if lie in part.split(" or ")}
        found.wrong += [(ORACLE, f"{name} in an honest run") for name in sorted(shown - possible)]
    if run.lies and not shown and not any(found.all.maybe.values()) and not found.all.open:
        found.wrong.append((ORACLE, f"nothing of {sorted(run.lies)}"))


def _verdict(found: PipelineComparison) -> None:
    shown = {name: things for name, things in found.known.shown.items() if things}
    valid = found.result.valid
    if valid == VALID:
        found.wrong += [(VALID_BUT_SHOWN, f"{name}: {sorted(things)[:4]}") for name, things in shown.items()]
        found.wrong += [(VALID_BUT_OPEN, why) for why in found.known.open[:1] if not shown]
    elif valid == UNKNOWN and not found.known.open:
        found.missed = f"unknown, though it is {'invalid' if shown else 'valid'}: {found.result.reasons}"
    elif valid == INVALID and not found.known.open:
        for name, things in shown.items():
            named = set().union(*(_things(found, each) for each in NAMES[name]))
            full = any(each.count > WITNESSES for each in found.result.anomalies if each.name in NAMES[name])
            if not full and things - named:
                found.wrong.append((NOT_NAMED, f"{name}: {sorted(things - named)[:4]}"))


def _things(found: PipelineComparison, name: str) -> set[Thing]:
    """What the checker's witnesses of an anomaly are about."""
    plain = name in WITHOUT_NUMBER or found.run.case.transform == "aggregate"
    witnesses = [each for anomaly in found.result.anomalies if anomaly.name == name for each in anomaly.witnesses]
    return {(each["id"], 0 if plain else each["n"]) for each in witnesses}


def _accusations(found: PipelineComparison) -> None:
    for anomaly in found.result.anomalies:
        own = [name for name, names in NAMES.items() if anomaly.name in names]
        happened = set().union(*(found.all.shown[name] | found.all.maybe[name] for name in own))
        if accused := _things(found, anomaly.name) - happened:
            found.wrong.append((ACCUSED, f"{anomaly.name}: {sorted(accused)[:4]}"))


def _promises(found: PipelineComparison) -> None:
    given = promises(found.run.case)
    for anomaly in found.result.anomalies:
        if anomaly.promised is None or anomaly.name not in given or anomaly.promised == given[anomaly.name]:
            continue
        kind = PROMISE_INVENTED if anomaly.promised else PROMISE_DENIED
        found.wrong.append((kind, anomaly.name))


def described(found: PipelineComparison) -> str:
    """The difference in words: the case, both answers."""
    lines = [str(found.run.case), f"lies {sorted(found.run.lies)}"]
    for what, each in (("shown", found.known.shown), ("maybe", found.known.maybe)):
        lines.append(f"oracle: {what} { {name: sorted(things)[:8] for name, things in each.items() if things} }")
    lines += [f"  open {found.known.open}", f"  promises {promises(found.run.case)}"]
    lines.append(f"checker: {found.result.valid}, {found.result.reasons}")
    for anomaly in found.result.anomalies:
        things = sorted(_things(found, anomaly.name))[:8]
        lines.append(f"  {anomaly.name} promised={anomaly.promised} {anomaly.count}: {things}")
    lines += [f"WRONG {kind}: {what}" for kind, what in found.wrong]
    if found.missed:
        lines.append(f"MISSED {found.missed}")
    return "\n".join(lines)
