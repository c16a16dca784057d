"""`make mutants`: a fixed sample of small changes to the kernels, each of which a test should detect.

    python -m tests.mutants.run [--sample 300] [--seed 1] [--only NAME] [--jobs 2]

Each mutant runs in its own forked process, which imports the checker with one changed module. It runs the checks
of `material`, then the small unit tests. A mutant that uses 20 s of processor time for either counts as killed.
Mutants of modules that check pipelines have checks of their own; if they survive these, they run the tests that
need Spark, in a copy of the packages, so that Spark's Python processes import the mutant as well. survivors.md
lists the survivors, with the reason why each is acceptable. The exit code is 0 if at least 85% were killed and
every survivor is listed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.mutants.material import Material, pipeline_stages, prepare, stages
from tests.mutants.mutations import Mutation, mutations

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.md")
MODULES = (
    "cycles/component cycles/dependency_edges cycles/event_cycles cycles/realtime_and_components cycles/search "
    "cycles/shortest cycles/types_and_levels cycles/windows kernels/bucket_of_keys kernels/consumer_starts "
    "kernels/steps_between_values kernels/log_starts_and_ends kernels/unexcused_poll_steps kernels/subscriptions "
    "kernels/version_order verdict/unknown_reasons checks/pipeline"
)
PIPELINES = ("checker.pipeline.", "checker.checks.pipeline", "checker.anomalies.pipeline_")
UNIT_OF_PIPELINES = ("unit/checker/pipeline", "unit/report/test_pipeline_moments.py")
SPARKS = "context events expected foreign_logs judge none offset_tasks outputs tables witnesses"
IN_SPARK = frozenset(f"checker.pipeline.{name}" for name in SPARKS.split())
SPARK_OF_PIPELINES = "tests/spark/test_pipeline.py"
PACKAGES = ("checker", "harness", "nemesis", "workloads", "tests")
UNIT = (
    "unit/checker/test_guarantees.py",
    "unit/checker/test_stale_send.py",
    "unit/checker/test_offset_regression.py",
    "unit/checker/test_bounds.py",
    "unit/checker/test_cycle_search.py",
    "unit/checker/test_native.py",
    "unit/checker/test_cycles.py",
    "unit/checker/test_dummy_anomaly.py",
    "unit/report/test_cycle_prose.py",
    "unit/report/test_explanation.py",
)
CPU_S = 20
WALL_S = 180.0
SPARK_S = 600.0
ENOUGH = 0.85


def sources() -> dict[str, Path]:
    """The modules that are mutated: kernels, native rules, cycle classifier."""
    files = [ROOT / "checker" / f"{name}.py" for name in MODULES.split()]
    files += sorted((ROOT / "checker" / "anomalies").glob("*.py"))
    files += sorted((ROOT / "checker" / "pipeline").glob("*.py"))
    named = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}
    return {name: file for name, file in named.items() if not name.endswith("__init__")}


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed text."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if name == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._text, self._name, "exec"), module.__dict__)


def _verdict(material: Material, mutation: Mutation, text: str) -> str:
    """What detected the mutant; empty if nothing did. Runs in the worker."""
    for name in [name for name in sys.modules if name.split(".")[0] == "checker"]:
        del sys.modules[name]
    sys.meta_path.insert(0, _Mutated(mutation.module, mutation.apply(text)))
    of_pipeline = mutation.module.startswith(PIPELINES)
    try:
        from checker.check import judge
        from checker.tables.buckets_of_a_history import in_memory

        queues = stages(material, lambda tables, options: judge(in_memory(tables), options))
        for name, ask in pipeline_stages(material) if of_pipeline else queues:
            if ask():
                return name
    except Exception as error:
        return type(error).__name__
    if not of_pipeline:
        return _unit_tests(UNIT)
    killer = _unit_tests(UNIT_OF_PIPELINES)
    return _spark_tests(mutation, text) if not killer and mutation.module in IN_SPARK else killer


def _unit_tests(names: Sequence[str]) -> str:
    for name in [name for name in sys.modules if name.startswith(("tests.unit", "tests.property"))]:
        del sys.modules[name]
    files = [str(ROOT / "tests" / name) for name in names]
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_S, resource.RLIM_INFINITY))
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *files])
    return "" if code == 0 else "unit tests"


def _spark_tests(mutation: Mutation, text: str) -> str:
    """Runs the pipeline tests that need Spark, in a copy of the packages with the mutated module."""
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "histories", "fixtures")
            shutil.copytree(ROOT / package, copy / package, ignore=ignored)
        for name in ("histories", "fixtures"):
            (copy / "tests" / name).symlink_to(ROOT / "tests" / name)
        shutil.copy(ROOT / "pyproject.toml", copy)
        module = copy.joinpath(*mutation.module.split(".")).with_suffix(".py")
        module.write_text(mutation.apply(text))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", SPARK_OF_PIPELINES]
        environment = {**os.environ, "PYTHONPATH": folder}
        try:
            done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=SPARK_S, check=False)
        except subprocess.TimeoutExpired:
            return "time"
    return "" if done.returncode == 0 else "tests of pipelines in Spark"


def _work(pipe: Connection, material: Material, mutation: Mutation, text: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, resource.RLIM_INFINITY))
    sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (for the rest of this process)
    try:
        pipe.send(_verdict(material, mutation, text))
    except BaseException:
        pipe.send(f"crash: {traceback.format_exc()[-200:]}")
    os._exit(0)


class Worker:
    """One mutant in its own process."""

    def __init__(self, material: Material, mutation: Mutation, text: str) -> None:
        self.mutation, self.text = mutation, text
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(other, material, mutation, text), daemon=True)
        self.process.start()
        other.close()
        self._until = time.monotonic() + WALL_S + (SPARK_S if mutation.module in IN_SPARK else 0)

    def answer(self) -> str | None:
        """What killed the mutant; empty if nothing did; None while it is running."""
        if self.pipe.poll(0.05):
            try:
                killer: str = self.pipe.recv()
            except EOFError:
                killer = "time"
        elif time.monotonic() > self._until:
            killer = "time"
        else:
            return None
        self.process.kill()
        self.process.join()
        return killer


def chosen(sample: int, seed: int, only: str) -> list[tuple[Mutation, str]]:
    """The sample, and the text of each mutant's module."""
    every = []
    for name, file in sources().items():
        text = file.read_text()
        if only in name:
            every += [(mutation, text) for mutation in mutations(name, text)]
    print(f"{len(every)} mutants of {len(sources())} modules; a sample of {min(sample, len(every))}")
    return sorted(every, key=lambda each: each[0].rank(seed))[:sample]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the sample and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only modules whose name contains this")
    parser.add_argument("--keys", type=Path, help="a file: only mutants that it names")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    waiting = chosen(given.sample, given.seed, given.only)[::-1]
    if given.keys is not None:
        named = given.keys.read_text()
        waiting = [each for each in waiting if f"`{each[0].key}`" in named]
    material = prepare()
    for none in ("checker.none", "checker.pipeline.none"):
        untouched = Worker(material, Mutation(none, "", 0, 0, 0, "", "", 0), "")
        while (killer := untouched.answer()) is None:
            pass
        if killer:
            print(f"the checker as it is does not pass: {killer}")
            return 1
    busy: list[Worker] = []
    killed, survivors, listed = 0, [], SURVIVORS.read_text() if SURVIVORS.exists() else ""
    total = len(waiting)
    while waiting or busy:
        while waiting and len(busy) < given.jobs:
            busy.append(Worker(material, *waiting.pop()))
        for worker in list(busy):
            answer = worker.answer()
            if answer is None:
                continue
            busy.remove(worker)
            killed += bool(answer)
            _show(worker, answer)
            if not answer:
                survivors.append(worker.mutation)
    print(f"{killed} of {total} killed ({killed / total:.1%})")
    unlisted = [mutation for mutation in survivors if f"`{mutation.key}`" not in listed]
    for mutation in unlisted:
        print(f"not in {SURVIVORS.name}: `{mutation.key}`")
    return 0 if killed >= ENOUGH * total and not unlisted else 1


def _show(worker: Worker, answer: str) -> None:
    mutation = worker.mutation
    print(f"{'killed by ' + answer if answer else 'SURVIVED'}: {mutation.module}:{mutation.line}")
    for line in mutation.diff(worker.text):
        print(f"    {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
