"""Draws the actions for a topic on real brokers from a seed. It is like `draw_actions`, but times are several hours
long.

    topics(seed, steps, target, weights)     topics one after another, `steps` actions in all

A broker has its own clock, and does much asynchronously. Ages of records are therefore whole hours, and retention times
lie between whole hours, so that no outcome depends on the broker's speed. There are no actions that let time pass or
apply retention, because both happen anyway. The action `clean` waits for the cleaner. Restarts are rare, because each
takes seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.model.randomness import Draw
from harness.sim.log_model.action_types import CHOICES, Action
from harness.sim.log_model.records import AS_ALL, UNLIMITED, LogSettings
from workloads.log_model import draw_actions as actions
from workloads.log_model.draw_actions import Topic, chosen, drawn_records, placed, position
from workloads.log_model.scripted_sequences import BROKER_TURNS, HOUR_MS, TIERED_TURNS

TOPIC_STEPS: Final = 30
STEPS_A_RESTART: Final = 63  # 8 restarts in 500 steps
WEIGHTS: Final[dict[str, int]] = {
    "append": 30,
    "retry": 5,
    "gap": 1,
    "zombie": 1,
    "init": 2,
    "commit": 7,
    "abort": 7,
    "read": 20,
    "read-all": 8,
    "list": 7,
    "set": 4,
    "delete-records": 9,
    "clean": 4,
    "hold": 0,  # only in scripted sequences
    "elect": 2,
    "restart": 3,
    "power": 0,  # a restart after a power loss; needs a separate disk for each broker
}
KINDS: Final = ("delete", "delete", "compact")
TIERED_KINDS: Final = ("tiered", "delete", "tiered", "compact")
# Make background work run soon, and disable automatic leader changes.
BROKER: Final[dict[str, str]] = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.cleaner.backoff.ms": "300",
    "auto.leader.rebalance.enable": "false",
    "log.flush.start.offset.checkpoint.interval.ms": "3600000",  # only a clean stop checkpoints the log start offset
    "replica.lag.time.max.ms": "600000",  # a follower that is cut off for a while stays in sync
}
_AGES: Final = (0, 0, 0, 1, 2, 3, 3, 4, 4, -20)  # hours
_ANCHORS: Final = ("start", "hw", "stable", "end", "second")


@dataclass(frozen=True, slots=True)
class Target:
    """What a cluster supports.

    actions     the supported actions
    kinds       kinds of topics: KINDS or TIERED_KINDS
    retains     whether the cluster applies retention
    full        whether a fetch returns as much as its limit allows; if not, it may return less
    alone       whether partitions have no followers
    old         whether the cluster accepts message formats before 2
    known       whether to apply actions that show known deviations of brokers; see docs/understand/findings.md
    deadline_s  how many seconds the cluster may take for what it does asynchronously
    again_s     the value of deadline_s while a divergence is reproduced
    """

    actions: frozenset[str] = frozenset(WEIGHTS)
    kinds: tuple[str, ...] = KINDS
    retains: bool = True
    full: bool = True
    alone: bool = False
    old: bool = False
    known: bool = False
    deadline_s: float = 20.0
    again_s: float = 5.0


BROKERS: Final = Target()
# The mock cluster does everything at once, and nothing in the background.
MOCK: Final = Target(
    frozenset({"append", "retry", "gap", "zombie", "init", "commit", "abort", "read", "read-all", "list"}),
    ("delete",),
    retains=False,
    full=False,
    known=True,
    deadline_s=0.0,
    again_s=0.0,
)
TURN_STEPS: Final = 10


def wants_controller(plan: Mapping[str, Any]) -> bool:
    """Returns whether a plan needs a dedicated controller.

    A plan needs one if its weights include `hold`. This action cuts followers off from the leader, but they must stay
    connected to the controller.
    """
    holds = re.search(r"(^|,)\s*hold=[1-9]", str(plan.get("weights", "")))
    return holds is not None and str(plan.get("cluster", "local")) == "local"


def wants_disks(weights: str) -> bool:
    """Returns whether these weights include power failures of brokers, which require a separate disk
    for each broker.
    """
    return bool(parse_weights(weights)["power"])


def parse_weights(text: str) -> dict[str, int]:
    """Returns the default weights for brokers, with the overrides in `text`, such as "append=10,read=5".

    Raises BadInput.
    """
    return actions.parse_weights(text, WEIGHTS)


def topics(seed: int, steps: int, target: Target = BROKERS, weights: Mapping[str, int] = WEIGHTS) -> Iterator[Topic]:
    """Yields topics one after another. The n-th action depends only on seed, weights, target and n."""
    restarts = -(-steps // STEPS_A_RESTART)
    for at, begin in enumerate(range(0, steps, TOPIC_STEPS)):
        kinds = Draw.of(seed, "broker-kinds", at // len(target.kinds)).shuffled(target.kinds)
        settings = draw_settings(Draw.of(seed, "broker-settings", at), kinds[at % len(kinds)])
        if not target.retains:
            settings = replace(settings, retention_ms=UNLIMITED, retention_bytes=UNLIMITED)
        possible = _possible(settings, target, weights)
        chosen_actions = []
        for n in range(begin, min(steps, begin + TOPIC_STEPS)):
            action = _in_turn(seed, possible, settings, n) or _action(
                Draw.of(seed, "broker-log", n), possible, settings, n
            )
            if target.old:
                action = _of_old_format(Draw.of(seed, "broker-format", n), action)
            if action.f == "restart":
                restarts -= 1
            if action.f == "restart" and restarts < 0:
                action = Action("read-all")
            chosen_actions.append(action)
        yield Topic(settings, tuple(chosen_actions))


def _possible(settings: LogSettings, target: Target, weights: Mapping[str, int]) -> dict[str, int]:
    idle = {"clean"} if settings.cleanup == "delete" else {"delete-records"}
    found = {f: n for f, n in weights.items() if f in target.actions and f not in idle}
    if not any(weight for f, weight in found.items() if f != "hold"):
        return {**found, "read-all": 1}  # with these weights, no other action applies to a topic of this kind
    return found


def draw_settings(draw: Draw, kind: str) -> LogSettings:
    """Draws the settings of a topic of this kind. Retention times lie between whole hours.

    The local retention of a tiered topic never exceeds the topic's total retention, because brokers reject such
    settings.
    """
    half = HOUR_MS // 2
    if kind == "tiered":
        return LogSettings(
            partitions=draw.choice((1, 1, 1, 2)),
            segment_bytes=draw.choice((300, 300, 500)),
            segment_ms=draw.choice((HOUR_MS + half, 3 * HOUR_MS + half, 100 * HOUR_MS)),
            retention_ms=draw.choice((UNLIMITED, UNLIMITED, 3 * HOUR_MS + half)),
            retention_bytes=draw.choice((UNLIMITED, UNLIMITED, 3000)),
            local_retention_ms=draw.choice((AS_ALL, HOUR_MS + half, 2 * HOUR_MS + half)),
            local_retention_bytes=draw.choice((AS_ALL, 0, 500, 1000)),
            delete_retention_ms=HOUR_MS,
            tiered=True,
        )
    return LogSettings(
        partitions=draw.choice((1, 1, 1, 2)),
        segment_bytes=draw.choice((300, 500, 1000)),
        segment_ms=draw.choice((HOUR_MS + half, 3 * HOUR_MS + half, 100 * HOUR_MS)),
        retention_ms=draw.choice((UNLIMITED, HOUR_MS + half, 2 * HOUR_MS + half, 3 * HOUR_MS + half)),
        retention_bytes=draw.choice((UNLIMITED, UNLIMITED, UNLIMITED, 0, 500, 2000)),
        delete_retention_ms=HOUR_MS,
        cleanup=kind,
    )


def _action(draw: Draw, weights: Mapping[str, int], settings: LogSettings, n: int) -> Action:
    singly = {name: weight for name, weight in weights.items() if name != "hold"}
    f = chosen(draw.below(sum(singly.values())), singly)
    if f == "power":
        return Action("restart", {"how": "power", "who": draw.choice(("leader", "follower"))})
    return placed(f, draw.below(settings.partitions), _arguments(f, draw, settings, n))


def _in_turn(seed: int, weights: Mapping[str, int], settings: LogSettings, n: int) -> Action | None:
    """Returns the n-th action if it belongs to a scripted sequence (one of BROKER_TURNS); None otherwise.

    A sequence can start only at a step whose number is a multiple of TURN_STEPS.
    """
    draw = Draw.of(seed, "broker-turn", n // TURN_STEPS)
    turns = (*BROKER_TURNS, *TIERED_TURNS, *TIERED_TURNS) if settings.tiered else BROKER_TURNS
    possible = [turn for turn in turns if all(weights.get(f) or f == "advance" for f, _ in turn)]
    if draw.below(3) or not possible:
        return None
    turn, at = draw.choice(possible), n % TURN_STEPS
    if at >= len(turn):
        return None
    f, drawn = turn[at]
    args = {name: value for name, value in drawn.items() if name != "age"}
    if f == "append":
        records = drawn_records(Draw.of(seed, "broker-log", n), n, drawn["age"] * HOUR_MS)
        args["records"] = _keyed(records) if settings.compacts else records
    return placed(f, draw.below(settings.partitions), args)


def _of_old_format(draw: Draw, action: Action) -> Action:
    """Changes one in five appends without sequence numbers: the messages get format 0 or 1 and are not compressed.

    A broker converts these messages to format 2. If they were compressed, the broker would compress the converted batch
    itself, and its size could not be predicted.
    """
    if action.f != "append" or action.arg("producer") >= 0 or draw.below(5):
        return action
    args = {name: value for name, value in action.args.items() if name != "codec"}
    return Action("append", {**args, "magic": draw.below(2)})


def _keyed(records: list[list[Any]]) -> list[list[Any]]:
    """Gives every record a key.

    A compacted topic would reject records without a key, and the cleaner would have nothing to do.
    """
    return [[key or "k", value, age] for key, value, age in records]


def _arguments(f: str, draw: Draw, settings: LogSettings, n: int) -> dict[str, Any]:
    if f == "append":
        return _batch(draw, settings, n)
    if f == "retry":
        return {"producer": draw.below(4), "back": draw.choice((0, 0, 0, 1, 2))}
    if f == "gap":
        return {"producer": draw.below(2)}
    if f == "init":
        return {"producer": draw.below(4)}
    if f in ("zombie", "commit", "abort"):
        return {"producer": draw.between(2, 3)}
    if f == "delete-records":
        return {"at": "second" if draw.below(3) else position(draw, ("start", "second", "hw"))}
    if f == "read":
        return {
            "at": position(draw, _ANCHORS),
            "isolation": draw.choice(CHOICES["isolation"]),
            "max_bytes": draw.choice((1, 100, 400, 1000, 1000)),
        }
    if f == "read-all":
        return {"isolation": draw.choice(CHOICES["isolation"])}
    if f == "list":
        local = ("earliest-local",) if settings.tiered else ()
        what = draw.choice(("earliest", "latest", "time", "time", "time", *local))
        aged = {"age": draw.between(0, 4) * HOUR_MS + HOUR_MS // 2} if what == "time" else {}
        return {"what": what, **aged, "isolation": draw.choice(CHOICES["isolation"])}
    if f == "set":
        names = ["retention_ms", "retention_bytes", "segment_bytes", "segment_ms"]
        names += ["local_retention_ms", "local_retention_bytes"] if settings.tiered else []
        name = draw.choice(names)
        kind = "tiered" if settings.tiered else settings.cleanup
        return {"name": name, "value": getattr(draw_settings(draw, kind), name)}
    if f == "elect":
        return {"at": "end"}
    if f == "restart":
        return {"how": draw.choice(("clean", "kill")), "who": draw.choice(("leader", "leader", "follower"))}
    return {}


def _batch(draw: Draw, settings: LogSettings, n: int) -> dict[str, Any]:
    age = draw.choice(_AGES) * HOUR_MS
    producer = draw.choice((-1, -1, -1, 0, 1, 2, 2, 3))
    args: dict[str, Any] = {} if producer < 0 else {"producer": producer}
    if producer > 1:
        args["txn"] = True
    records = drawn_records(draw, n, age)
    args["records"] = _keyed(records) if settings.compacts else records
    if (codec := draw.choice(CHOICES["codec"])) != "none":
        args["codec"] = codec
    return args
