"""The default rhythm of faults (`--nemesis`): generators that start and stop them at regular intervals.

    first_s ... start ... hold_s ... stop ... rest_s ... start ...

Hold and rest times count from the completion of the previous op. A start completes once its effect has been
observed, so a fault stays on for `hold_s` after it took effect. For schedules, see `rounds`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.generator import After, ForNemesis, Once, Repeat, Then
from harness.model.fault_and_generator_protocols import Env, Fault, Generator, Rounds
from harness.model.op import INFO, NEMESIS, Op


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of the default rhythm.

    first_s     before the first fault
    interval_s  one period of a fault: half of it on, half of it off
    """

    first_s: float = 5.0
    interval_s: float = 10.0


def fault_op(f: str, fault: str, target: str, span: str) -> Op:
    """Returns a nemesis op. `extra` has the fault's name and whether the op starts or stops it (`span`)."""
    return Op(-1, -1, NEMESIS, INFO, f, {"target": target}, None, {"fault": fault, "span": span})


@dataclass(frozen=True, slots=True)
class StartStop:
    """Start, hold, stop, rest; the first start is after `first_s`. Satisfies Rounds."""

    start: Op
    stop: Op
    timing: Timing

    def __call__(self, n: int) -> Generator:
        half_ns = int(self.timing.interval_s / 2 * 1e9)
        before_ns = int(self.timing.first_s * 1e9) if n == 0 else half_ns
        return Then((After(before_ns, Once(self.start)), After(half_ns, Once(self.stop))))


@dataclass(frozen=True, slots=True)
class Repeated:
    """The rhythm of a fault without a stop op: one op every `interval_s`. Satisfies Rounds."""

    start: Op
    timing: Timing
    stop: None = None

    def __call__(self, n: int) -> Generator:
        wait_s = self.timing.first_s if n == 0 else self.timing.interval_s
        return After(int(wait_s * 1e9), Once(self.start))


def start_stop(start: Op, stop: Op, timing: Timing) -> Rounds:
    """Returns the rhythm of a fault with a start and a stop."""
    return StartStop(start, stop, timing)


def repeated(once: Op, timing: Timing) -> Rounds:
    """Returns the rhythm of a fault without a stop."""
    return Repeated(once, timing)


def in_turns(faults: Sequence[Fault]) -> Generator:
    """Returns the generator that repeats the rounds of the faults forever; several faults take turns."""
    rounds = [fault.rounds for fault in faults]
    names = frozenset(fault.name for fault in faults)
    return ForNemesis(Repeat(lambda n: rounds[n % len(rounds)](n)), names)


def finally_(stop: Op) -> Generator:
    """Returns the generator of a fault's healing op, which works in any state of the fault.

    It does not wait for a healthy cluster: that wait comes after all faults have been healed.
    """
    return ForNemesis(Once(patient(stop, healthy_s=0.0)))


def patient(op: Op, **at_most_s: float) -> Op:
    """Returns the op with a limit on its wait for the effect (`effect_s`) or for a healthy cluster (`healthy_s`)."""
    return op.with_(extra={**op.extra, **at_most_s})


def patience(env: Env, op: Op) -> Env:
    """Returns the environment with the limits on waiting that the op sets."""
    return replace(
        env,
        effect_s=float(op.extra.get("effect_s", env.effect_s)),
        healthy_s=float(op.extra.get("healthy_s", env.healthy_s)),
        until_s=math.inf if "healthy_s" in op.extra else env.until_s,
    )
