"""config-change: a setting of the run's topics is changed while clients use them, and removed again later.

Apart from this fault, a run's topics have no settings of their own, so removing the setting undoes the change. If a
change weakens a guarantee, `Fault.settings` tells the checker: for example, with a lower `min.insync.replicas`,
acks=all promises fewer copies. The history records, as [key, offset], the log start offsets that retention has raised,
and the offsets up to which the log cleaner has cleaned. Source: KIP-339; Kafka documentation, topic configurations.
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
from nemesis.shared.admin_fault import Changed, UndoSteps, admin
from nemesis.shared.effects import effect_s, hit, wait_for
from nemesis.shared.placement import placed
from nemesis.verb import Verb

KEEP_MS: Final = "1000"
# After a change of settings, a retention check or a log cleaning that has begun earlier ends within this time.
SETTLED_S: Final = 2.5
# Records younger than this are not cleaned (KIP-58), so with a high value no new cleaning starts.
HOLD: Final = "min.compaction.lag.ms"
HOLD_MS: Final = str(7 * 24 * 3_600_000)
BACK_S: Final = 5.0  # brokers learn of settings within moments; healing must not wait for a broker that is down

Made = Callable[[int], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the topics' settings, as a row of CHANGES.

    summary   what the change does
    configs   function: replication factor -> the new settings of the topics
    settings  field of harness.model.check_options.Settings -> weaker value, by which the checker judges the run
    deletes   whether the brokers delete records because of the change
    compacts  whether the log cleaner runs because of the change
    """

    summary: str
    configs: Made
    settings: Mapping[str, Any] = field(default_factory=dict)
    deletes: bool = False
    compacts: bool = False


CHANGES: Final[Mapping[str, Change]] = {
    "min-isr-up": Change(
        "`min.insync.replicas` is set to the number of replicas: with one replica out of sync, acks=all sends fail",
        lambda replication: {"min.insync.replicas": str(replication)},
    ),
    "min-isr-down": Change(
        "`min.insync.replicas=1`: acks=all no longer promises a second copy",
        lambda replication: {"min.insync.replicas": "1"},
        {"min_insync_replicas": 1},
    ),
    "retention": Change(
        f"`retention.ms={KEEP_MS}`: records older than that are deleted, whether consumed or not",
        lambda replication: {"retention.ms": KEEP_MS, "segment.ms": KEEP_MS},
        {"deletes": True},
        deletes=True,
    ),
    "compact": Change(
        "`cleanup.policy=compact`: the run's records have no keys, so brokers reject them",
        lambda replication: {"cleanup.policy": "compact"},
        {"cleanup_policy": "compact"},
        compacts=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Before:
    """The state before a change.

    configs  topic -> the topic's settings
    starts   (key, log start offset) of each log
    """

    configs: Mapping[str, Mapping[str, str]]
    starts: Sequence[tuple[int, int]] = ()


def _starts(env: Env) -> list[tuple[int, int]]:
    logs = admin(env, "list_offsets", keys=admin(env, "keys"), isolation_level="read_uncommitted")
    return [(key, start) for key, start, _ in logs]


def begun_later(before: Sequence[tuple[int, int]], now: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Returns [key, log start offset] of the logs whose log start offset is higher `now` than `before`."""
    earlier = dict(before)
    return sorted([key, start] for key, start in now if start > earlier.get(key, 0))


def _configs(env: Env, topics: Sequence[str], names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    reported: Mapping[str, Mapping[str, str]] = admin(env, "configs", topics=topics, names=names)
    return {topic: dict(reported.get(topic, {})) for topic in topics}


def _named(settings: Mapping[str, Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """Returns the topics, and the names of all settings of these topics."""
    return sorted(settings), sorted({name for configs in settings.values() for name in configs})


def _in_force(env: Env, wanted: Mapping[str, Mapping[str, str]], timeout_s: float) -> bool:
    """Waits until a broker reports these settings for every topic. Returns False after `timeout_s`."""
    topics, names = _named(wanted)
    return bool(wait_for(lambda: _configs(env, topics, names) == wanted, timeout_s))


def _change(change: Change, env: Env, undo_steps: UndoSteps) -> dict[str, Any]:
    rows = placed(env)
    topics = sorted({row.topic for row in rows})
    if not topics:
        return hit([], False, why="there are no topics yet")
    configs = dict(change.configs(max(len(row.replicas) for row in rows)))
    starts = _starts(env) if change.deletes else []
    undo_steps.append(Before(_configs(env, topics, list(configs)), starts))
    admin(env, "change_configs", topics=topics, changes=configs)
    done = _in_force(env, dict.fromkeys(topics, configs), effect_s(env))
    if done and change.deletes:
        done = bool(wait_for(lambda: begun_later(starts, _starts(env)), effect_s(env)))
    return hit([], done, topics=len(topics), settings=configs)


def _undo(change: Change, env: Env, before: Before) -> dict[str, Any]:
    topics, names = _named(before.configs)
    if change.compacts:
        # If the policy is removed during a cleaning, the cleaning is aborted, and its progress is missing in the
        # checkpoint. So prevent new cleanings first, and wait for the current one.
        names = [*names, HOLD]
        admin(env, "change_configs", topics=topics, changes={HOLD: HOLD_MS})
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
    """Returns the offsets up to which the log cleaner has cleaned each partition, at the end of the run.

    The offsets are read again after healing, because a broker that learns late that the cleanup policy was removed
    continues to clean until then.
    """
    return {"cleaned": cleaner.cleaned(env, in_sync=True)}


def _fault(target: str, timing: Timing) -> Fault:
    name, change = f"config-change:{target}", CHANGES[target]
    begin, end = (
        fault_op("config-change", name, target, "start"),
        fault_op("config-back", name, target, "stop"),
    )
    begun, ended = partial(_change, change), partial(_undo, change)
    look = _look if change.compacts else None
    nemesis = Changed("config-change", "config-back", begun, ended, await_health=False, look=look)
    rounds = start_stop(begin, end, timing)
    return Fault(name, nemesis, rounds, finally_(end), (Brokers,), settings=change.settings)


VERB: Final = Verb(
    "change a setting of the run's topics (IncrementalAlterConfigs); the setting is removed again later",
    _fault,
    nodes=False,
    named={name: change.summary for name, change in CHANGES.items()},
)
