"""Experiments as YAML files: the built-in ones in workloads/experiments/, and the user's own in any folder.

    title: one line
    why: what the experiment shows, and how
    source: the publication or bug report that describes the effect
    plan: {acks: "1", nemesis: [isolate:leader], ...}        fields of a plan
    expect: {shows: {lost-write: 1}, never: [duplicate]}     see harness.experiments.expectations
    runs: 5                              number of runs, unless the user chooses another
    cases:                               each has a name; its title, plan and expect override those above
      - {name: test-1, plan: {...}, expect: {...}, claimed: {...}}
      - {name: test-1-quick, like: test-1, plan: {...}}      overrides the plan of an earlier case
    variants:                            repeat all cases, or the listed ones, with other settings
      zookeeper: {plan: {kafka_version: 3.9.1}, runs: 3, cases: [test-1]}

The name of the file is the name of the experiment. Nested settings (such as broker_config) are merged: keys that are
not overridden keep their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from harness import yaml_data
from harness.experiments.expectations import ANY, Expectation, holds
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import make_plan
from harness.plan.test_plan import OF_CLUSTER, TestPlan
from harness.run import attached_cluster, make_cluster
from harness.yaml_data import Loaded, Place

OURS: Final = Path(__file__).resolve().parents[2] / "workloads" / "experiments"
WHAT: Final = "an experiment"


class _Written(BaseModel):
    """Base class of the pydantic models for an experiment file and its parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Expect(_Written):
    """The value of `expect` in an experiment file; see harness.experiments.expectations."""

    shows: dict[str, float] = {}
    any_of: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    figures: dict[str, str] = {}
    refused: str = ""

    @field_validator("shows")
    @classmethod
    def _share(cls, shows: dict[str, float]) -> dict[str, float]:
        for name, rate in shows.items():
            if not 0 < rate <= 1:
                raise ValueError(f"{name}: {rate:g} is not a share of the runs; must be a number above 0 and up to 1")
        return shows

    @field_validator("figures")
    @classmethod
    def _comparison(cls, figures: dict[str, str]) -> dict[str, str]:
        for text in figures.values():
            try:
                holds(0, text)
            except BadInput as error:
                raise ValueError(str(error)) from None
        return figures

    @model_validator(mode="after")
    def _possible(self) -> Expect:
        shown = {*self.shows, *self.any_of}
        both = set(self.never) & shown or {ANY} & set(self.never if shown else ())
        if both:
            raise ValueError(f"both expected and forbidden: {', '.join(sorted(both))}; remove each from one of the two")
        if len(self.any_of) == 1:
            raise ValueError(f"any_of contains only {self.any_of[0]}; list several anomalies, or use shows")
        if not (shown or self.never or self.figures or self.refused):
            raise ValueError("nothing is expected; set shows, any_of, never, figures or refused")
        return self

    def expectation(self) -> Expectation:
        return Expectation(self.shows, self.never, self.figures, self.refused, self.any_of)


class WrittenCase(_Written):
    """An entry of `cases` in an experiment file."""

    name: str
    title: str = ""
    like: str = ""
    plan: dict[str, Any] = {}
    expect: Expect | None = None
    claimed: dict[str, Any] = {}
    runs: int | None = Field(None, ge=1)


class Variant(_Written):
    """An entry of `variants` in an experiment file."""

    plan: dict[str, Any] = {}
    runs: int | None = Field(None, ge=1)
    cases: tuple[str, ...] = ()


class Written(_Written):
    """The content of an experiment file, as written."""

    title: str
    why: str
    source: str
    kind: Literal["study", "bug", "guarantee"] = "bug"
    plan: dict[str, Any] = {}
    expect: Expect | None = None
    runs: int = Field(5, ge=1)
    cases: tuple[WrittenCase, ...] = ()
    variants: dict[str, Variant] = {}


@dataclass(frozen=True, slots=True)
class Case:
    """A plan with its expectations.

    claimed  effect -> whether the effect occurs according to the publication that the experiment reproduces; shown in
             the report
    """

    name: str
    title: str
    plan: Mapping[str, Any]
    expect: Expectation
    runs: int
    variant: str = ""
    claimed: Mapping[str, Any] = field(default_factory=dict)

    def test_plan(self, seed: int) -> TestPlan:
        """Returns the complete plan of the run with this seed. Raises BadInput if it is invalid."""
        return make_plan.make({**self.plan, "seed": seed})

    def on(self, cluster: str) -> Case:
        """Returns the case, changed so that it runs on a cluster that is already up.

        Returns it unchanged if it needs a cluster of its own: if its plan sets options of the cluster, or if the given
        cluster lacks something that it needs. Raises BadInput if the given cluster is not up.

        cluster  local:NAME
        """
        kind, _, name = cluster.partition(":")
        if kind != "local" or not name:
            raise BadInput(
                f"--cluster {cluster}: must be local:NAME, where `harness cluster up NAME` started the cluster"
            )
        started, wanted = attached_cluster.plan_of(name), self.test_plan(0)
        sets_cluster = "cluster" in self.plan or any(field in self.plan for field in OF_CLUSTER)
        if sets_cluster or wanted.broker_config:
            return self
        if make_cluster.lacking(make_cluster.resolved(wanted), make_cluster.resolved(started)):
            return self
        return replace(self, plan={**self.plan, "cluster": cluster, "kafka_version": started.kafka_version})


@dataclass(frozen=True, slots=True)
class Experiment:
    """The content of an experiment file. A file without `cases` is an experiment with a single case."""

    name: str
    title: str
    why: str
    source: str
    kind: str
    cases: tuple[Case, ...]
    path: Path


def load(path: Path) -> Experiment:
    """Reads an experiment file, and checks the plan of every case. Raises BadInput with file, line and column."""
    loaded = yaml_data.load(path, WHAT)
    try:
        written = Written.model_validate(loaded.data)
    except ValidationError as error:
        mistakes = [yaml_data.line(mistake, loaded.where, _keys) for mistake in error.errors()]
        raise BadInput("\n".join(mistakes)) from None
    cases = _cases(loaded, written, path.stem)
    for name, variant in written.variants.items():
        cases += _varied(loaded, name, variant, [case for case in cases if not case.variant])
    return Experiment(
        path.stem,
        written.title,
        written.why.strip(),
        written.source.strip(),
        written.kind,
        tuple(cases),
        path,
    )


def every(more: Path | None = None) -> dict[str, Path]:
    """Returns name -> file of all experiments: the built-in ones, and those in the folder `more`.

    If a name occurs in both, the file in `more` is used.
    """
    found = {path.stem: path for path in sorted(OURS.glob("*.yaml"))}
    if more is not None:
        found |= {path.stem: path for path in sorted(more.glob("*.yaml"))}
    return found


def named(name: str, more: Path | None = None) -> Experiment:
    """Returns the experiment with this name. A name that ends in .yaml or .yml is the path of an experiment file.

    Raises BadInput if there is none, and suggests the most similar name.
    """
    if name.endswith((".yaml", ".yml")):
        return load(Path(name))
    known = every(more)
    if name not in known:
        hint = yaml_data.did_you_mean(name, list(known))
        raise BadInput(f"no experiment {name!r}; {hint}see `harness experiment list`")
    return load(known[name])


def _keys(place: Place) -> Sequence[str]:
    """Returns the keys that are allowed in the mapping at a place of the file."""
    words = [part for part in place if isinstance(part, str)]
    model: type[BaseModel] = Written
    if words[:1] == ["cases"]:
        model = Expect if words[1:] == ["expect"] else WrittenCase
    elif words[:1] == ["variants"]:
        model = Variant
    elif words == ["expect"]:
        model = Expect
    return list(model.model_fields)


def over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a plan with changes applied. Nested settings are merged."""
    merged = {**base, **changes}
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            merged[key] = {**base[key], **value}
    return merged


def _cases(loaded: Loaded, written: Written, name: str) -> list[Case]:
    """Returns the cases of a file; a file without `cases` is a single case."""
    expect = written.expect.expectation() if written.expect else Expectation()
    base = Case(name, written.title, written.plan, expect, written.runs)
    found: dict[str, Case] = {}
    for n, case in enumerate(written.cases):
        at = loaded.where(("cases", n))
        if case.name in found:
            raise BadInput(f"{at}: there is already a case {case.name}; choose another name")
        if case.like and case.like not in found:
            raise BadInput(f"{at}: case {case.name} has `like: {case.like}`, but no earlier case has this name")
        above = found[case.like] if case.like else base
        found[case.name] = Case(
            case.name,
            case.title or above.title,
            over(above.plan, case.plan),
            case.expect.expectation() if case.expect else above.expect,
            case.runs or above.runs,
            "",
            case.claimed,
        )
        _possible(loaded, ("cases", n), found[case.name])
    if not found:
        _possible(loaded, (), base)
    return list(found.values()) or [base]


def _varied(loaded: Loaded, name: str, variant: Variant, cases: Sequence[Case]) -> list[Case]:
    place = ("variants", name)
    unknown = set(variant.cases) - {case.name for case in cases}
    if unknown:
        raise BadInput(f"{loaded.where(place)}: no case {', '.join(sorted(unknown))} in this file")
    found = []
    for case in cases:
        if not variant.cases or case.name in variant.cases:
            changed = replace(case, variant=name, runs=variant.runs or case.runs, plan=over(case.plan, variant.plan))
            _possible(loaded, place, changed)
            found.append(changed)
    return found


def _possible(loaded: Loaded, place: Place, case: Case) -> None:
    """Raises BadInput if the plan of a case is invalid, or if the case has no expectations."""
    if not case.expect.texts:
        raise BadInput(f"{loaded.where(place)}: {case.name} has no expectations; add `expect`")

    def where(inner: Place, value: bool) -> str:
        known = (*place, "plan", *inner) in loaded.values
        return loaded.where((*place, "plan", *inner) if known else (*place, "plan"), value)

    try:
        make_plan.make({**case.plan, "seed": 0}, where)
    except BadInput as error:
        text = str(error)
        raise BadInput(text if text.startswith(str(loaded.path)) else f"{where((), False)}: {text}") from None
