"""Runs experiments: runs every case several times, and compares the results with the expectations."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.experiments import time_to_detection as detection
from harness.experiments.expectations import Seen, over
from harness.experiments.spec import Case, Experiment
from harness.experiments.time_to_detection import Detection
from harness.model.errors_and_exit_codes import EXIT_INVALID, EXIT_UNKNOWN, EXIT_VALID, ClusterTrouble
from harness.plan.test_plan import TestPlan
from harness.run import test

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a case.

    valid      the verdict; "refused" if the cluster did not start, as the case expects
    answers    whether the run met each expectation, in the order of `Expectation.texts`
    seconds    duration of the run
    bad        name of each anomaly that counts against the verdict -> number of witnesses
    figures    the statistics of the result
    why        why the verdict is unknown, or with which error the cluster did not start; otherwise empty
    detection  when the expected anomalies could first be proved; None if the run proved none of them
    broken     the anomalies in this run that Kafka rules out under the run's settings
    """

    seed: int
    valid: str
    answers: Sequence[bool]
    seconds: float
    folder: str = ""
    bad: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    detection: Detection | None = None
    broken: Sequence[str] = ()

    @property
    def conclusive(self) -> bool:
        """Whether the verdict is known. A run with an unknown verdict says nothing about the expectations."""
        return self.valid != "unknown"

    @property
    def met(self) -> bool:
        return self.conclusive and all(self.answers)


@dataclass(frozen=True, slots=True)
class Tried:
    """A case and its runs."""

    case: Case
    attempts: Sequence[Attempt]

    @property
    def seen(self) -> list[Seen]:
        return over(self.case.expect, [attempt.answers for attempt in self.attempts if attempt.conclusive])

    @property
    def exit_code(self) -> int:
        """0 if the results are as expected, 1 if not, 2 if the verdict of a run is unknown."""
        if any(not seen.agrees for seen in self.seen if seen.n):
            return EXIT_INVALID
        return EXIT_VALID if all(attempt.conclusive for attempt in self.attempts) and self.attempts else EXIT_UNKNOWN


def experiment(
    chosen: Experiment,
    runs_dir: Path,
    say: Say,
    runs: int | None = None,
    seed: int = 1,
    stop: bool = False,
    only: str = "",
    spark_master: str = "local[*]",
    cluster: str = "",
) -> Iterator[Tried]:
    """Runs every case, or only those whose name or variant is `only`.

    Yields each case as soon as all its runs have ended. The caller can therefore store each case before the next one
    starts.

    runs     number of runs of each case; None: the number in the experiment's file
    stop     whether a case ends with its first run that is not as expected
    cluster  local:NAME, a running cluster for all cases that can use it; empty: each run has a cluster of its own
    """
    cases = [case for case in chosen.cases if only in ("", case.name, case.variant)]
    cases = [case.on(cluster) for case in cases] if cluster else cases
    for at, case in enumerate(cases):
        say(f"{_label(case)} ({at + 1} of {len(cases)}): {case.title}")
        attempts: list[Attempt] = []
        count = runs or case.runs
        for n in range(count):
            outcome = attempt(case, case.test_plan(seed + n), runs_dir, spark_master)
            attempts.append(outcome)
            say(f"  run {n + 1} of {count}, {describe(outcome)}")
            if stop and not outcome.met:
                break
        tried = Tried(case, attempts)
        for line in summary(tried):
            say(f"  {line}")
        yield tried


def attempt(
    case: Case, plan: TestPlan, runs_dir: Path, spark_master: str, commands: Collection[str] = (), plots: bool = True
) -> Attempt:
    """Runs a case once.

    commands  see `harness.run.test.run`
    plots     whether plots are drawn
    """
    began = time.monotonic()
    lines: list[str] = []
    try:
        outcome = test.run(plan, runs_dir, lines.append, spark_master, quiet=True, commands=commands, plots=plots)
    except ClusterTrouble as error:
        seconds = time.monotonic() - began
        if not case.expect.refused:
            return Attempt(plan.seed, "unknown", case.expect.seen_refusal(str(error)), seconds, why=str(error))
        return Attempt(plan.seed, "refused", case.expect.seen_refusal(str(error)), seconds, why=str(error))
    result = outcome.result
    if outcome.interrupted:
        raise KeyboardInterrupt
    seconds = time.monotonic() - began
    bad = {anomaly.name: anomaly.count for anomaly in result.anomalies if anomaly.bad}
    return Attempt(
        plan.seed,
        result.valid,
        case.expect.seen(result),
        seconds,
        str(outcome.folder),
        bad,
        result.statistics,
        result.reasons[0] if result.reasons and result.valid == "unknown" else "",
        detection.first(outcome.folder, [name for name in case.expect.anomalies if name in bad]),
        [anomaly.name for anomaly in result.anomalies if anomaly.bad and anomaly.promised is not False],
    )


def _label(case: Case) -> str:
    return f"{case.name} [{case.variant}]" if case.variant else case.name


def describe(outcome: Attempt) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in outcome.bad.items()) or outcome.why[:160]
    mark = "as expected" if outcome.met else "not as expected" if outcome.conclusive else "verdict unknown"
    if outcome.detection:
        shown += f", after {outcome.detection.after_s:.1f} s and {outcome.detection.ops:,} ops"
    where = f"  {outcome.folder}" if outcome.folder else ""
    return (
        f"seed {outcome.seed}: {outcome.valid}{f' ({shown})' if shown else ''}, {mark}; {outcome.seconds:.0f} s{where}"
    )


def summary(tried: Tried) -> list[str]:
    """Returns a line for each expectation, with its results.

    Up to two more lines follow: the seeds of the runs with an unknown verdict, and the seeds of the runs that were not
    as expected.
    """
    lines = []
    for seen in tried.seen:
        low, high = seen.interval
        mark = "agrees" if seen.agrees else "DISAGREES" if seen.n else "not known"
        lines.append(f"{seen.text}: {seen.k} of {seen.n} ({low:.0%} to {high:.0%}): {mark}")
    unknown = [str(attempt.seed) for attempt in tried.attempts if not attempt.conclusive]
    if unknown:
        seeds = ", ".join(unknown)
        lines.append(f"{len(unknown)} of {len(tried.attempts)} runs have an unknown verdict (seeds {seeds})")
    failed = [str(attempt.seed) for attempt in tried.attempts if attempt.conclusive and not attempt.met]
    if failed:
        lines.append(f"seeds that were not as expected: {', '.join(failed)}")
    return lines


def exit_code(tried: Sequence[Tried]) -> int:
    """Returns 1 if a case was not as expected, else 2 if a verdict was unknown, else 0."""
    return worst([case_tried.exit_code for case_tried in tried])


def worst(codes: Sequence[int]) -> int:
    """Returns the most important of several exit codes: 1 before 2, and 2 before 0."""
    return next((code for code in (EXIT_INVALID, EXIT_UNKNOWN) if code in codes), EXIT_VALID)
