"""When a fault starts and stops, as a generator of nemesis ops.

    first_s ... start ... hold_s ... stop ... rest_s ... start ...

The holding and resting times count from the completion of the op before, and a start completes when its
effect has been seen, so a fault is always on for `hold_s` after it took effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.generator import After, ForNemesis, Once, Repeat, Then
from harness.model.op import INFO, NEMESIS, Op
from harness.model.protocols import Generator


@dataclass(frozen=True, slots=True)
class Timing:
    """first_s: before the first fault; interval_s: between faults, half of it on, half of it off."""

    first_s: float = 5.0
    interval_s: float = 10.0


def fault_op(f: str, fault: str, target: str, span: str) -> Op:
    """A nemesis op: the verb, and in `extra` the fault's name and whether it starts or stops a span."""
    return Op(-1, -1, NEMESIS, INFO, f, {"target": target}, None, {"fault": fault, "span": span})


Rounds = Callable[[int], Generator]


def start_stop(start: Op, stop: Op, timing: Timing) -> Rounds:
    """Start, hold, stop, rest; the first start after `first_s`."""
    half_ns = int(timing.interval_s / 2 * 1e9)

    def round_(n: int) -> Generator:
        before_ns = int(timing.first_s * 1e9) if n == 0 else half_ns
        return Then((After(before_ns, Once(start)), After(half_ns, Once(stop))))

    return round_


def repeated(once: Op, timing: Timing) -> Rounds:
    """A fault without a span (a crash): every `interval_s`."""

    def round_(n: int) -> Generator:
        wait_s = timing.first_s if n == 0 else timing.interval_s
        return After(int(wait_s * 1e9), Once(once))

    return round_


def for_ever(*rounds: Rounds) -> Generator:
    """Round after round; several take turns."""
    return ForNemesis(Repeat(lambda n: rounds[n % len(rounds)](n)))


def finally_(stop: Op) -> Generator:
    """Heal, whatever state the fault is in."""
    return ForNemesis(Once(stop))
