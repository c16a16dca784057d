"""Carries out a client matrix: builds the client programs, chooses the cells, runs them, and writes the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.experiments.client_matrix import axes, programs, report, run
from harness.experiments.client_matrix.axes import Cell
from harness.experiments.client_matrix.pairwise import covering
from harness.experiments.client_matrix.programs import Program
from harness.experiments.client_matrix.report import Results
from harness.experiments.client_matrix.run import ALLOWED, INVALID, NOT_RUN, Ran
from harness.experiments.client_matrix.standing_cluster import StandingCluster
from harness.experiments.expectations import ANY, Expectation
from harness.experiments.run import attempt
from harness.experiments.spec import Case
from harness.model.errors_and_exit_codes import BadInput, HarnessError
from harness.run.spark import NONE

Say = Callable[[str], None]


def planned(only: str, seed: int, kafka: str, folder: Path, user: str, say: Say) -> Results:
    """Builds the client programs and chooses the cells to run. Returns the results before the first run.

    If `folder` contains the results of an interrupted matrix, its runs are included. Raises BadInput if the arguments
    do not match these results, or if no program can run.

    only   comma-separated names of client programs; empty: all of them, or those of the interrupted matrix
    kafka  version of the brokers
    user   name of the user that the programs run as, if this process runs as root
    """
    earlier = report.continued(folder)
    chosen = programs.names(only)
    runs: Sequence[Ran] = ()
    if earlier is not None:
        before, names, runs = earlier
        if before != seed or (only and tuple(chosen) != names):
            raise BadInput(
                f"--out {folder}: it contains results with --seed {before} and --case {','.join(names)}; repeat these "
                "to continue, or choose another folder"
            )
        chosen = list(names)
        say(f"continuing {folder}: {sum(ran.verdict != NOT_RUN for ran in runs)} runs are done")
    ready, failed = programs.prepare(chosen, user, say)
    if not ready:
        raise BadInput("none of the client programs can be built and started; the reasons are above")
    libraries = {name: program.capabilities for name, program in ready.items()}
    design = [Cell(*each) for each in covering(axes.cells(libraries), seed)]
    absent = tuple(axes.absent(libraries))
    return Results(seed, kafka, tuple(chosen), tuple(ready.values()), failed, tuple(design), absent, tuple(runs))


def carry_out(
    results: Results,
    cluster: StandingCluster,
    folder: Path,
    runs_dir: Path,
    budget_s: float,
    user: str,
    spark_master: str,
    say: Say,
) -> Results:
    """Runs the cells that have not been run yet, and writes the report into `folder` after each run.

    Returns the results, with the earlier and the new runs. Raises HarnessError if the cluster does not start.
    """
    ready = {program.name: program for program in results.programs}

    def attempted(cell: Cell, seed: int) -> Ran:
        cluster.up()
        ran = _attempted(cell, seed, ready[cell.library], cluster.written, runs_dir, user, spark_master)
        if ran.verdict != NOT_RUN and not ran.folder:  # the cluster failed
            cluster.down()
        return ran

    report.write(folder, results)
    try:
        for ran in run.run(results.design, results.runs, attempted, results.seed, budget_s, say):
            results = replace(results, runs=(*results.runs, ran))
            report.write(folder, results)
    finally:
        cluster.down()
    return results


def _attempted(
    cell: Cell, seed: int, program: Program, cluster: str, runs_dir: Path, user: str, spark_master: str
) -> Ran:
    """Runs a cell once. If the harness refuses the plan, the verdict is `not run`, with the reason."""
    fields = axes.plan_fields(cell.fault, cell.mode, program.capabilities)
    pipeline = fields.get("workload") == axes.PIPELINE
    plan = {**fields, "client": [program.client], "client_user": user, "cluster": cluster}
    case = Case(", ".join(cell), "", plan, Expectation(never=(ANY,)), 1)
    try:
        made = case.test_plan(seed)
        outcome = attempt(case, made, runs_dir, spark_master if pipeline else NONE, made.client, plots=False)
    except HarnessError as error:
        return Ran(*cell, seed, NOT_RUN, 0.0, why=str(error))
    allowed = outcome.valid == INVALID and not outcome.broken
    anomalies = {name: n for name, n in outcome.bad.items() if allowed or name in outcome.broken}
    verdict = ALLOWED if allowed else outcome.valid
    return Ran(*cell, seed, verdict, outcome.seconds, outcome.folder, anomalies, outcome.why)
