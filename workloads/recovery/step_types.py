"""What a recovery scenario is made of: data, and nothing that acts.

An act's `expect` says what its outcome must be, for the check (checker.checks.recovery):

    recovers   of a start: which segments of the run's logs the server recovers. "none"; "point", those at or
               behind the recovery point that was on disk; "all"; "any", which is no expectation
    ends       the server refuses to start: it ends
    says       names of sentences that its log must have (nemesis.recovery.log_lines); "a|b": one of them
    never      those that it must not have
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Recovers = Literal["none", "point", "all", "any"]


@dataclass(frozen=True, slots=True)
class Send:
    """`records` sends by all clients; `beside` is done `after_s` after they began, and they go on."""

    records: int
    beside: Act | None = None
    after_s: float = 0.5


@dataclass(frozen=True, slots=True)
class Read:
    """One client reads all logs from their beginning, with so many polls."""

    polls: int = 40


@dataclass(frozen=True, slots=True)
class Act:
    """Something is done to servers: see `nemesis.recovery.run_steps` for `do`, `who` and `kind`."""

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
    """A row of the table.

    shows     what it is about, a sentence
    lost      whether acknowledged records may be lost: the durability rule does not protect them
    reported  damage that no replica repairs: a client must meet a checksum error, and no bad record
    settings  fields of the plan, over those that all scenarios share
    needs     "disks" (of the nodes' own), "network" (packets can be dropped)
    damaged, unsynced   on how many nodes at once data is destroyed, or what was not flushed is lost
    nodes_min how many nodes it takes
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
        """What the run may end as, if the system does what is expected of it."""
        if self.lost:
            return ("valid", "invalid", "unknown") if self.reported else ("valid", "invalid")
        return ("valid",)
