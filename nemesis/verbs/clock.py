"""Clocks: the wall clock of a server jumps, or goes back and forth; clocks that measure spans go on.

How far is drawn for each round and server, as often back as ahead, and small steps as often as large ones, as
Jepsen's clock nemesis does. Evidence: what the server itself takes the time to be.
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
# 0.25 s to 32 s: timers that a server set while it was ahead run out that much later, and healing waits 40 s.
_BUMP: Final = (-2, 5)
# 0.25 s to 4 s, every 64 ms to 512 ms.
_STROBE: Final = (-2, 2)
_EVERY: Final = (6, 9)
_READINGS: Final = 20
# Of the log's times, and of clocks that are read one after the other.
_TOLERANCE_S: Final = 0.01

# At least, at most: the time that a reading takes is in between.
Reading: TypeAlias = tuple[float, float]


def _step_s(draw: Draw, powers: tuple[int, int]) -> float:
    """Some power of 2 in seconds, either way."""
    return draw.choice((-1, 1)) * 2.0 ** draw.between(*powers)


def _bump(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Clocks)
    steps = {node: _step_s(env.draw, _BUMP) for node in nodes}
    for node, ahead_s in steps.items():
        env.cluster.set_clock(node, ahead_s)
    seen = {node: env.cluster.clock_ahead_s(node) for node in nodes}
    right = [_shows(seen[node], steps[node], 0) for node in nodes]
    return {"ahead_s": steps, "seen_ahead_s": seen, "took_effect": all(right)}


def _strobe(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Clocks)
    steps = {node: _step_s(env.draw, _STROBE) for node in nodes}
    every_s = 2.0 ** env.draw.between(*_EVERY) / 1000
    for node, ahead_s in steps.items():
        env.cluster.strobe_clock(node, ahead_s, every_s)
    seen = {node: _readings(env.cluster, node, steps[node], every_s) for node in nodes}
    return {
        "ahead_s": steps,
        "every_s": every_s,
        "seen_ahead_s": seen,
        "took_effect": all(_both(seen[node], steps[node]) for node in nodes),
    }


def _readings(clocks: Clocks, node: str, step_s: float, every_s: float) -> list[Reading]:
    """What a server takes the time to be, until both were seen, or often enough."""
    found: list[Reading] = []
    for _ in range(_READINGS):
        reading = clocks.clock_ahead_s(node)
        if reading is not None:
            found.append(reading)
        if _both(found, step_s):
            break
        time.sleep(0.4 * every_s)  # not in step with the clock
    return found


def _shows(seen: Reading | None, ahead_s: float, other_s: float) -> bool:
    """Whether a reading can be of a clock that is so far ahead, and not of one that is `other_s` ahead."""
    return seen is not None and _can_be(seen, ahead_s) and not _can_be(seen, other_s)


def _can_be(seen: Reading, ahead_s: float) -> bool:
    return seen[0] - _TOLERANCE_S <= ahead_s <= seen[1] + _TOLERANCE_S


def _both(seen: Sequence[Reading], step_s: float) -> bool:
    """Whether the clock was seen to be right, and to be off."""
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
        "set the wall clock of a server ahead or back",
        partial(_fault, "clock-bump", _bump),
        short={"clock-bump": "one"},
    ),
    "clock-strobe": Verb(
        "set the wall clock of a server back and forth, many times a second",
        partial(_fault, "clock-strobe", _strobe),
        short={"clock-strobe": "one"},
    ),
}
