"""Runs the load with its faults, the healing and the final polls, and writes the history."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from harness import history_writer
from harness.generator import Barrier, Clients, Rate, Then, TimeLimit, any_
from harness.model.capabilities import Cluster, Releases, offers
from harness.model.errors_and_exit_codes import BadInput, HarnessError
from harness.model.fault_and_generator_protocols import Env, Generator
from harness.model.op import FAIL, NEMESIS, Op
from harness.model.randomness import Draw
from harness.plan import derived, upgrade
from harness.plan.resolve import ResolvedPlan
from harness.plan.test_plan import TestPlan
from harness.run import (
    log_model,
    metadata_log,
    pipeline_files,
    record_cluster_settings,
    start_workers,
    upgrade_watch,
)
from harness.run.interpreter import Interpreter, Limits, fault_of
from harness.run.progress_display import Live
from harness.run.spark import WarmSpark
from harness.run.start_workers import Staff
from harness.run.table_writer import Roller
from harness.run.upgrade_watch import NoWatch, UpgradeWatch
from nemesis import table as nemeses
from nemesis.schedule import triggers
from nemesis.schedule.upcoming import Ahead
from workloads.table import LOG_MODEL

Say = Callable[[str], None]
START: Final = "start"  # an op before the load
LIVENESS: Final = "liveness"  # the check of what stays stuck after healing
WITHOUT_ISR: Final = ("sim", "mock")  # clusters that do not replicate
LATER_S: Final = 10.0  # time after the load for a fault that waits for a healthy cluster between its steps
log = logging.getLogger("harness")


def load_phase(resolved: ResolvedPlan) -> Generator:
    """Returns the generator of the load: client ops at the plan's rate, and ops of the faults, until the time limit."""
    plan, ops = resolved.plan, resolved.workload.generator
    time_limit_ns = int(plan.time_limit_s * 1e9)
    if resolved.workload.drives_faults:
        return TimeLimit(ops, time_limit_ns)
    if plan.rate_hz > 0:
        ops = Rate(ops, int(1e9 / plan.rate_hz))
    under_load = nemeses.under_load(resolved.faults, resolved.schedule, resolved.timing)
    parts = [Clients(ops)] if under_load is None else [under_load, Clients(ops)]
    return TimeLimit(any_(*parts), time_limit_ns)


def whole_run(resolved: ResolvedPlan) -> Generator:
    """Returns the generator of the whole run: the load with faults, the healing, a look whether everything has settled,
    the final polls, then a look whether the consumer group settles.
    """
    final_s, final = resolved.plan.final_time_limit_s, resolved.workload.final
    parts: list[Generator] = [load_phase(resolved)]
    if resolved.workload.before is not None:
        parts = [Clients(resolved.workload.before), Barrier(parts[0])]
    parts.append(Barrier(nemeses.healing(resolved.faults, final_s)))
    watched = LIVENESS in resolved.workload.checks and resolved.plan.cluster not in WITHOUT_ISR
    if watched:
        parts.append(Barrier(nemeses.settling(resolved.plan.concurrency, derived.transaction_timeout_s(resolved.plan))))
    if final is not None:
        finished = nemeses.mark(nemeses.FINAL_POLLS_COMPLETE)
        polls = Then((Clients(final), finished))
        parts.append(Barrier(TimeLimit(polls, int(final_s * 1e9))))
    if watched and "subscribe" in resolved.plan.sub_via:
        parts.append(Barrier(nemeses.settling_group(derived.session_timeout_s(resolved.plan))))
    return Then(tuple(parts))


@contextlib.contextmanager
def interruptible(on_first: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Handles Ctrl-C until the context ends. Yields a function that returns whether Ctrl-C was pressed.

    The first Ctrl-C calls `on_first`, and the run continues with healing and checking. The second Ctrl-C raises
    KeyboardInterrupt.
    """
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


def record(
    folder: Path,
    resolved: ResolvedPlan,
    cluster: Cluster,
    spark: WarmSpark,
    stack: contextlib.ExitStack,
    say: Say,
    quiet: bool,
) -> bool:
    """Runs the load, the healing and the final polls, and writes the history.

    Returns whether the user interrupted the run.
    """
    plan = resolved.plan
    if plan.workload == LOG_MODEL:
        with interruptible(lambda: None) as pressed:
            log_model.record(folder, plan, cluster, stack, say, quiet, pressed)
            return pressed()
    spark.start()
    if derived.has_pipeline(plan):
        pipeline_files.describe(folder, plan)
    staff = start_workers.hire(folder, resolved, cluster, stack, say)
    spark.get()
    watch_of = _watch_of_upgrade(plan, cluster, staff)
    zero_ns = time.monotonic_ns()
    live = Live(plan.time_limit_s, zero_ns, folder.name, _ahead(resolved))
    events = history_writer.Events(folder, zero_ns)
    events.write("phase", "load")
    events.write("clients", "library of each slot", libraries=start_workers.libraries_of_slots(plan))
    env = _environments(resolved, cluster, staff, zero_ns)
    with (
        Roller(folder / "tables") as roller,
        history_writer.HistoryLog(folder / "history", plan.run, zero_ns, on_roll=roller.add) as history,
    ):
        interpreter = Interpreter(
            staff.crew,
            lambda op: nemeses.invoke(resolved.faults, env(fault_of(op)), op),
            history.append,
            concurrency=plan.concurrency,
            seed=plan.seed,
            zero_ns=zero_ns,
            limits=Limits(plan.op_timeout_s + 2.0),
            before=staff.topics.before,
            listener=_listener(folder, live, events, spark),
        )
        upgrading = watch_of(events)
        watch = triggers.Watch(resolved.schedule, cluster, staff.roles, interpreter.notice)
        quorum = metadata_log.watch(folder, plan, cluster, zero_ns, events)

        def divert() -> None:
            events.write("interrupted", "by the user")
            live.note("interrupted: the run heals the cluster and checks the history; Ctrl-C again aborts it")
            interpreter.divert(nemeses.healing(resolved.faults, plan.final_time_limit_s))

        with live.showing(quiet), interruptible(divert) as pressed:
            try:
                watch.start()
                upgrading.start()
                if quorum is not None:
                    quorum.start()
                interpreter.run(whole_run(resolved))
            except BadInput:
                raise
            except HarnessError as error:
                events.write("trouble", str(error))
                log.error("the run was cut short: %s", error)
            finally:
                watch.stop()
                nemeses.teardown(resolved.faults, env())
                upgrading.stop()
                if quorum is not None:
                    quorum.stop()
            record_cluster_settings.record(plan.cluster, staff.admin.call, events)
            if quorum is not None:
                metadata_log.finish(folder, cluster, staff.topics.created(), events)
            if derived.has_pipeline(plan):
                pipeline_files.write_sent(folder, plan)
            return pressed()


def _watch_of_upgrade(
    plan: TestPlan, cluster: Cluster, staff: Staff
) -> Callable[[history_writer.Events], UpgradeWatch | NoWatch]:
    """Leaves in the cluster what must survive the plan's upgrade. Returns a function that makes the watch."""
    if not (plan.upgrade_to or upgrade.migrates(plan)) or not offers(cluster, Releases):
        return lambda events: NoWatch()
    left = upgrade_watch.leave(
        staff.admin.call, derived.replication_factor(plan), {"min.insync.replicas": str(derived.min_isr(plan))}
    )
    return lambda events: UpgradeWatch(cluster, staff.admin.call, events, left)


def _environments(resolved: ResolvedPlan, cluster: Cluster, staff: Staff, zero_ns: int) -> Callable[..., Env]:
    """Returns a function that makes the `Env` for an op of a fault, given the fault's name."""
    plan = resolved.plan
    counts: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def env(fault: str = "") -> Env:
        # Counted per fault, so that the order of two faults does not change their random draws.
        draw = Draw.of(plan.seed, f"nemesis {fault}", next(counts[fault]))
        until_s = zero_ns / 1e9 + plan.time_limit_s + LATER_S
        return Env(
            cluster, staff.roles, staff.crew, draw, staff.admin.call, until_s=until_s, sends=staff.topics.sends()
        )

    return env


def _listener(folder: Path, live: Live, events: history_writer.Events, spark: WarmSpark) -> Callable[[Op], None]:
    """Returns a function that is called with each recorded op.

    It updates the display, writes events, and starts Spark when the load is over. It raises BadInput if an op before
    the load failed.
    """

    def listen(op: Op) -> None:
        live.event(op)
        if op.f == START and op.type == FAIL:
            raise BadInput(f"{op.error} ({folder})")
        if op.process != NEMESIS:
            return
        log.info("nemesis %s %s", op.f, json.dumps(op.value, default=str))
        if op.f == "heal" and op.extra.get("phase") == "invoke":
            spark.start()
        elif op.f == "heal" and op.error:
            events.write("trouble", f"the cluster did not heal: {op.error}")
        elif op.f == nemeses.FINAL_POLLS_COMPLETE and op.extra.get("phase") == "complete":
            events.write("phase", "final polls complete")

    return listen


def _ahead(resolved: ResolvedPlan) -> Ahead:
    """Returns the object that tells the display which faults come next."""
    in_turns = () if resolved.workload.drives_faults else nemeses.rotations(resolved.faults, resolved.schedule)
    return Ahead(in_turns, resolved.schedule, resolved.timing, resolved.plan.time_limit_s)
