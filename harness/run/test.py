"""Carries out a plan and checks the run. Only this module and `cli` import all packages of the harness."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from harness import history_writer
from harness.cluster.distribution import java
from harness.cluster.local import process_owner
from harness.model.capabilities import Cluster, Logs, offers
from harness.model.check_result import Result
from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.plan import derived, plan_file
from harness.plan.resolve import ResolvedPlan, judged_by
from harness.plan.test_plan import TestPlan
from harness.run import (
    allowed_commands,
    attached_cluster,
    build_client,
    check_and_draw,
    choose_spark,
    client_versions,
    load_heal_final_polls,
    make_cluster,
    record_cluster_settings,
    start_workers,
)
from harness.run.provenance import git_commit, versions
from harness.run.spark import ALL_CORES, AUTO, WarmSpark, require
from harness.run.uploads import LiveUpload
from harness.stored import broker_data
from harness.yaml_data import Where
from nemesis import table as nemeses
from nemesis.schedule import triggers
from workloads.table import LOG_MODEL

Say = Callable[[str], None]
log = logging.getLogger("harness")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a finished run: its folder, the verdict, and whether the user interrupted the run.

    checked  sentence that says where `--spark-master auto` had the history checked, and why; empty with another master
    """

    folder: Path
    result: Result
    interrupted: bool
    checked: str = ""


# --- the run ------------------------------------------------------------------------------------------


def attach_log(folder: Path) -> logging.Handler:
    """Adds a log handler that writes to harness.log in the run folder, and returns the handler."""
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
    commands: Collection[str] = (),
    plots: bool = True,
    uploading: LiveUpload | None = None,
) -> Outcome:
    """Carries out a plan and checks the history. Raises HarnessError.

    where      see `schedule_rules.checked`
    commands   client programs that the plan may execute: see `allowed_commands`
    plots      whether to draw the plots, which takes seconds; if not, `harness check` can draw them later
    uploading  where to upload the run, if anywhere
    """
    allowed_commands.refuse(plan, commands)
    if derived.has_pipeline(plan):
        require(spark_master, f"--workload {plan.workload}")
        spark_master = ALL_CORES if spark_master == AUTO else spark_master
    plan = attached_cluster.settled(plan)
    resolved = make_cluster.resolved(plan, where)
    nemeses.refuse_pointless(resolved.faults, derived.uses(plan))
    build_client.build_all(plan.client, say)
    start_workers.refuse_properties(plan)
    spark = WarmSpark(spark_master)
    java.find()
    folder = history_writer.new_run(runs, attached_cluster.run_name(resolved.plan))
    handler = attach_log(folder)
    (folder / history_writer.OWNER).write_text(process_owner.owner(os.getpid()))
    try:
        resolved = resolved.update(
            run=folder.name,
            started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            versions=versions(resolved),
            git_commit=git_commit(),
        )
        (folder / "plan.yaml").write_text(plan_file.dump(resolved.plan))
        say(f"run {folder}")
        if uploading is not None:
            uploading.begin(folder)
        return _run_in(folder, resolved, say, spark, quiet, plots)
    except (BadInput, Missing):
        history_writer.discard_unused(folder)
        raise
    finally:
        (folder / history_writer.OWNER).unlink(missing_ok=True)
        log.removeHandler(handler)
        handler.close()
        if uploading is not None:
            uploading.finish(say)


def _run_in(folder: Path, resolved: ResolvedPlan, say: Say, spark: WarmSpark, quiet: bool, plots: bool) -> Outcome:
    plan = resolved.plan
    cluster = make_cluster.make(plan, folder / "cluster", say, resolved.needed)
    _refuse_unsupported(resolved, cluster)
    client_versions.fetch(plan, say)
    interrupted = False
    with contextlib.ExitStack() as stack:
        stack.callback(_put_away, folder, cluster)
        cluster.up(say)
        history_writer.point_latest(folder)
        if plan.outside:
            reached = getattr(cluster, "outside_bootstrap", cluster.bootstrap)
            say(f"your own tools can reach the brokers at {reached}")
        interrupted = load_heal_final_polls.record(folder, resolved, cluster, spark, stack, say, quiet)
        if plan.keep_data:  # before the verdict, because checks may read it
            broker_data.keep(folder, cluster, plan.run, say)
        began = time.monotonic()
        options = judged_by(plan, record_cluster_settings.recorded(folder))
        session, checked = None, ""
        if plan.workload != LOG_MODEL:  # its steps were checked as they ran
            if spark.master == AUTO:
                session, checked = choose_spark.session_for(AUTO, [(folder, options)])
                say(checked)
            else:
                session = spark.get()
        result = check_and_draw.check_run(folder, options, session, say)
        log.info("verdict %s after %.1f s", result.valid, time.monotonic() - began)
        _print_summary(folder, result, say, time.monotonic() - began)
    try:  # after the servers' logs were collected into the folder
        check_and_draw.draw(folder, say, plots)
    except Exception as error:  # a failed plot must not affect the verdict
        log.exception("the plots were not drawn")
        say(f"the plots were not drawn ({type(error).__name__}: {error}); see {folder / 'harness.log'}")
    return Outcome(folder, result, interrupted, checked)


def _refuse_unsupported(resolved: ResolvedPlan, cluster: Cluster) -> None:
    """Raises BadInput if the plan needs capabilities that the cluster does not have."""
    plan, cannot = resolved.plan, make_cluster.cannot(resolved.plan)
    nemeses.refuse_unsupported(resolved.faults, cluster, cannot, make_cluster.refusals(plan, resolved.needed))
    make_cluster.refuse_load(plan, cluster)
    triggers.refuse_unsupported(resolved.schedule, cluster, cannot)


def _put_away(folder: Path, cluster: Cluster) -> None:
    """Collects the servers' logs in the run folder, then removes the cluster."""
    if offers(cluster, Logs):
        try:
            cluster.collect(str(folder / "logs"))
        except OSError as error:
            log.warning("server logs were not collected: %s", error)
    cluster.down()


# --- after the run ------------------------------------------------------------------------------------


def _print_summary(folder: Path, result: Result, say: Say, seconds: float) -> None:
    from harness.report.text import summary

    say("")
    say(summary.summary(folder, result, brief=True))
    say(f"checked in {seconds:.1f} s")
