"""The composition root: from a plan to a judged run. Only this module and `cli` know all packages."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness import store
from harness.cluster.distribution import java
from harness.cluster.local import process_owner
from harness.generator import Barrier, Clients, Rate, Then, TimeLimit, any_
from harness.model.capabilities import Cluster, Logs
from harness.model.draw import Draw
from harness.model.errors import BadInput, HarnessError, Missing
from harness.model.op import NEMESIS, Op
from harness.model.options import CheckOptions
from harness.model.protocols import Env, Fault, Generator, Workload
from harness.model.result import Result, to_data
from harness.plan import pipeline
from harness.plan import schedule as timetable
from harness.plan import test_plan as plans
from harness.plan.test_plan import TestPlan
from harness.run import (
    attached,
    client_versions,
    log_model,
    make_cluster,
    make_workload,
    start_workers,
)
from harness.run.interpreter import Interpreter, Limits, fault_of
from harness.run.progress_display import Live
from harness.run.provenance import git_commit, versions
from harness.run.spark import WarmSpark, require
from harness.run.table_writer import Roller
from harness.stored import broker_data
from harness.yaml_data import Where
from nemesis import table as nemeses
from nemesis.schedule import triggers
from nemesis.schedule.timing import Timing
from nemesis.schedule.upcoming import Ahead

Say = Callable[[str], None]
LATER_S: Final = 10.0  # beyond the load, for a fault that waits for health between two of its steps
log = logging.getLogger("harness")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that ended: its folder, the verdict, and whether the user interrupted it."""

    folder: Path
    result: Result
    interrupted: bool


# --- parts of a plan ----------------------------------------------------------------------------------


def load_phase(plan: TestPlan, workload: Workload, faults: tuple[Fault, ...]) -> Generator:
    """Ops at the plan's rate beside the faults, until the time limit."""
    ops = workload.generator
    if workload.drives_faults:
        return TimeLimit(ops, int(plan.time_limit_s * 1e9))
    if plan.rate_hz > 0:
        ops = Rate(ops, int(1e9 / plan.rate_hz))
    under_load = nemeses.under_load(faults, timetable.entries(plan.schedule))
    parts = [Clients(ops)] if under_load is None else [under_load, Clients(ops)]
    return TimeLimit(any_(*parts), int(plan.time_limit_s * 1e9))


def whole_run(plan: TestPlan, workload: Workload, faults: tuple[Fault, ...]) -> Generator:
    """Load with faults, heal, final polls."""
    healing = nemeses.healing(faults, plan.final_time_limit_s)
    parts = [load_phase(plan, workload, faults), Barrier(healing)]
    if workload.final is not None:
        finished = nemeses.mark(nemeses.FINAL_POLLS_COMPLETE)
        polls = Then((Clients(workload.final), finished))
        parts.append(Barrier(TimeLimit(polls, int(plan.final_time_limit_s * 1e9))))
    return Then(tuple(parts))


# --- the run ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def interruptible(on_first: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Ctrl-C once: `on_first`, and the run goes on to heal and check. Twice: KeyboardInterrupt."""
    pressed = [0]

    def handler(number: int, frame: Any) -> None:
        pressed[0] += 1
        if pressed[0] > 1:
            raise KeyboardInterrupt
        on_first()

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: pressed[0] > 0
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)


def attach_log(folder: Path) -> logging.Handler:
    """harness.log in the run folder."""
    handler = logging.FileHandler(folder / "harness.log")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    return handler


def run(
    plan: TestPlan,
    runs: Path,
    say: Say,
    spark_master: str = "local[*]",
    quiet: bool = False,
    where: Where | None = None,
) -> Outcome:
    """Carry out a plan and judge what happened. Raises HarnessError. `where`: see `timetable.checked`."""
    if plan.workload == "pipeline":
        require(spark_master, "--workload pipeline")
    plan = attached.settled(plan)
    names = nemeses.canonical(",".join(plan.nemesis), make_cluster.server_names(plan))
    schedule = timetable.checked(plan, make_cluster.server_names(plan), names, where)
    plan = plan.model_copy(update={"nemesis": names, "schedule": schedule})
    timing = Timing(plan.nemesis_first_s, plan.nemesis_interval_s)
    faults = (*nemeses.faults((*names, *plan.scheduled), timing), *make_workload.driven(plan))
    nemeses.refuse_unsubscribed(faults, plan.sub_via)
    spark = WarmSpark(spark_master)
    java.find()
    folder = store.new_run(runs, attached.run_name(plan))
    handler = attach_log(folder)
    (folder / store.OWNER).write_text(process_owner.owner(os.getpid()))
    try:
        plan = plan.model_copy(
            update={
                "run": folder.name,
                "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "versions": versions(plan),
                "git_commit": git_commit(),
            }
        )
        (folder / "plan.yaml").write_text(plans.dump(plan))
        say(f"run {folder}")
        return _run_in(folder, plan, faults, say, spark, quiet)
    except (BadInput, Missing):
        store.discard_unused(folder)
        raise
    finally:
        (folder / store.OWNER).unlink(missing_ok=True)
        log.removeHandler(handler)
        handler.close()


def _run_in(
    folder: Path, plan: TestPlan, faults: tuple[Fault, ...], say: Say, spark: WarmSpark, quiet: bool
) -> Outcome:
    needed = nemeses.needed(faults)
    cluster = make_cluster.make(plan, folder / "cluster", say, needed)
    nemeses.refuse_unsupported(faults, cluster, make_cluster.cannot(plan), make_cluster.refusals(plan, needed))
    make_cluster.refuse_load(plan, cluster)
    triggers.refuse_unsupported(timetable.entries(plan.schedule), cluster, make_cluster.cannot(plan))
    client_versions.fetch(plan, say)
    interrupted = False
    with contextlib.ExitStack() as stack:
        stack.callback(_put_away, folder, cluster)
        cluster.up(say)
        store.point_latest(folder)
        if plan.outside:
            reached = getattr(cluster, "outside_bootstrap", cluster.bootstrap)
            say(f"your own tools reach the brokers at {reached}")
        interrupted = _record(folder, plan, faults, cluster, spark, stack, say, quiet)
        if plan.keep_data:  # before the verdict: a check may look at it
            broker_data.keep(folder, cluster, plan.run, say)
        began = time.monotonic()
        session = None if plan.workload == log_model.WORKLOAD else spark.get()  # the steps are judged already
        result = check_run(folder, judged_by(plan), session, say)
        log.info("verdict %s after %.1f s", result.valid, time.monotonic() - began)
        _tell(folder, result, say, time.monotonic() - began)
    try:  # now that what the servers logged is in the folder
        draw(folder, say)
    except Exception as error:  # the verdict stands, whatever becomes of its pictures
        log.exception("the plots were not drawn")
        say(f"the plots were not drawn ({type(error).__name__}: {error}); see {folder / 'harness.log'}")
    return Outcome(folder, result, interrupted)


def _record(
    folder: Path,
    plan: TestPlan,
    faults: tuple[Fault, ...],
    cluster: Cluster,
    spark: WarmSpark,
    stack: contextlib.ExitStack,
    say: Say,
    quiet: bool,
) -> bool:
    """Run the load and the final polls, and write the history. Whether the user interrupted it."""
    if plan.workload == log_model.WORKLOAD:
        with interruptible(lambda: None) as pressed:
            log_model.record(folder, plan, cluster, stack, say, quiet, pressed)
            return pressed()
    spark.start()
    if plan.workload == "pipeline":
        pipeline.describe(folder, plan)
    crew, topics, roles, admin = start_workers.hire(folder, plan, cluster, stack, say)
    spark.get()
    zero_ns = time.monotonic_ns()
    live = Live(plan.time_limit_s, zero_ns, folder.name, _ahead(plan, faults))
    events = store.Events(folder, zero_ns)
    events.write("phase", "load")
    events.write("clients", "library of each slot", libraries=start_workers.libraries_of_slots(plan))

    counts: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def env(fault: str = "") -> Env:
        # Counted by fault: which of two comes first must not move what they draw.
        draw = Draw.of(plan.seed, f"nemesis {fault}", next(counts[fault]))
        until_s = zero_ns / 1e9 + plan.time_limit_s + LATER_S
        return Env(cluster, roles, crew, draw, admin.call, until_s=until_s, sends=topics.sends())

    def invoke(op: Op) -> Op:
        return nemeses.invoke(faults, env(fault_of(op)), op)

    def listen(op: Op) -> None:
        live.event(op)
        if op.process == NEMESIS:
            log.info("nemesis %s %s", op.f, json.dumps(op.value, default=str))
            if op.f == "heal" and op.extra.get("phase") == "invoke":
                spark.start()
            elif op.f == "heal" and op.error:
                events.write("trouble", f"the cluster did not heal: {op.error}")
            elif op.f == nemeses.FINAL_POLLS_COMPLETE and op.extra.get("phase") == "complete":
                events.write("phase", "final polls complete")

    with (
        Roller(folder / "tables") as roller,
        store.HistoryLog(folder / "history", plan.run, zero_ns, on_roll=roller.add) as history,
    ):
        interpreter = Interpreter(
            crew, invoke, history.append,
            concurrency=plan.concurrency, seed=plan.seed, zero_ns=zero_ns,
            limits=Limits(plan.op_timeout_s + 2.0), before=topics.before, listener=listen,
        )  # fmt: skip

        watch = triggers.Watch(timetable.entries(plan.schedule), cluster, roles, interpreter.notice)

        def interrupted() -> None:
            events.write("interrupted", "by the user")
            live.note("interrupted: it heals and judges what there is; Ctrl-C again ends it at once")
            interpreter.divert(nemeses.healing(faults, plan.final_time_limit_s))

        with live.showing(quiet), interruptible(interrupted) as pressed:
            try:
                watch.start()
                interpreter.run(whole_run(plan, make_workload.make(plan), faults))
            except HarnessError as error:
                events.write("trouble", str(error))
                log.error("the run was cut short: %s", error)
            finally:
                watch.stop()
                nemeses.teardown(faults, env())
            if plan.workload == "pipeline":
                pipeline.write_sent(folder, plan)
            return pressed()


def _ahead(plan: TestPlan, faults: tuple[Fault, ...]) -> Ahead:
    """When which fault will come, for whoever watches."""
    schedule = timetable.entries(plan.schedule)
    timing = Timing(plan.nemesis_first_s, plan.nemesis_interval_s)
    in_turns = () if make_workload.make(plan).drives_faults else nemeses.rotations(faults, schedule)
    return Ahead(in_turns, schedule, timing, plan.time_limit_s)


def _put_away(folder: Path, cluster: Cluster) -> None:
    """Collect the logs, then remove the cluster."""
    if isinstance(cluster, Logs):
        try:
            cluster.collect(str(folder / "logs"))
        except OSError as error:
            log.warning("server logs were not collected: %s", error)
    cluster.down()


# --- after the run ------------------------------------------------------------------------------------


def check_run(path: Path, options: CheckOptions, session: Any, say: Say, stored: bool = True) -> Result:
    """Judge a stored run and write its results.json; or judge a history file and write nothing beside it."""
    from checker import check

    result = check.check(session, path, options, say)
    if stored:
        store.write_json(path / "results.json", to_data(result))
    return result


def _tell(folder: Path, result: Result, say: Say, seconds: float) -> None:
    from harness.report.text import summary

    say("")
    say(summary.summary(folder, result, brief=True))
    say(f"checked in {seconds:.1f} s")


def draw(folder: Path, say: Say) -> list[Path]:
    """Draw the plots, the pages of the keys in which something is wrong, and the run page; name the pages."""
    from harness.report.order import draw as orders
    from harness.report.page import draw as run_page
    from harness.report.plots import plots
    from harness.stored import listing

    drawn = plots.draw(folder)
    result = listing.result_of(folder)
    pages = orders.draw(folder, result) if result is not None else []
    if pages:
        say(f"who wrote and who polled, key by key: {pages[0]}")
    page = run_page.draw(folder)
    say(f"open: {page}")
    return [*drawn, *pages, page]


def judged_by(plan: TestPlan) -> CheckOptions:
    """What the checker is told of a plan: its settings, less what its faults make of them, and the checks of
    its workload."""
    options = plan.check_options()
    settings = nemeses.weakened(options.settings, options.expected_faults, plan.scheduled)
    return replace(options, checks=make_workload.make(plan).checks, settings=settings)


def options_of(folder: Path, **changes: Any) -> CheckOptions:
    """The check options of a stored run, from its plan, with the user's changes."""
    path = folder / "plan.yaml"
    options = judged_by(plans.load(path)) if path.exists() else CheckOptions()
    return replace(options, **changes)
