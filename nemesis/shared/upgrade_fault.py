"""Makes the faults of the verbs of an upgrade."""

from __future__ import annotations

from harness.generator import NOTHING
from harness.model.capabilities import Brokers
from harness.model.fault_and_generator_protocols import Fault, Nemesis
from nemesis.schedule.timing import Timing, fault_op, repeated
from nemesis.shared.upgrade_steps import NEEDS


def step_fault(verb: str, target: str, timing: Timing, nemesis: Nemesis) -> Fault:
    """Returns a fault each of whose ops is one step of the verb. Nothing is undone at the end of the run."""
    name = f"{verb}:{target}"
    rounds = repeated(fault_op(verb, name, target, ""), timing)
    return Fault(name, nemesis, rounds, NOTHING, (*NEEDS, Brokers), takes_turns=True)
