"""The type of a fault verb: its summary, its targets, and the function that makes a fault from a target."""

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
    fault      function (target, timing) that returns a fault; the target is a name in NODE_TARGETS, CLIENT_TARGETS or
               `named`, or the name of a node
    nodes      whether the verb can hit servers
    clients    whether the verb can hit client processes
    named      targets that only this verb has: name -> description
    nodes_min  minimum number of nodes in the cluster
    short      short names of some of the verb's faults: short name -> target
    written    function of (target, nodes) that raises BadInput if a target of the form NAME=VALUE;... is not valid;
               None if the verb has no targets of this form
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
        """The names of the verb's targets, without the names of single nodes."""
        nodes = NODE_TARGETS if self.nodes else ()
        return (*nodes, *(CLIENT_TARGETS if self.clients else ()), *self.named)

    def takes(self, target: str) -> bool:
        """Returns whether the verb has a target of this name.

        If the verb can hit servers, the result is true for any name except client targets, because the name may be that
        of a node.
        """
        if self.written is not None and "=" in target:
            return True
        return target in self.targets or (self.nodes and target not in CLIENT_TARGETS)
