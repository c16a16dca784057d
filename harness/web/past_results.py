"""Reads the results of earlier experiments and matrices, and sorts them by time.

They are in experiments/*/results.json and matrix/*/results.json in the folder of runs. Damaged files are reported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from harness.experiments.expectations import wilson
from harness.web import paths
from harness.web.cache import Cache, stamp

FILE: Final = "results.json"
SCHEMA: Final = 1
BYTES_MAX: Final = 64 << 20
FOLDERS_MAX: Final = 2_000  # only the newest are read
SLUG: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,80}", re.ASCII)
WRONG: Final = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError)


@dataclass(frozen=True, slots=True)
class Share:
    """How many runs met an expectation: k of the n runs whose verdict is known.

    text    the expectation
    agrees  whether k of n agrees with the expectation
    """

    text: str
    k: int
    n: int
    agrees: bool

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% Wilson confidence interval of k / n."""
        return wilson(self.k, self.n)


@dataclass(frozen=True, slots=True)
class Case:
    """The results of one case of an experiment, or of one cell of a matrix.

    shares  for each expectation, how many runs met it
    runs    (name of the run folder, verdict) of each run
    """

    name: str
    title: str
    versions: str
    shares: tuple[Share, ...]
    runs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The results of one execution of an experiment or a matrix.

    folder   name of the folder with the results
    problem  why the results cannot be read (`cases` is then empty); "" if they can be read
    """

    folder: str
    name: str
    title: str = ""
    began: str = ""
    cases: tuple[Case, ...] = ()
    problem: str = ""

    @property
    def agrees(self) -> bool:
        """Whether all results were as expected."""
        return all(share.agrees for case in self.cases for share in case.shares)


@dataclass(frozen=True, slots=True)
class Line:
    """How often one expectation was met, over time.

    points  (start time, result folder, share) of each execution, the oldest first
    """

    case: str
    text: str
    points: tuple[tuple[str, str, Share], ...]


@dataclass(frozen=True, slots=True)
class Past:
    """The results of all earlier executions.

    by_name   experiment -> its results, the newest first
    matrices  the results of matrices, the newest first
    broken    experiments and matrices whose results cannot be read
    """

    by_name: Mapping[str, Sequence[Done]] = field(default_factory=dict)
    matrices: Sequence[Done] = ()
    broken: Sequence[Done] = ()


def slug(name: str) -> str:
    """Returns a file name for an experiment: its own name if possible, otherwise a digest of it."""
    if SLUG.fullmatch(name):
        return name
    return f"-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


def lines(done: Sequence[Done]) -> list[Line]:
    """Returns a line for each case and expectation of an experiment, from the results of several executions."""
    found: dict[tuple[str, str], list[tuple[str, str, Share]]] = {}
    for result in sorted(done, key=lambda result: result.began):
        for case in result.cases:
            for share in case.shares:
                found.setdefault((case.name, share.text), []).append((result.began, result.folder, share))
    return [Line(case, text, tuple(points)) for (case, text), points in found.items()]


class Results:
    """Reads the results in experiments/ and matrix/ in the folder of runs. Files that have not changed are not read
    again."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._experiments = Cache(lambda folder: _read_done(folder, _experiment))
        self._matrices = Cache(lambda folder: _read_done(folder, _matrix))

    def read(self) -> Past:
        """Returns the results of all earlier executions."""
        experiments = self._all("experiments", self._experiments)
        matrices = self._all("matrix", self._matrices)
        by_name: dict[str, list[Done]] = {}
        for result in experiments:
            if not result.problem:
                by_name.setdefault(result.name, []).append(result)
        return Past(
            dict(sorted(by_name.items())),
            [result for result in matrices if not result.problem],
            [result for result in (*experiments, *matrices) if result.problem],
        )

    def _all(self, kind: str, cache: Cache[Done]) -> list[Done]:
        base = paths.folder_of(self._runs, kind)
        if base is None:
            return []
        names = sorted((path.parent.name for path in base.glob(f"*/{FILE}")), reverse=True)
        folders = [base / name for name in names if paths.inside(base, (name, FILE))][:FOLDERS_MAX]
        cache.keep(folders)
        results = [cache.get(folder, stamp(folder / FILE)) for folder in folders]
        return sorted(results, key=lambda result: (result.began, result.folder), reverse=True)


def _read_done(folder: Path, make: Any) -> Done:
    path = folder / FILE
    try:
        if path.stat().st_size > BYTES_MAX:
            raise ValueError("too large")
        made: Done = make(folder, orjson.loads(path.read_bytes()))
        return made
    except WRONG as error:
        why = f"{path}: not in the format that this version writes ({type(error).__name__}: {error})"
        return Done(folder.name, folder.name, problem=why[:500])


def _experiment(folder: Path, data: Any) -> Done:
    if data["schema"] > SCHEMA:
        raise ValueError(f"written by a newer version (schema {data['schema']})")
    cases = tuple(_case(str(data["experiment"]), case) for case in data["cases"])
    return Done(folder.name, str(data["experiment"]), str(data["title"]), str(data["began"]), cases)


def _case(experiment: str, tried: Mapping[str, Any]) -> Case:
    case = tried["case"]
    own = "" if case["name"] == experiment else str(case["name"])
    return Case(
        " ".join(part for part in (own, str(case["variant"])) if part) or experiment,
        str(case["title"]),
        str(tried["versions"]),
        tuple(_share(str(text), k, n, agrees) for text, k, n, agrees in tried["seen"]),
        tuple(_run(each) for each in tried["attempts"]),
    )


def _run(attempt: Mapping[str, Any]) -> tuple[str, str]:
    return Path(str(attempt.get("folder") or "")).name, str(attempt["valid"])


def _share(text: str, k: Any, n: Any, agrees: Any) -> Share:
    if type(k) is not int or type(n) is not int or not 0 <= k <= n:
        raise ValueError(f"{k} of {n}")
    return Share(text, k, n, bool(agrees))


def _matrix(folder: Path, rows: Any) -> Done:
    """Converts the rows of a matrix's results. All rows of a cell become one case.

    Exit code 0 means that the run was as expected. Runs with exit code 2 (the verdict is not known) do not count.
    """
    cells: dict[str, list[Mapping[str, Any]]] = {}
    for cell in rows:
        cells.setdefault(str(cell["name"]), []).append(cell)
    cases = []
    for name, named in cells.items():
        codes = [row["exit_code"] for row in named if row["exit_code"] != 2]
        share = Share("as expected", codes.count(0), len(codes), codes.count(0) == len(codes))
        runs = tuple(_run(row["attempt"]) for row in named if row.get("attempt"))
        cases.append(Case(name, "", "", (share,), runs))
    return Done(folder.name, "matrix", "", folder.name, tuple(cases))
