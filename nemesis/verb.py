"""The type of a fault verb: its summary, its targets, and the function that makes a fault of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.model.fault_and_generator_protocols import Fault
from nemesis.schedule.timing import Timing
from nemesis.targets import CLIENT_TARGETS, NODE_TARGETS


@dataclass(frozen=True, slots=True)
class Verb:
    """One row of the table of faults.

    summary    what the fault does and how it is undone, starting with an infinitive
    fault      (target, timing) -> fault; the target is a name in NODE_TARGETS, CLIENT_TARGETS or `named`, or a node
    nodes      whether servers can be its target
    clients    whether client processes can be its target
    named      targets that only this verb has: name -> description
    nodes_min  minimum number of nodes in the cluster
    short      short names of some of its faults: short name -> target
    written    (target, nodes): raises BadInput for an invalid target of the form NAME=VALUE;...; None: not supported
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
        """The names of its targets, without those of single nodes."""
        nodes = NODE_TARGETS if self.nodes else ()
        return (*nodes, *(CLIENT_TARGETS if self.clients else ()), *self.named)

    def takes(self, target: str) -> bool:
        """Returns whether it has a target of this name. Any name that is not a client target may be a node's."""
        if self.written is not None and "=" in target:
            return True
        return target in self.targets or (self.nodes and target not in CLIENT_TARGETS)
