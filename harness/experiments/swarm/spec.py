"""Reads a swarm: a YAML file with the features from which the plans of the rounds are drawn.

plan: {time_limit_s: 20, acks: all}              fields of every plan
axes:                                            at most one entry of each axis is in a round's plan
  client: [{client: [java]}, {client: [aiokafka]}]
  keys: [{key_count: 3}, {key_count: 100}]
faults: [kill:leader, isolate:leader]            as in --nemesis
faults_max: 3                                    maximum number of different faults in a round

A feature is an entry of an axis, or a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness import yaml_data
from harness.experiments.spec import over
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived, make_plan
from harness.run import make_cluster
from harness.yaml_data import Loaded, Place
from nemesis import table as nemeses

WHAT: Final = "a swarm"


class Written(BaseModel):
    """The content of a swarm file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    plan: dict[str, Any] = {}
    axes: dict[str, tuple[dict[str, Any], ...]] = {}
    faults: tuple[str, ...] = ()
    faults_max: int = Field(3, ge=0, le=20)


@dataclass(frozen=True, slots=True)
class Swarm:
    """The features of a swarm.

    plan        fields of every plan
    axes        axis -> entries; an entry changes fields of the plan
    faults      names of faults, as in --nemesis
    faults_max  maximum number of different faults in a round
    """

    plan: Mapping[str, Any]
    axes: Mapping[str, Sequence[Mapping[str, Any]]]
    faults: Sequence[str] = ()
    faults_max: int = 3


def load(path: Path) -> Swarm:
    """Reads a swarm file. Raises BadInput with file, line and column if it is wrong.

    Each feature must be possible in a plan without other features.
    """
    loaded = yaml_data.load(path, WHAT)
    try:
        written = Written.model_validate(loaded.data or {})
    except ValidationError as error:
        raise BadInput("\n".join(yaml_data.line(mistake, loaded.where, _keys) for mistake in error.errors())) from None
    for axis, entries in written.axes.items():
        for n, entry in enumerate(entries):
            _possible(loaded, ("axes", axis, n), over(written.plan, entry))
    for n, fault in enumerate(written.faults):
        _possible(loaded, ("faults", n), over(written.plan, {"nemesis": [fault]}))
    _possible(loaded, ("plan",), written.plan)
    if not written.axes and not written.faults:
        raise BadInput(f"{path}: nothing to draw from; set axes or faults")
    return Swarm(written.plan, written.axes, written.faults, written.faults_max)


def _possible(loaded: Loaded, at: Place, plan: Mapping[str, Any]) -> None:
    """Raises BadInput if a plan is invalid. `at`: the part of the file that changes the plan."""

    def where(inner: Place, value: bool) -> str:
        known = next((place for place in (at, ("plan",)) if (*place, *inner[:1]) in loaded.values), at)
        return loaded.where((*known, *inner), value)

    try:
        make_cluster.resolved(make_plan.make({**plan, "seed": 0}, where))
    except BadInput as error:
        text = str(error)
        raise BadInput(text if text.startswith(f"{loaded.path}:") else f"{loaded.where(at)}: {text}") from None


def is_plan(fields: Mapping[str, Any]) -> bool:
    """Returns whether the fields are those of a valid plan."""
    try:
        plan = make_plan.make(fields)
        nemeses.refuse_pointless(make_cluster.resolved(plan).faults, derived.uses(plan))
    except BadInput:
        return False
    return True


def _keys(place: Place) -> Sequence[str]:
    return list(Written.model_fields)
