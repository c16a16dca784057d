"""disk-slow: a server's disk stalls writes again and again, with short gaps in between, until it is released.

This imitates a failing disk: writers wait, reads continue. Each stall first flushes earlier writes to disk. A power cut
during this fault therefore loses fewer records than without it. Evidence: the upper quartile of the durations of small
synced writes. The median would not do, because a stalling disk delays only about half of the writes. The maximum would
not do either, because any disk delays a write now and then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import quantiles
from typing import Any, Final

from harness.model.capabilities import SlowDisks
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import BrokenNodes, unseen
from nemesis.verb import Verb

_GAP_S: Final = 0.1


def _slow_ms(took_ms: Sequence[float]) -> float:
    """Returns the upper quartile of the durations of writes: a quarter of them took longer than this."""
    return round(quantiles(took_ms, n=4)[2], 1)


def _stall(env: Env, nodes: Sequence[str]) -> Mapping[str, Any]:
    disks = env.cluster
    assert isinstance(disks, SlowDisks)
    stall_s = env.draw.choice((0.2, 0.4, 0.8))
    before = {node: _slow_ms(disks.write_ms(node)) for node in nodes}
    for node in nodes:
        disks.stall(node, stall_s, _GAP_S)
    now = {node: _slow_ms(disks.write_ms(node)) for node in nodes}
    slower = [now[node] > before[node] + 500 * stall_s for node in nodes]
    write_ms = {node: [before[node], now[node]] for node in nodes}
    return {"stall_s": stall_s, "gap_s": _GAP_S, "write_ms": write_ms, "took_effect": all(slower)}


def _unstall(env: Env, nodes: Sequence[str]) -> None:
    assert isinstance(env.cluster, SlowDisks)
    env.cluster.unstall()


def _fault(target: str, timing: Timing) -> Fault:
    name = f"disk-slow:{target}"
    begin, end = fault_op("disk-slow", name, target, "start"), fault_op("disk-well", name, target, "stop")
    nemesis = BrokenNodes(target, "disk-slow", "disk-well", _stall, _unstall, effect=unseen)
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), (SlowDisks,), takes_turns=True)


VERB: Final = Verb(
    "stall writes to the disk of a server again and again, with short gaps; the disk is released later", _fault
)
