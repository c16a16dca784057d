"""Reads a matrix: a YAML file with plans to combine, and experiments.

plan: {time_limit_s: 20}             fields of every plan
axes:                                every combination of one entry from each axis is run
  workload: [{}, {txn: true}]        each entry changes fields of the plan
  fault: [{nemesis: [kill:leader]}, {nemesis: [isolate:leader]}]
runs: 1                              number of runs of each combination
experiments: [acks-1, no-fsync]      experiments to run in addition, as with `harness experiment run`
experiment_runs: 1                   maximum number of runs of each case of an experiment
experiment_versions: [3.9, 4.1]      versions of Kafka on which each case is run that does not name a version itself.
                                     The default version is always included, others only if the case is possible there

The name of a combination is made from the changes of its entries.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from harness import yaml_data
from harness.cluster.distribution.versions import DEFAULT, resolve
from harness.experiments.expectations import ANY, Expectation
from harness.experiments.spec import Case, named, over
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import make_plan
from harness.yaml_data import Loaded, Place, did_you_mean

WHAT: Final = "a matrix"


class Written(BaseModel):
    """The content of a matrix file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    plan: dict[str, Any] = {}
    axes: dict[str, tuple[dict[str, Any], ...]] = {}
    runs: int = Field(1, ge=1)
    experiments: tuple[str, ...] = ()
    experiment_runs: int = Field(1, ge=1)
    experiment_versions: tuple[str, ...] = ()

    @field_validator("experiment_versions", mode="before")
    @classmethod
    def _as_text(cls, versions: Any) -> Any:
        """Accepts 3.9, which YAML reads as a number."""
        return [str(version) for version in versions] if isinstance(versions, list) else versions


@dataclass(frozen=True, slots=True)
class Cell:
    """One planned run: a case and its seed."""

    case: Case
    seed: int
    experiment: str = ""

    @property
    def name(self) -> str:
        parts = [self.experiment or "matrix", self.case.name, self.case.variant]
        return "/".join(part for part in parts if part)


def load(path: Path, seed: int = 1, folder: Path | None = None) -> list[Cell]:
    """Reads a matrix file and returns all its runs in random order, determined by the seed.

    If the time budget ends early, the runs that were carried out are therefore a fair sample. Raises BadInput with
    file, line and column.
    """
    loaded = yaml_data.load(path, WHAT)
    try:
        written = Written.model_validate(loaded.data or {})
    except ValidationError as error:
        raise BadInput("\n".join(yaml_data.line(mistake, loaded.where, _keys) for mistake in error.errors())) from None
    cells = []
    expected = Expectation(never=(ANY,))
    for entries in itertools.product(*(enumerate(axis) for axis in written.axes.values())):
        plan = dict(written.plan)
        for _, changes in entries:
            plan = over(plan, changes)
        places: list[Place] = [("axes", axis, n) for axis, (n, _) in zip(written.axes, entries, strict=True)]
        case = Case(_name([changes for _, changes in entries]), "", plan, expected, written.runs)
        _possible(loaded, [*reversed(places), ("plan",)], case)
        cells += [Cell(case, seed + n) for n in range(written.runs)]
    for n, name in enumerate(written.experiments):
        try:
            experiment = named(name, folder)
        except BadInput as error:
            raise BadInput(f"{loaded.where(('experiments', n))}: {error}") from None
        for case in itertools.chain.from_iterable(
            on_versions(c, written.experiment_versions) for c in experiment.cases
        ):
            cells += [Cell(case, seed + n, experiment.name) for n in range(min(written.experiment_runs, case.runs))]
    if not cells:
        raise BadInput(f"{path}: nothing to run; set axes, plan or experiments")
    return sorted(cells, key=lambda cell: sha256(f"{seed} {cell.name} {cell.seed}".encode()).digest())


def on_versions(case: Case, versions: Sequence[str]) -> list[Case]:
    """Returns the case on the default version of Kafka, and on each of `versions` on which its plan is possible.

    Returns only the case itself if it names a version, or if its cluster does not run Kafka.
    """
    cases = [case]
    if "kafka_version" in case.plan or case.plan.get("cluster") in ("mock", "sim", "external"):
        return cases
    for version in versions:
        plan = {**case.plan, "kafka_version": version}
        variant = ", ".join(part for part in (case.variant, f"Kafka {version}") if part)
        if resolve(version) != DEFAULT and _is_valid(plan):
            cases.append(replace(case, plan=plan, variant=variant))
    return cases


def _is_valid(plan: Mapping[str, Any]) -> bool:
    try:
        make_plan.make({**plan, "seed": 0})
    except BadInput:
        return False
    return True


def _possible(loaded: Loaded, places: Sequence[Place], case: Case) -> None:
    """Raises BadInput if a combination gives an invalid plan.

    places  the parts of the file from which the plan was combined; a field's value is from the first one that has the
            field
    """

    def where(inner: Place, value: bool) -> str:
        written = next((place for place in places if (*place, *inner[:1]) in loaded.values), places[0])
        return loaded.where((*written, *inner), value)

    try:
        make_plan.make({**case.plan, "seed": 0}, where)
    except BadInput as error:
        text = str(error)
        at = f"{loaded.where(places[0])}: {case.name}: "
        raise BadInput(text if text.startswith(f"{loaded.path}:") else at + text) from None


def chosen(cells: Sequence[Cell], name: str) -> list[Cell]:
    """Returns the cells with a name, which may omit a leading `matrix/`.

    Raises BadInput if there is none, and suggests the most similar name.
    """
    names = list(dict.fromkeys(cell.name for cell in cells))
    found = [cell for cell in cells if name in (cell.name, cell.name.removeprefix("matrix/"))]
    if not found:
        hint = did_you_mean(name, [*names, *(one.removeprefix("matrix/") for one in names)])
        raise BadInput(f"--only {name}: the matrix has no such run; {hint}--list prints the names")
    return found


def shard(cells: Sequence[Cell], part: int, parts: int) -> list[Cell]:
    """Returns every `parts`-th cell, starting with the `part`-th (counted from 1)."""
    return list(cells[part - 1 :: parts])


def _keys(place: Place) -> Sequence[str]:
    return list(Written.model_fields)


def _name(changes: Sequence[Mapping[str, Any]]) -> str:
    """Returns a name for a combination, made from its changes to the plan, such as "txn, nemesis kill:leader".

    Returns "default" if there are no changes.
    """
    words = []
    for change in changes:
        for key, value in change.items():
            plain = key.removesuffix("_s").removesuffix("_hz")
            if value is True:
                words.append(plain)
            elif isinstance(value, dict):
                words += [f"{name}={setting}" for name, setting in value.items()]
            else:
                text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
                words.append(f"{plain} {text or 'none'}")
    return ", ".join(words) or "default"
