"""clock-bump and clock-strobe: a server's wall clock jumps, or alternates between two times; undone by resetting it.

Monotonic clocks are not affected. The size of the jump is drawn for each round and server: a power of 2 in seconds,
forward or back. So small jumps are as likely as large ones, as in Jepsen's clock nemesis. Evidence: the time that the
server itself reports.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
_BUMP_READINGS: Final = 5
_READINGS: Final = 20
# Rounding of timestamps in the log, and the time between reading one clock and the next.
_TOLERANCE_S: Final = 0.01

# (min, max) of how far the clock is ahead, in seconds. Bounds, because reading the clock takes some time.
Reading: TypeAlias = tuple[float, float]


def _step_s(draw: Draw, powers: tuple[int, int]) -> float:
    return draw.choice((-1, 1)) * 2.0 ** draw.between(*powers)


def _bump(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Clocks)
    steps = {node: _step_s(env.draw, _BUMP) for node in nodes}
    for node, ahead_s in steps.items():
        env.cluster.set_clock(node, ahead_s)
    seen = {node: _bumped(env.cluster, node, steps[node]) for node in nodes}
    # A server that another fault has stopped or paused cannot tell the time.
    right = [_shows(reading, steps[node], 0) for node, reading in seen.items() if reading is not None]
    return {"ahead_s": steps, "seen_ahead_s": seen, "took_effect": bool(right) and all(right)}


def _bumped(clocks: Clocks, node: str, ahead_s: float) -> Reading | None:
    """Reads a server's clock until a reading shows that it is `ahead_s` ahead. Returns the last reading.

    One reading may not be enough: a busy server takes longer to answer than the clock is ahead, or has just written a
    line with an older time to its log. There are at most _BUMP_READINGS readings. Returns None if there is no answer.
    """
    reading = None
    for _ in range(_BUMP_READINGS):
        reading = clocks.clock_ahead_s(node)
        if reading is None or _shows(reading, ahead_s, 0):
            break
    return reading


def _strobe(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Clocks)
    steps = {node: _step_s(env.draw, _STROBE) for node in nodes}
    every_s = 2.0 ** env.draw.between(*_EVERY) / 1000
    for node, ahead_s in steps.items():
        env.cluster.strobe_clock(node, ahead_s, every_s)
    seen = {node: _readings(env.cluster, node, steps[node], every_s) for node in nodes}
    right = [_both(readings, steps[node]) for node, readings in seen.items() if readings]
    return {
        "ahead_s": steps,
        "every_s": every_s,
        "seen_ahead_s": seen,
        "took_effect": bool(right) and all(right),
    }


def _readings(clocks: Clocks, node: str, step_s: float, every_s: float) -> list[Reading]:
    """Reads a server's clock until the readings show both the correct time and a time that is `step_s` ahead.

    The clock alternates between the two every `every_s` seconds. There are at most _READINGS readings.
    """
    found: list[Reading] = []
    for _ in range(_READINGS):
        reading = clocks.clock_ahead_s(node)
        if reading is None:
            break
        found.append(reading)
        if _both(found, step_s):
            break
        time.sleep(0.4 * every_s)  # a fraction of the period, to avoid sampling in phase with it
    return found


def _shows(seen: Reading | None, ahead_s: float, other_s: float) -> bool:
    """Returns whether a reading is possible with a clock `ahead_s` ahead, but not with one `other_s` ahead."""
    return seen is not None and _can_be(seen, ahead_s) and not _can_be(seen, other_s)


def _can_be(seen: Reading, ahead_s: float) -> bool:
    return seen[0] - _TOLERANCE_S <= ahead_s <= seen[1] + _TOLERANCE_S


def _both(seen: Sequence[Reading], step_s: float) -> bool:
    """Returns whether the readings show the clock at both times: at the correct time, and `step_s` ahead of it."""
    right = any(_shows(each, 0, step_s) for each in seen)
    return right and any(_shows(each, step_s, 0) for each in seen)


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
