"""Schedules as users write them: a YAML list of entries, in a plan or in a file of its own.

- fault: kill:leader        as in --nemesis
  every: 20s                a period; or `at: 10s`, once
  jitter: 5s                random delay of up to this length, drawn from the seed
  for: 6s                   how long the fault is active
  until: 60s                no round starts after this time
  times: 3                  maximum number of rounds
- fault: isolate:leader
  when: {log: "Rolled new log segment", node: n1}
  for: 5s
  rest: 10s                 minimum time before the trigger fires again
- fault: {wire: {action: hold, api: EndTxn, for_s: 3}}      a custom wire rule, see harness.model.wire_rules
  at: 5s
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from harness.model.errors_and_exit_codes import BadInput
from harness.model.wire_rules import rule_text
from harness.yaml_data import Loaded, Place, load, seconds
from nemesis.schedule.entry import LEADER_CHANGE, LOG, SEGMENT_ROLL, TXN_OPEN, Entry, Trigger

ENTRIES_MAX: Final = 1000


Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0, le=7 * 86400)]
Length = Annotated[float, BeforeValidator(seconds), Field(ge=0.1, le=7 * 86400)]


class When(BaseModel):
    """The trigger of a fault.

    Exactly one of `log`, `leader_change`, `segment_roll` and `txn_open` is set. `node` restricts `log` to one node.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    log: str | None = Field(None, max_length=1000)
    node: str | None = None
    leader_change: bool | None = Field(None, alias=LEADER_CHANGE)
    segment_roll: bool | None = Field(None, alias=SEGMENT_ROLL)
    txn_open: Length | None = Field(None, alias=TXN_OPEN)

    @model_validator(mode="after")
    def _one(self) -> When:
        chosen = [
            bool(self.log),
            bool(self.leader_change),
            bool(self.segment_roll),
            self.txn_open is not None,
        ]
        if sum(chosen) != 1:
            raise ValueError(f"give exactly one of {LOG}, {LEADER_CHANGE}, {SEGMENT_ROLL}, {TXN_OPEN}")
        if self.node is not None and not self.log:
            raise ValueError(f"`node` requires `{LOG}`")
        try:
            re.compile(self.log or "")
        except re.error as error:
            raise ValueError(f"{self.log!r} is not a regular expression: {error}") from None
        return self

    def trigger(self) -> Trigger:
        if self.log:
            return Trigger(LOG, self.log, self.node or "")
        if self.txn_open is not None:
            return Trigger(TXN_OPEN, open_s=self.txn_open)
        return Trigger(LEADER_CHANGE if self.leader_change else SEGMENT_ROLL)


def _named(value: Any) -> Any:
    """Expands the short form `when: leader-change` to `when: {leader-change: true}`."""
    return {value: True} if value in (LEADER_CHANGE, SEGMENT_ROLL) else value


def _fault(value: Any) -> Any:
    """Returns the name of a fault. A custom wire rule, `{wire: {action: hold, ...}}`, is converted to a name.

    Raises ValueError.
    """
    if not isinstance(value, Mapping):
        return value
    if set(value) != {"wire"} or not isinstance(value["wire"], Mapping):
        raise ValueError("write VERB:TARGET, or {wire: {action: ...}}")
    try:
        return f"wire:{rule_text(value['wire'])}"
    except BadInput as error:
        raise ValueError(str(error)) from None


class Line(BaseModel):
    """An entry of a schedule, as the user writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    fault: Annotated[str, BeforeValidator(_fault)]
    at: Seconds | None = None
    every: Length | None = None
    jitter: Seconds = 0.0
    for_: Length | None = Field(None, alias="for")
    until: Seconds | None = None
    times: int | None = Field(None, ge=1)
    when: Annotated[When | None, BeforeValidator(_named)] = None
    rest: Seconds = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> Line:
        if self.at is None and self.every is None and self.when is None:
            raise ValueError("say when the fault starts: `at`, `every` or `when`")
        if self.when is not None and self.every is not None:
            raise ValueError("`every` cannot be combined with `when`; to limit a trigger use `times` and `rest`")
        if self.when is not None and self.jitter:
            raise ValueError("`jitter` cannot be combined with `when`")
        if self.when is None and self.rest:
            raise ValueError("`rest` requires `when`")
        if self.when is None and self.every is None and (self.times or 1) > 1:
            raise ValueError("`times` above 1 needs `every`")
        return self

    def entry(self, fault: str) -> Entry:
        """Returns this line as an `Entry`, with defaults: `every` starts after one period, and a trigger fires once.

        fault  canonical name of the fault
        """
        at_s = self.at if self.at is not None else self.every if self.every is not None else 0.0
        times = self.times if self.times is not None or self.every is not None else 1
        when = self.when.trigger() if self.when is not None else None
        return Entry(fault, at_s, self.every, self.jitter, self.for_, self.until, times, when, self.rest)


def keys(place: Place) -> Sequence[str]:
    """Returns the keys that are allowed in a mapping of a schedule.

    place  the keys that lead to the mapping, from the outermost on
    """
    model = When if place and place[-1] == "when" else Line
    return [field.alias or name for name, field in model.model_fields.items()]


def read(path: Path) -> Loaded:
    """Returns the content of a schedule file, which is a list, without validating its entries. Raises BadInput."""
    loaded = load(path, "a schedule")
    if not isinstance(loaded.data, list) or not loaded.data:
        raise BadInput(f"{loaded.where((), True)}: a schedule is a list of entries, each with a fault")
    return loaded


def entries(lines: Sequence[Line]) -> tuple[Entry, ...]:
    """Returns the entries of a validated schedule."""
    return tuple(line.entry(line.fault) for line in lines)


def dumped(lines: Sequence[Line]) -> list[Mapping[str, Any]]:
    """Returns the entries as plain data, without the keys whose value is the default."""
    return [line.model_dump(by_alias=True, mode="json", exclude_defaults=True) for line in lines]
