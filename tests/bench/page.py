"""The cost of viewing runs: the page of a large run, its smallest part, and a list of many runs.

    python -m tests.bench.page [--ops 100000] [--runs 1000]

A simulated run loses acknowledged records, with faults; it is checked without Spark. Figures, each with its limit:
  size     bytes of report.html, which do not grow with the history
  page     drawing it from the stored run
  explain  one witness in full
  shrink   the smallest part of the history that shows its first lost write, as `harness shrink` finds it
  list     the runs of a folder, for `harness list` and the first page of `harness serve`
Times are processor seconds of this process, so that they depend less on other work of the machine; they exclude the
start of the interpreter and of Spark. The baseline is the unavoidable work: reading the history once, line by line;
reading each run's plan.yaml and results.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from harness.model.check_options import CheckOptions, Settings
from harness.report.page import run_page
from harness.report.text import gather_explanation, witness_lookup
from harness.run.check_and_draw import options_of
from harness.shrinking import shrink_run
from harness.sim.queue.run import simulate
from harness.stored import find_runs
from harness.web.pages_of_runs import Views
from harness.web.run_query import Query
from tests.unit.report.folders import S, judged, killed, recorded, woven
from tests.unit.web import many

BUGS = frozenset({"lose-acked"})
PAGE_BAR_S, EXPLAIN_BAR_S, SHRINK_BAR_S = 15.0, 1.0, 8.0
LIST_BAR_S, SERVE_BAR_S, AGAIN_BAR_S = 0.5, 1.0, 0.2


def large(runs: Path, ops: int) -> Path:
    """A checked run with this many operations that lost records while leaders were killed."""
    history = simulate(3, ops=ops, keys=12, txn=False, bugs=BUGS)
    end_s = history[-1].time_ns / S
    faults = [op for n in range(8) for op in killed(end_s * (n + 0.2) / 8, end_s * (n + 0.6) / 8, f"n{n % 3 + 1}")]
    folder = recorded(runs, "20260102T030405-large", woven(history, faults), acks="1")
    judged(folder, CheckOptions(settings=Settings(acks="1")))
    return folder


def cpu_s(action: Callable[[], Any]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def show(name: str, seconds: float, bar_s: float, floor_s: float) -> None:
    verdict = "met" if seconds <= bar_s else "MISSED"
    print(
        f"{name:24} {seconds:7.2f} s cpu   floor {floor_s:6.2f} s ({seconds / floor_s:5.1f} times)   "
        f"bar {bar_s:g} s: {verdict}",
        flush=True,
    )


def of_one(work: Path, ops: int) -> None:
    """The page, an explanation and the smallest part of one large run."""
    run = large(work, ops)
    path = run / "history" / "00000.jsonl"
    print(f"{ops:,} ops, {path.stat().st_size / 1e6:.0f} MB of history", flush=True)

    def read() -> None:
        with path.open("rb") as lines:
            for line in lines:
                orjson.loads(line)

    floor_s = cpu_s(read)
    page_s = cpu_s(lambda: run_page.draw(run))
    size = run_page.path(run).stat().st_size
    verdict = "met" if size <= run_page.BYTES_MAX else "MISSED"
    print(f"{'size':24} {size / 1e6:7.2f} MB   bar {run_page.BYTES_MAX / 1e6:.0f} MB: {verdict}", flush=True)
    show("page", page_s, PAGE_BAR_S, floor_s)
    result = find_runs.require_result(run)
    request = witness_lookup.named_witness("lost-write#2")
    show("explain", cpu_s(lambda: gather_explanation.explain(run, result, request)), EXPLAIN_BAR_S, floor_s)
    options = options_of(run)
    small_s = cpu_s(lambda: shrink_run.of_run(run, result, "lost-write", options))
    show("shrink", small_s, SHRINK_BAR_S, floor_s)


def of_many(runs: Path, count: int) -> None:
    """The list of many small runs."""
    many.many(runs, count)

    def read() -> None:
        for name in ("plan.yaml", "results.json"):
            for path in runs.glob(f"*/{name}"):
                path.read_bytes()

    floor_s = cpu_s(read)
    print(f"{count:,} runs", flush=True)
    show("list", cpu_s(lambda: find_runs.rows(runs)), LIST_BAR_S, floor_s)
    views = Views(runs)
    show("serve, the first time", cpu_s(lambda: views.index(Query())), SERVE_BAR_S, floor_s)
    show("serve, again", cpu_s(lambda: views.index(Query())), AGAIN_BAR_S, floor_s)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        of_one(Path(folder), given.ops)
    with tempfile.TemporaryDirectory() as folder:
        of_many(Path(folder), given.runs)


if __name__ == "__main__":
    main()
