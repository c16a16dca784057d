"""clock-bump and clock-strobe: a server's wall clock jumps, or alternates between two times; undone by resetting it.

Monotonic clocks are not affected. The size of the jump is drawn for each round and server: a power of 2 in seconds,
forward or back. So small jumps are as likely as large ones, as in Jepsen's clock nemesis. Evidence: the time that
every server that answers reports; at least one must answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from harness.model.capabilities import Clocks
from harness.model.fault_and_generator_protocols import Env, Fault
from harness.model.randomness import Draw
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import Act, BrokenNodes, unseen
from nemesis.verb import Verb

RESET: Final = "clock-reset"
# 0.25 s to 32 s. If the clock was ahead by this time, timers set meanwhile expire this much too late after the reset.
# Healing waits 40 s for that.
_BUMP: Final = (-2, 5)
# 0.25 s to 4 s, alternating every 64 ms to 512 ms.
_STROBE: Final = (-2, 2)
_EVERY: Final = (6, 9)
# At most so many readings of each server's clock.
_BUMP_READINGS: Final = 5
_STROBE_READINGS: Final = 20
# Rounding of timestamps in the log, and the time between reading one clock and the next.
_TOLERANCE_S: Final = 0.01

# (min, max) of how far the clock is ahead, in seconds. Bounds, because reading the clock takes some time.
Reading: TypeAlias = tuple[float, float]
# Whether the readings of a server's clock show a fault that moves the clock ahead by so many seconds.
Shown: TypeAlias = Callable[[Sequence[Reading], float], bool]


def _step_s(draw: Draw, powers: tuple[int, int]) -> float:
    return draw.choice((-1, 1)) * 2.0 ** draw.between(*powers)


def _bump(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Clocks)
    steps = {node: _step_s(env.draw, _BUMP) for node in nodes}
    for node, ahead_s in steps.items():
        env.cluster.set_clock(node, ahead_s)
    seen = {node: _readings(env.cluster, node, steps[node], _bumped, _BUMP_READINGS) for node in nodes}
    last = {node: readings[-1] if readings else None for node, readings in seen.items()}
    return {"ahead_s": steps, "seen_ahead_s": last, "took_effect": _took_effect(seen, steps, _bumped)}


def _strobe(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Clocks)
    steps = {node: _step_s(env.draw, _STROBE) for node in nodes}
    every_s = 2.0 ** env.draw.between(*_EVERY) / 1000
    for node, ahead_s in steps.items():
        env.cluster.strobe_clock(node, ahead_s, every_s)
    pause_s = 0.4 * every_s  # a fraction of the period, to avoid sampling in phase with it
    seen = {node: _readings(env.cluster, node, steps[node], _strobed, _STROBE_READINGS, pause_s) for node in nodes}
    took_effect = _took_effect(seen, steps, _strobed)
    return {"ahead_s": steps, "every_s": every_s, "seen_ahead_s": seen, "took_effect": took_effect}


def _readings(clocks: Clocks, node: str, step_s: float, shown: Shown, most: int, pause_s: float = 0.0) -> list[Reading]:
    """Reads a server's clock until the readings show the fault, or `most` times. Returns the readings.

    One reading may show nothing: a busy server takes longer to answer than its clock is ahead, or has just written a
    line with an older time to its log. Returns [] if the server stops answering first, such as a server that another
    fault has paused: then it is not known what its clock shows.
    """
    found: list[Reading] = []
    for _ in range(most):
        reading = clocks.clock_ahead_s(node)
        if reading is None:
            return []
        found.append(reading)
        if shown(found, step_s):
            break
        time.sleep(pause_s)
    return found


def _took_effect(seen: Mapping[str, Sequence[Reading]], steps: Mapping[str, float], shown: Shown) -> bool:
    """Returns whether every server that answers shows the fault, and at least one answers."""
    right = [shown(readings, steps[node]) for node, readings in seen.items() if readings]
    return bool(right) and all(right)


def _bumped(seen: Sequence[Reading], step_s: float) -> bool:
    """Returns whether the last reading shows the clock `step_s` ahead."""
    return _shows(seen[-1], step_s, 0)


def _strobed(seen: Sequence[Reading], step_s: float) -> bool:
    """Returns whether the readings show the clock at both times: at the correct time, and `step_s` ahead of it."""
    right = any(_shows(each, 0, step_s) for each in seen)
    return right and any(_shows(each, step_s, 0) for each in seen)


def _shows(seen: Reading, ahead_s: float, other_s: float) -> bool:
    """Returns whether a reading is possible with a clock `ahead_s` ahead, but not with one `other_s` ahead."""
    return _can_be(seen, ahead_s) and not _can_be(seen, other_s)


def _can_be(seen: Reading, ahead_s: float) -> bool:
    return seen[0] - _TOLERANCE_S <= ahead_s <= seen[1] + _TOLERANCE_S


def _reset(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, Clocks)
    for node in nodes:
        env.cluster.set_clock(node, 0.0)


def _fault(verb: str, act: Act, target: str, timing: Timing) -> Fault:
    name = f"{verb}:{target}"
    begin, end = fault_op(verb, name, target, "start"), fault_op(RESET, name, target, "stop")
    nemesis = BrokenNodes(target, verb, RESET, act, _reset, effect=unseen)
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), (Clocks,), takes_turns=True)


VERBS: Final[Mapping[str, Verb]] = {
    "clock-bump": Verb(
        "set the wall clock of a server forward or back; the clock is reset later",
        partial(_fault, "clock-bump", _bump),
        short={"clock-bump": "one"},
    ),
    "clock-strobe": Verb(
        "alternate the wall clock of a server between right and wrong, many times a second; the clock is reset later",
        partial(_fault, "clock-strobe", _strobe),
        short={"clock-strobe": "one"},
    ),
}
