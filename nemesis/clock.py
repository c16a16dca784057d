"""Clocks: the wall clock of a server jumps, or goes back and forth; clocks that measure spans go on.

How far is drawn for each round and server, as often back as ahead, and small steps as often as large ones, as
Jepsen's clock nemesis does. Evidence: what the server itself takes the time to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from harness.model.draw import Draw
from harness.model.protocols import Clocks, Env, Fault
from nemesis.broken import Act, BrokenNodes, unseen
from nemesis.schedule import Timing, fault_op, finally_, start_stop
from nemesis.verb import Verb

RESET: Final = "clock-reset"
# 0.25 s to 256 s.
_BUMP: Final = (-2, 8)
# 0.25 s to 16 s, every 64 ms to 512 ms.
_STROBE: Final = (-2, 4)
_EVERY: Final = (6, 9)
_READINGS: Final = 8
# A reading takes some ms, and more on a busy machine.
_TOLERANCE_S: Final = 0.15


def _step_s(draw: Draw, powers: tuple[int, int]) -> float:
    """Some power of 2 in seconds, either way."""
    return draw.choice((-1, 1)) * 2.0 ** draw.between(*powers)


def _bump(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Clocks)
    steps = {node: _step_s(env.draw, _BUMP) for node in nodes}
    for node, ahead_s in steps.items():
        env.cluster.set_clock(node, ahead_s)
    seen = {node: env.cluster.clock_ahead_s(node) for node in nodes}
    right = [_near(seen[node], steps[node]) for node in nodes]
    return {"ahead_s": steps, "seen_ahead_s": seen, "took_effect": all(right)}


def _strobe(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    assert isinstance(env.cluster, Clocks)
    steps = {node: _step_s(env.draw, _STROBE) for node in nodes}
    every_s = 2.0 ** env.draw.between(*_EVERY) / 1000
    for node, ahead_s in steps.items():
        env.cluster.strobe_clock(node, ahead_s, every_s)
    seen = {node: _readings(env.cluster, node, steps[node]) for node in nodes}
    return {
        "ahead_s": steps,
        "every_s": every_s,
        "seen_ahead_s": seen,
        "took_effect": all(_both(seen[node], steps[node]) for node in nodes),
    }


def _readings(clocks: Clocks, node: str, step_s: float) -> list[float]:
    """What a server takes the time to be, until both were seen, or often enough."""
    found: list[float] = []
    for _ in range(_READINGS):
        said = clocks.clock_ahead_s(node)
        if said is not None:
            found.append(said)
        if _both(found, step_s):
            break
    return found


def _near(seen_s: float | None, asked_s: float) -> bool:
    return seen_s is not None and abs(seen_s - asked_s) < _TOLERANCE_S


def _both(seen: Sequence[float], step_s: float) -> bool:
    """Whether the clock was seen to be right, and to be off."""
    return any(_near(each, 0) for each in seen) and any(_near(each, step_s) for each in seen)


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
    "clock-bump": Verb("set the wall clock of a server ahead or back", partial(_fault, "clock-bump", _bump)),
    "clock-strobe": Verb(
        "set the wall clock of a server back and forth, many times a second",
        partial(_fault, "clock-strobe", _strobe),
    ),
}
