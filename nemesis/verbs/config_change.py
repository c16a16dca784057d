"""config-change: settings of the run's topics are changed while clients use them, and taken back at the end.

What a change weakens is said to the checker (`Fault.settings`): fewer in-sync replicas, and fewer copies
are promised. What retention deletes is in the history, as [key, offset] below which nothing is left, and so is
how far the log cleaner went. A run's topics have no settings of their own otherwise. Source: KIP-339; Kafka
documentation, topic configurations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from harness.model.capabilities import Brokers
from harness.model.fault_and_generator_protocols import Env, Fault
from nemesis.schedule.timing import Timing, fault_op, finally_, start_stop
from nemesis.shared import cleaner
from nemesis.shared.admin_fault import Changed, Kept, admin
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.shared.placement import placed
from nemesis.verb import Verb

KEEP_MS: Final = "1000"
# A check for what may be deleted that has begun before retention was set back ends within this, and a cleaning
# of a run's logs that has begun before it was held.
SETTLED_S: Final = 2.5
# Nothing that is younger is cleaned (KIP-58): no cleaning begins any more.
HOLD: Final = "min.compaction.lag.ms"
HELD_MS: Final = str(7 * 24 * 3_600_000)
BACK_S: Final = 5.0  # brokers learn of settings in a moment; healing must not wait for one that is away

Made = Callable[[int], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Change:
    """summary; the topics' settings, from their replication factor; what they make of what is promised."""

    summary: str
    configs: Made
    settings: Mapping[str, Any] = field(default_factory=dict)
    deletes: bool = False
    compacts: bool = False


CHANGES: Final[Mapping[str, Change]] = {
    "min-isr-up": Change(
        "`min.insync.replicas` as many as there are replicas: without one of them no acks=all send succeeds",
        lambda replication: {"min.insync.replicas": str(replication)},
    ),
    "min-isr-down": Change(
        "`min.insync.replicas=1`: acks=all no longer promises a second copy",
        lambda replication: {"min.insync.replicas": "1"},
        {"min_insync_replicas": 1},
    ),
    "retention": Change(
        f"`retention.ms={KEEP_MS}`: what is older is deleted, read or not",
        lambda replication: {"retention.ms": KEEP_MS, "segment.ms": KEEP_MS},
        {"deletes": True},
        deletes=True,
    ),
    "compact": Change(
        "`cleanup.policy=compact`: the run's records have no keys, so sends are refused",
        lambda replication: {"cleanup.policy": "compact"},
        {"cleanup_policy": "compact"},
        compacts=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Before:
    """topic -> what its changed settings were, and where the logs began: [key, start]."""

    configs: Mapping[str, Mapping[str, str]]
    starts: Sequence[tuple[int, int]] = ()


def _starts(env: Env) -> list[tuple[int, int]]:
    logs = admin(env, "list_offsets", keys=admin(env, "keys"), isolation_level="read_uncommitted")
    return [(key, start) for key, start, _ in logs]


def begun_later(before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]) -> list[list[int]]:
    """[key, start] of the logs that have lost their beginning."""
    known = dict(before)
    return sorted([key, start] for key, start in now if start > known.get(key, 0))


def _configs(env: Env, topics: Sequence[str], names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    reported: Mapping[str, Mapping[str, str]] = admin(env, "configs", topics=topics, names=names)
    return {topic: dict(reported.get(topic, {})) for topic in topics}


def _named(settings: Mapping[str, Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """The topics, and the names of their settings."""
    return sorted(settings), sorted({name for configs in settings.values() for name in configs})


def _in_force(env: Env, wanted: Mapping[str, Mapping[str, str]], timeout_s: float) -> bool:
    """Whether a broker says so of every topic in time."""
    topics, names = _named(wanted)
    return bool(wait_for(lambda: _configs(env, topics, names) == wanted, timeout_s))


def _change(change: Change, env: Env, kept: Kept) -> dict[str, Any]:
    rows = placed(env)
    topics = sorted({row.topic for row in rows})
    if not topics:
        return hit([], False, why="there are no topics yet")
    configs = dict(change.configs(max(len(row.replicas) for row in rows)))
    starts = _starts(env) if change.deletes else []
    kept.append(Before(_configs(env, topics, list(configs)), starts))
    admin(env, "change_configs", topics=topics, changes=configs)
    done = _in_force(env, dict.fromkeys(topics, configs), effect_s(env))
    if done and change.deletes:
        done = bool(wait_for(lambda: begun_later(starts, _starts(env)), effect_s(env)))
    return hit([], done, topics=len(topics), settings=configs)


def _undo(change: Change, env: Env, before: Before) -> dict[str, Any]:
    topics, names = _named(before.configs)
    if change.compacts:
        # A cleaning that is under way when the policy goes is broken off, and what it has done is on no record.
        names = [*names, HOLD]
        admin(env, "change_configs", topics=topics, changes={HOLD: HELD_MS})
        time.sleep(SETTLED_S)
    cleaned = cleaner.cleaned(env) if change.compacts else []
    admin(env, "change_configs", topics=topics, changes=dict.fromkeys(names))
    done = _in_force(env, before.configs, min(effect_s(env), BACK_S))
    back: dict[str, Any] = {} if done else {"not_back": topics}
    if change.compacts:
        back["cleaned"] = cleaner.further(cleaned, cleaner.cleaned(env, in_sync=True))
    if not change.deletes:
        return back
    time.sleep(SETTLED_S)
    deleted = begun_later(before.starts, _starts(env))
    return {"deleted": deleted, "took_effect": bool(deleted), **back}


def _look(env: Env) -> dict[str, Any]:
    """How far the cleaners went on brokers that learned of the policy's end when they were healed."""
    return {"cleaned": cleaner.cleaned(env, in_sync=True)}


def _fault(target: str, timing: Timing) -> Fault:
    name, change = f"config-change:{target}", CHANGES[target]
    begin, end = (
        fault_op("config-change", name, target, "start"),
        fault_op("config-back", name, target, "stop"),
    )
    begun, ended = partial(_change, change), partial(_undo, change)
    look = _look if change.compacts else None
    nemesis = Changed("config-change", "config-back", begun, ended, whole=False, look=look)
    rounds = start_stop(begin, end, timing)
    return Fault(name, nemesis, rounds, finally_(end), (Brokers,), settings=change.settings)


VERB: Final = Verb(
    "change a setting of the run's topics (IncrementalAlterConfigs), and take it back later",
    _fault,
    nodes=False,
    named={name: change.summary for name, change in CHANGES.items()},
)
