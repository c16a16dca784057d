"""What a verb is: a sentence, its targets, and how it becomes a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.model.fault_and_generator_protocols import Fault
from nemesis.schedule.timing import Timing
from nemesis.targets import CLIENT_TARGETS, NODE_TARGETS


@dataclass(frozen=True, slots=True)
class Verb:
    """One row of the table of faults.

    summary  what it does, as an infinitive
    fault    (target, timing) -> the fault; the target is a name in NODE_TARGETS or CLIENT_TARGETS, or a node
    nodes, clients  whether it has targets among the servers, among the client processes
    named    targets of its own, with what they are
    nodes_min  how many nodes the cluster must have
    short    short names of some of its faults: name -> target
    written  (target, nodes): raises BadInput for one that is written out wrongly, as NAME=VALUE;...
    """

    summary: str
    fault: Callable[[str, Timing], Fault]
    nodes: bool = True
    clients: bool = False
    nodes_min: int = 1
    named: Mapping[str, str] = field(default_factory=dict)
    short: Mapping[str, str] = field(default_factory=dict)
    written: Callable[[str, Sequence[str]], None] | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of its targets, single nodes apart."""
        nodes = NODE_TARGETS if self.nodes else ()
        return (*nodes, *(CLIENT_TARGETS if self.clients else ()), *self.named)

    def takes(self, target: str) -> bool:
        """Whether it has a target of this name: one of its own, or a server's."""
        if self.written is not None and "=" in target:
            return True
        return target in self.targets or (self.nodes and target not in CLIENT_TARGETS)
