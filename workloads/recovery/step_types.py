"""The types that recovery scenarios are made of: plain data.

The `expect` of an act says what its outcome must be; checker.checks.recovery checks it:

    recovers   start: which segments of the run's logs the server recovers: "none"; "point", those at or after the
               recovery point that was on disk; "all"; "any", no expectation
    ends       the server refuses to start and exits
    says       names of messages that its log must have (nemesis.recovery.log_lines); "a|b": one of them
    never      names of messages that its log must not have
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Recovers = Literal["none", "point", "all", "any"]


@dataclass(frozen=True, slots=True)
class Send:
    """`records` sends by all clients. `during` is executed `after_s` after the first of them, while they continue."""

    records: int
    during: Act | None = None
    after_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Read:
    """One client reads all logs from their beginning, with this many polls."""

    polls: int = 40


@dataclass(frozen=True, slots=True)
class Act:
    """Something done to servers. `nemesis.recovery.run_steps` defines `do`, `who` and `kind`."""

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

    shows      what it demonstrates, in one sentence
    lost       whether acknowledged records may be lost, because the durability rule does not protect them
    reported   whether no replica can repair the damage: clients must get a checksum error, never a bad record
    settings   fields of the plan, on top of those that all scenarios share
    needs      "disks" (a disk of its own for each node), "network" (packets can be dropped)
    damaged    on how many nodes at once data is destroyed
    unsynced   on how many nodes at once unflushed data is lost
    nodes_min  minimum number of nodes
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

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The verdicts that the run may have if the system behaves as expected."""
        if self.lost:
            return ("valid", "invalid", "unknown") if self.reported else ("valid", "invalid")
        return ("valid",)
