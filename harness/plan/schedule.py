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
from harness.model.wire_rules import HOLD_MAX_S, WATCH, rule_in, rule_text
from harness.yaml_data import Loaded, Place, load, seconds
from nemesis.schedule.entry import LEADER_CHANGE, LOG, SEGMENT_ROLL, TRUNCATION, TXN_OPEN, WIRE, Entry, Trigger

ENTRIES_MAX: Final = 1000
FRAME_FIELDS: Final = ("api", "direction", "node", "sender", "commit")  # fields of a wire rule that select frames


Seconds = Annotated[float, BeforeValidator(seconds), Field(ge=0, le=7 * 86400)]
Length = Annotated[float, BeforeValidator(seconds), Field(ge=0.1, le=7 * 86400)]


def _frames(value: Any) -> Any:
    """Returns the text of a wire rule, without its action. `value`: a mapping of its fields, or this text.

    Raises ValueError.
    """
    try:
        if isinstance(value, str):
            rule_in(f"action={WATCH};{value}")
            return value
        if not isinstance(value, Mapping) or not value or set(value) - set(FRAME_FIELDS):
            raise BadInput(f"say which frames fire the trigger, by {', '.join(FRAME_FIELDS)}")
        return rule_text({"action": WATCH, **value}).removeprefix(f"action={WATCH};")
    except BadInput as error:
        raise ValueError(str(error)) from None


class When(BaseModel):
    """The trigger of a fault.

    Exactly one of `log`, `leader_change`, `segment_roll`, `truncation`, `txn_open` and `wire` is set. `node` restricts
    `log` to one node. `wire` is a wire rule without its action, as text; `hold` is how long the frame is held at most.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    log: str | None = Field(None, max_length=1000)
    node: str | None = None
    leader_change: bool | None = Field(None, alias=LEADER_CHANGE)
    segment_roll: bool | None = Field(None, alias=SEGMENT_ROLL)
    truncation: bool | None = None
    txn_open: Length | None = Field(None, alias=TXN_OPEN)
    wire: Annotated[str | None, BeforeValidator(_frames)] = None
    hold: Annotated[float, BeforeValidator(seconds), Field(ge=0, le=HOLD_MAX_S)] = 0.0

    @model_validator(mode="after")
    def _one(self) -> When:
        chosen = [
            bool(self.log),
            bool(self.leader_change),
            bool(self.segment_roll),
            bool(self.truncation),
            self.txn_open is not None,
            bool(self.wire),
        ]
        if sum(chosen) != 1:
            kinds = (LOG, LEADER_CHANGE, SEGMENT_ROLL, TRUNCATION, TXN_OPEN, WIRE)
            raise ValueError(f"set exactly one of {', '.join(kinds)}")
        if self.hold and not self.wire:
            raise ValueError(f"`hold` requires `{WIRE}`")
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
        if self.wire:
            return Trigger(WIRE, self.wire, hold_s=self.hold)
        return Trigger(LEADER_CHANGE if self.leader_change else SEGMENT_ROLL if self.segment_roll else TRUNCATION)


# Named points of the protocol. The coordinator answers EndTxn once PREPARE_COMMIT is in its log (KIP-98).
POINTS: Final[Mapping[str, Mapping[str, Any]]] = {
    **{name: {name: True} for name in (LEADER_CHANGE, SEGMENT_ROLL, TRUNCATION)},
    "prepare-commit": {WIRE: {"api": "EndTxn", "commit": True, "direction": "response"}, "hold": 2.0},
    "between-fetches": {WIRE: {"api": "Fetch", "direction": "response"}, "hold": 2.0},
}


def _named(value: Any) -> Any:
    """Expands a short form, such as `when: leader-change`, to a mapping, such as `when: {leader-change: true}`."""
    return POINTS.get(value, value) if isinstance(value, str) else value


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
