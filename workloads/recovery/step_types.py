"""The types that recovery scenarios are made of: plain data.

The `expect` of an act says what its outcome must be (checked in checker.checks.recovery). It has some of these fields:

    recovers   for a start: which segments of the run's logs the server recovers. "none", "all", "point" (those at or
               after the recovery point that was on disk), or "any" (no expectation)
    ends       the server refuses to start and exits
    says       names of messages (nemesis.recovery.log_lines) that the server's log must have; "a|b": a or b
    never      names of messages that the server's log must not have
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Recovers = Literal["none", "point", "all", "any"]


@dataclass(frozen=True, slots=True)
class Send:
    """All clients together send `records` records.

    The act `during`, if given, starts `after_s` seconds after the first of these sends.
    """

    records: int
    during: Act | None = None
    after_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Read:
    """One client reads all logs from the beginning, with a fixed number of polls."""

    polls: int = 40


@dataclass(frozen=True, slots=True)
class Act:
    """Something that is done to servers. `nemesis.recovery.run_steps` describes `do`, `who` and `kind`."""

    do: str
    who: str = "leader"
    kind: str = ""
    expect: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> dict[str, Any]:
        kind = {"kind": self.kind} if self.kind else {}
        expect = {"expect": dict(self.expect)} if self.expect else {}
        return {"do": self.do, "who": self.who, **kind, **expect, **self.more}


Step = Send | Read | Act


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the table of scenarios.

    shows      what the scenario demonstrates, in one sentence
    lost       whether acknowledged records may be lost, because the durability rule does not protect them
    reported   whether a client must get a checksum error when it reads the damaged batch, instead of a bad record
    settings   fields of the plan, in addition to those that all scenarios share
    needs      what the cluster must have: "disks" (a separate disk for each node), "network" (packets can be dropped)
    damaged    the number of nodes whose data is destroyed at the same time
    unsynced   the number of nodes that lose unflushed data at the same time
    nodes_min  minimum number of nodes
    before     the first version of Kafka in which servers do not do what the scenario shows; "": there is none
    """

    name: str
    shows: str
    steps: tuple[Step, ...]
    lost: bool = False
    reported: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()
    damaged: int = 0
    unsynced: int = 0
    nodes_min: int = 1
    before: str = ""

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The verdicts that the run may have if the system behaves as expected."""
        if self.lost:
            return ("valid", "invalid", "unknown") if self.reported else ("valid", "invalid")
        return ("valid",)
