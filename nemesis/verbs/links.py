"""slow, loss, flaky and rate: degrade the links between a server, or a client process, and every other host.

Both directions are affected; the links are restored later. The parameters are drawn for each round and recorded in the
op's value. Evidence: the time that it takes to open a TCP connection, and the link's counters of affected packets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from harness.model.capabilities import LinkCounts, LinkQuality, Links
from harness.model.fault_and_generator_protocols import Env, Fault
from harness.model.randomness import Draw
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared.break_and_mend import BrokenNodes, unseen
from nemesis.shared.effects import effect_s, wait_for
from nemesis.verb import Verb

HEAL: Final = "heal-links"


def slow(draw: Draw) -> LinkQuality:
    delay_ms = draw.choice((50, 100, 200, 400))
    return LinkQuality(delay_ms=delay_ms, jitter_ms=delay_ms / 4)


def loss(draw: Draw) -> LinkQuality:
    return LinkQuality(loss=draw.choice((0.05, 0.1, 0.2)))


def flaky(draw: Draw) -> LinkQuality:
    delay_ms = draw.choice((50, 100, 200))
    return LinkQuality(
        delay_ms=delay_ms,
        jitter_ms=delay_ms / 2,
        loss=draw.choice((0.05, 0.1, 0.2)),
        reorder=0.2,
        bad_s=draw.choice((0.5, 1, 2)),
        good_s=1,
    )


def rate(draw: Draw) -> LinkQuality:
    return LinkQuality(rate_kbit=draw.choice((128, 256, 512)))


def _delayed_and_dropped(counts: LinkCounts) -> bool:
    return counts.delayed > 0 and counts.dropped > 0


def _dropped(counts: LinkCounts) -> bool:
    return counts.dropped > 0


def _waited(counts: LinkCounts) -> bool:
    return counts.waited > 0


Quality = Callable[[Draw], LinkQuality]
# Function that returns whether the link's counts show the effect; None: the time to open a connection must show it.
Shown = Callable[[LinkCounts], bool] | None


def _degrade(quality: Quality, shown: Shown, env: Env, names: Sequence[str]) -> Mapping[str, Any]:
    cluster = env.cluster
    assert isinstance(cluster, Links)
    bad = quality(env.draw)
    value: dict[str, Any] = {"quality": {name: number for name, number in asdict(bad).items() if number}}
    before = {name: cluster.round_trip_ms(name) for name in names} if shown is None else {}
    cluster.degrade(names, bad, env.draw.below(1 << 32))
    if shown is None:
        now = {name: cluster.round_trip_ms(name) for name in names}
        value["round_trip_ms"] = {name: [before[name], now[name]] for name in names}
        slower = [_slower(before[name], now[name], bad) for name in names]
        return value | {"took_effect": all(slower)}
    found = wait_for(lambda: all(shown(cluster.link_counts(name)) for name in names), effect_s(env))
    return value | {"took_effect": bool(found)}


def _slower(before_ms: float | None, now_ms: float | None, bad: LinkQuality) -> bool:
    """Returns whether a round trip takes longer now than before, by more than the delay of one direction of the link.

    The link has quality `bad` in both directions, but because the delay varies, only half of the total is required.
    """
    return before_ms is not None and now_ms is not None and now_ms > before_ms + bad.delay_ms


def _restore(env: Env, names: Sequence[str]) -> None:
    assert isinstance(env.cluster, Links)
    env.cluster.restore()


def counted(env: Env, names: Sequence[str]) -> Mapping[str, Any]:
    """Returns the packet counts of each host's link; no counts if all of them are 0."""
    assert isinstance(env.cluster, Links)
    counts = {name: asdict(env.cluster.link_counts(name)) for name in names}
    return {"links": counts} if any(any(each.values()) for each in counts.values()) else {}


def _fault(verb: str, quality: Quality, shown: Shown, target: str, timing: Timing) -> Fault:
    name = f"{verb}:{target}"
    begin, end = fault_op(verb, name, target, "start"), fault_op(HEAL, name, target, "stop")
    nemesis = BrokenNodes(target, verb, HEAL, partial(_degrade, quality, shown), _restore, counted, unseen)
    return Fault(name, nemesis, start_stop(begin, end, timing), finally_(end), (Links,), takes_turns=True)


def _verb(name: str, quality: Quality, shown: Shown, summary: str, short: str) -> Verb:
    return Verb(summary, partial(_fault, name, quality, shown), clients=True, short={short: "one"})


VERBS: Final[Mapping[str, Verb]] = {
    "slow": _verb(
        "slow",
        slow,
        None,
        "delay all packets from and to a server or a client process; the link is restored later",
        "slow-links",
    ),
    "loss": _verb(
        "loss",
        loss,
        _dropped,
        "drop some of the packets from and to a server or a client process; the link is restored later",
        "lossy-links",
    ),
    "flaky": _verb(
        "flaky",
        flaky,
        _delayed_and_dropped,
        "delay, drop and reorder packets of a server or a client process, in bursts; the link is restored later",
        "flaky-links",
    ),
    "rate": _verb(
        "rate",
        rate,
        _waited,
        "limit the bandwidth from and to a server or a client process; the link is restored later",
        "narrow-links",
    ),
}
