"""`harness experiment run client-matrix`: the client programs of examples/clients under faults."""

from __future__ import annotations

import time
from pathlib import Path

NAME = "client-matrix"
TITLE = "client libraries under faults in several modes, pairwise, on one persistent cluster"
KIND = "matrix"
SOURCE = "examples/clients, docs/understand/client-matrix.md"


def run(
    only: str, seed: int, cluster: str, out: Path | None, runs_dir: Path, budget_s: float, user: str, spark_master: str
) -> int:
    """Runs the matrix and writes a report. Returns the exit code. Raises HarnessError.

    If the folder `out` contains results of an interrupted matrix, only the remaining runs are done.
    """
    from harness.experiments.client_matrix import carry_out, report
    from harness.experiments.client_matrix.standing_cluster import StandingCluster

    folder = out or runs_dir / "experiments" / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{NAME}"
    standing = StandingCluster(cluster, print)
    results = carry_out.planned(only, seed, standing.kafka_version, folder, user, print)
    print(f"{len(results.design)} cells; to continue after an interruption, repeat the command with --out {folder}")
    results = carry_out.carry_out(results, standing, folder, runs_dir, budget_s, user, spark_master, print)
    code = report.exit_code(results)
    verdict = {0: "every run is valid", 1: "some runs are INVALID"}.get(code, "some runs are unknown or were not done")
    print(f"\n{NAME}: {verdict}\nreport: {folder / 'report.md'}   data: {folder / report.FILE}")
    return code
