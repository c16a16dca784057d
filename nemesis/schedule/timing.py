"""The default timing of faults (`--nemesis`): generators that start and stop faults at regular intervals.

    first_s ... start ... hold ... stop ... rest ... start ...

`hold` and `rest` are half an interval each, counted from the completion of the previous op. A start op completes once
the fault's effect has been observed, so `hold` begins when the fault has taken effect. For faults with a schedule, see
`rounds`.
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
    """The times of the default timing, in seconds.

    first_s     from the start of the load to the first fault
    interval_s  one period of a fault: half of it on, half of it off
    """

    first_s: float = 5.0
    interval_s: float = 10.0


def fault_op(f: str, fault: str, target: str, span: str) -> Op:
    """Returns an op for the nemesis.

    Its `extra` has `fault`, the fault's name, and `span`, which is "start", "stop" or "".
    """
    return Op(-1, -1, NEMESIS, INFO, f, {"target": target}, None, {"fault": fault, "span": span})


@dataclass(frozen=True, slots=True)
class StartStop:
    """The rounds of a fault that has a stop op: start, hold, stop, rest. Implements Rounds."""

    start: Op
    stop: Op
    timing: Timing

    def __call__(self, n: int) -> Generator:
        half_ns = int(self.timing.interval_s / 2 * 1e9)
        before_ns = int(self.timing.first_s * 1e9) if n == 0 else half_ns
        return Then((After(before_ns, Once(self.start)), After(half_ns, Once(self.stop))))


@dataclass(frozen=True, slots=True)
class Repeated:
    """The rounds of a fault without a stop op: its only op, every `interval_s`. Implements Rounds."""

    start: Op
    timing: Timing
    stop: None = None

    def __call__(self, n: int) -> Generator:
        wait_s = self.timing.first_s if n == 0 else self.timing.interval_s
        return After(int(wait_s * 1e9), Once(self.start))


def start_stop(start: Op, stop: Op, timing: Timing) -> Rounds:
    """Returns the rounds of a fault that is started by one op and stopped by another."""
    return StartStop(start, stop, timing)


def repeated(once: Op, timing: Timing) -> Rounds:
    """Returns the rounds of a fault that needs no stop op. Its only op is repeated at regular intervals."""
    return Repeated(once, timing)


def in_turns(faults: Sequence[Fault]) -> Generator:
    """Returns the generator that repeats the rounds of the faults forever. Only one fault is on at any time."""
    rounds = [fault.rounds for fault in faults]
    names = frozenset(fault.name for fault in faults)
    return ForNemesis(Repeat(lambda n: rounds[n % len(rounds)](n)), names)


def finally_(stop: Op) -> Generator:
    """Returns the generator of the op that heals a fault at the end of the run.

    The op is emitted even if the fault is off. The op does not wait for a healthy cluster; the run waits after all
    faults have been healed.
    """
    return ForNemesis(Once(patient(stop, healthy_s=0.0)))


def patient(op: Op, **at_most_s: float) -> Op:
    """Returns a copy of the op with limits on waiting, in seconds.

    at_most_s  `effect_s`: for the wait until the fault has an effect; `healthy_s`: for the wait until the cluster is
               healthy
    """
    return op.with_(extra={**op.extra, **at_most_s})


def patience(env: Env, op: Op) -> Env:
    """Returns a copy of the environment that has the op's limits on waiting (see `patient`)."""
    return replace(
        env,
        effect_s=float(op.extra.get("effect_s", env.effect_s)),
        healthy_s=float(op.extra.get("healthy_s", env.healthy_s)),
        until_s=math.inf if "healthy_s" in op.extra else env.until_s,
    )
