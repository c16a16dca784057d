"""`harness shrink RUN --schedule`: reduces the plan of a run, by running the plans that `plan_search` proposes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import EXIT_UNKNOWN, EXIT_VALID, BadInput, Missing
from harness.plan import make_plan, plan_file, schedule
from harness.plan.options import FaultFields, RunFields
from harness.plan.test_plan import TestPlan
from harness.report.text import witness_lookup
from harness.run import allowed_commands
from harness.shrinking import plan_search, replay
from harness.shrinking.plan_search import Injection, Size
from harness.shrinking.replay import Repeat
from harness.shrinking.shrink_run import FOLDER
from harness.stored import fault_spans
from harness.yaml_data import seconds
from nemesis.schedule.timing import Timing
from nemesis.table import faults

Say = Callable[[str], None]
FOR_MIN_S = 0.5
# Fields that say what is tested and where, or that other parts of a `Size` stand for.
_CLUSTER: Final = ("cluster", "cluster_name", "hosts", "system", "image", "bootstrap", "client_config", "network")
_LOAD: Final = ("workload", "app", "scenario", "time_limit_s", "final_time_limit_s", "concurrency", "rate_hz")
_KEPT: Final = {"schema", *RunFields.model_fields, *FaultFields.model_fields, *_CLUSTER, *_LOAD}


def size_of(plan: TestPlan) -> Size:
    """Returns the parts of a plan that can be reduced."""
    entries = tuple((n, line.fault) for n, line in enumerate(plan.schedule))
    return Size(plan.nemesis, (), plan.time_limit_s, plan.concurrency, plan.rate_hz, entries, settings_of(plan))


def settings_of(plan: TestPlan) -> tuple[str, ...]:
    """Returns the names of the fields of a plan that differ from their defaults and can be left out."""
    changed = plan.model_dump(by_alias=True, exclude_defaults=True)
    return tuple(name for name in changed if name not in _KEPT)


def written(plan: TestPlan, on: Sequence[fault_spans.Span]) -> Size | None:
    """Returns the plan's size with the faults of its run listed one by one, each at the time at which it occurred.

    Returns None if no fault took effect during the load, or if the plan has a schedule.

    on  when each fault of the run was active
    """
    stops = {
        fault.name: fault.rounds.stop is not None
        for fault in faults(tuple(dict.fromkeys(span.fault for span in on)), Timing())
    }
    limit_ns = int(plan.time_limit_s * 1e9)
    injections = []
    for span in on:
        if span.begin_ns >= limit_ns or span.took_effect is False:
            continue
        end_ns = min(span.end_ns or limit_ns, limit_ns)
        length = max(FOR_MIN_S, round((end_ns - span.begin_ns) / 1e9, 1)) if stops[span.fault] else None
        injections.append(Injection(span.fault, round(span.begin_ns / 1e9, 1), length))
    if not injections or plan.schedule:
        return None
    load = (plan.time_limit_s, plan.concurrency, plan.rate_hz)
    return Size((), tuple(injections), *load, settings=settings_of(plan))


def plan_for(plan: TestPlan, size: Size, n: int) -> TestPlan:
    """Returns the plan for the n-th run of a size; n changes the seed. Raises BadInput if the plan is invalid."""
    lines: list[Any] = [
        {
            "fault": injection.fault,
            "at": injection.at_s,
            **({} if injection.for_s is None else {"for": injection.for_s}),
        }
        for injection in size.injections
    ]
    values = plan.model_dump(by_alias=True, exclude_defaults=True, exclude={"run", "started", "versions", "git_commit"})
    values = {name: value for name, value in values.items() if name in _KEPT or name in size.settings}
    changed = {
        "nemesis": size.rhythm,
        "time_limit_s": size.seconds,
        "concurrency": size.clients,
        "rate_hz": size.rate_hz,
        "seed": plan.seed + n,
        "schedule": lines or schedule.dumped([plan.schedule[n] for n, _ in size.entries]),
    }
    return make_plan.make({**values, **changed})


@dataclass(slots=True)
class Trial:
    """Runs plans of a size to find out whether most of them show an anomaly. A time limit applies to all runs together.

    times      number of runs of each size
    run        runs a plan
    clock      returns the time in seconds
    longest_s  duration of the longest run so far
    hits       size -> (number of runs that showed the anomaly, number of runs)
    """

    plan: TestPlan
    anomaly: str
    times: int
    deadline_s: float
    run: Callable[[TestPlan], Repeat]
    say: Say
    clock: Callable[[], float] = time.monotonic
    longest_s: float = 0.0
    hits: dict[Size, tuple[int, int]] = field(default_factory=dict)

    def shows(self, size: Size) -> bool | None:
        """Returns whether most runs of a size show the anomaly; None if there is not enough time left to
        decide this."""
        hit = missed = 0
        most = self.times // 2 + 1
        while hit < most and missed <= self.times - most:
            if self.clock() + self.longest_s > self.deadline_s:
                return None
            began = self.clock()
            try:
                repeat = self.run(plan_for(self.plan, size, hit + missed))
            except BadInput:  # an invalid plan, for example with a fault after the end of the load
                return False
            self.longest_s = max(self.longest_s, self.clock() - began)
            if repeat.checked:
                self.say(f"  {repeat.checked}")
            shown = self.anomaly in repeat.bad
            hit, missed = hit + shown, missed + (not shown)
        self.hits[size] = (hit, hit + missed)
        self.say(f"  {'yes' if hit >= most else 'no':3}  {hit} of {hit + missed} runs  {size}")
        return hit >= most


def shrink(
    run: Path,
    result: Result,
    anomaly: str | None,
    times: int,
    budget: str,
    runs_dir: Path,
    spark_master: str,
    say: Say,
    allow_commands: bool = False,
) -> int:
    """Reduces a run's plan, prints the result, and writes the smallest plan to RUN/shrunk/schedule/plan.yaml.

    Returns exit code 0, or 2 if even the original plan does not show the anomaly in most of its runs.
    """
    try:
        budget_s = seconds(budget)
    except ValueError as error:
        raise BadInput(f"--budget {budget}: {error}") from None
    name = _anomaly(run, result, anomaly)
    plan = replay.plan_of(run)
    commands = allowed_commands.announced(plan, "", allow_commands, say)
    allowed_commands.refuse(plan, commands)
    trial = Trial(
        plan,
        name,
        times,
        time.monotonic() + float(budget_s),
        lambda chosen: replay.once(chosen, runs_dir, spark_master, commands),
        say,
    )
    say(f"looking for plans that show {name} in most of {times} runs, for {budget} at most")
    came = plan_search.search(size_of(plan), written(plan, fault_spans.of_run(run)), trial.shows)
    if came.best is None:
        why = (
            "the budget was used up before this was certain"
            if not came.whole
            else "the anomaly is too rare to tell whether a smaller plan shows it"
        )
        say(f"the original plan does not show {name} in most of its runs: {why}; see harness replay {run}")
        return EXIT_UNKNOWN
    target = run / FOLDER / "schedule" / "plan.yaml"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(plan_file.dump(plan_for(plan, came.best, 0)))
    except OSError as error:
        raise Missing(
            f"{target}: cannot be written ({error.strerror}); free disk space or fix the permissions"
        ) from None
    hit, ran = trial.hits[came.best]
    end = "no smaller plan shows it" if came.whole else "the budget is used up; there may be smaller plans"
    say(f"smallest: {came.best}\n  {name} in {hit} of {ran} runs; {came.tried} plans were tried; {end}")
    say(f"next: harness run --plan {target}")
    return EXIT_VALID


def _anomaly(run: Path, result: Result, requested: str | None) -> str:
    """Returns the name of the anomaly that plans must show: the requested one, or the run's most severe one.

    Raises BadInput if there is no such anomaly.
    """
    if requested is not None:
        return witness_lookup.anomaly(result, witness_lookup.named_witness(requested).name).name
    bad = [anomaly.name for anomaly in result.anomalies if anomaly.bad]
    if not bad:
        raise BadInput(
            f"{run}: no anomaly that makes the verdict invalid was found in it, so there is nothing to shrink"
        )
    return bad[0]
