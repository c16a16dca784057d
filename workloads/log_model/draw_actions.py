"""Draws topic settings and the actions on a simulated log from a seed.

    topics(seed, steps, weights)     topics of at most TOPIC_STEPS actions each, `steps` actions in all

The n-th action depends only on seed, weights and n. It does not depend on the outcomes of earlier actions, because its
position is relative ("end-2"). The same list of actions can therefore be applied to the model, to the model with a bug,
and to real brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.model.errors_and_exit_codes import BadInput
from harness.model.randomness import Draw
from harness.sim.log_model.action_types import ARGUMENTS, CHOICES, Action
from harness.sim.log_model.records import AS_ALL, UNLIMITED, LogSettings
from workloads.log_model.scripted_sequences import TURNS

WEIGHTS: Final[dict[str, int]] = {
    "append": 24,
    "retry": 4,
    "gap": 1,
    "zombie": 1,
    "init": 2,
    "commit": 8,
    "abort": 8,
    "advance": 30,
    "read": 20,
    "read-all": 12,
    "list": 5,
    "tick": 16,
    "check": 14,
    "set": 3,
    "delete-records": 10,
    "roll": 10,
    "clean": 8,
    "upload": 14,
    "commit-tier": 5,
    "check-tier": 5,
    "checkpoint": 2,
    "flush": 2,
    "restart": 3,
    "elect": 2,
}
TOPIC_STEPS: Final = 125
RESTARTS_MAX: Final = 2  # per topic
KEYS: Final = 5
TURN_STEPS: Final = 8
AGES: Final = (0, 0, 0, 3000, 10_000, 10_000, 10_000, -1000, -20_000, -20_000)  # ms
KINDS: Final = ("delete", "tiered", "compact,delete")
_ANCHORS: Final = ("start", "local", "second", "hw", "stable", "end")


@dataclass(frozen=True, slots=True)
class Topic:
    """The settings of a fresh topic, and the actions on it."""

    settings: LogSettings
    actions: tuple[Action, ...]


def parse_weights(text: str, usual: Mapping[str, int] = WEIGHTS) -> dict[str, int]:
    """Returns a copy of the default weights `usual`, with the weights in `text`, such as "append=10,read=5".

    Raises BadInput.
    """
    weights = dict(usual)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        if name not in usual or not number.isdecimal() or int(number) > 1000:
            raise BadInput(
                f"--weights {part}: write NAME=WEIGHT; NAME is one of {', '.join(usual)}; "
                "WEIGHT is an integer from 0 to 1000"
            )
        weights[name] = int(number)
    if not any(weights.values()):
        raise BadInput(f"--weights {text}: at least one action needs a weight above 0")
    return weights


def topics(seed: int, steps: int, weights: Mapping[str, int] = WEIGHTS) -> Iterator[Topic]:
    """Yields topics one after another, with `steps` actions in all.

    There is one topic of each kind among the first len(KINDS) topics, one of each kind among the next len(KINDS), and
    so on.
    """
    for at, begin in enumerate(range(0, steps, TOPIC_STEPS)):
        kinds = Draw.of(seed, "log-kinds", at // len(KINDS)).shuffled(KINDS)
        settings = draw_settings(Draw.of(seed, "log-settings", at), kinds[at % len(KINDS)])
        yield Topic(settings, tuple(_actions(seed, begin, min(steps, begin + TOPIC_STEPS), weights, settings)))


def _actions(seed: int, begin: int, end: int, weights: Mapping[str, int], settings: LogSettings) -> Iterator[Action]:
    restarts = 0
    idle = ("clean",) if settings.tiered else ("upload", "commit-tier", "check-tier")
    useful = {f: weight for f, weight in weights.items() if f not in idle}
    useful = useful if any(useful.values()) else dict(weights)
    for n in range(begin, end):
        action = _in_turn(seed, useful, settings, n) or draw_action(Draw.of(seed, "log-model", n), useful, settings, n)
        restarts += action.f == "restart"
        if action.f != "restart" or restarts <= RESTARTS_MAX:
            yield action
        else:
            yield Action("tick", {"ms": 1})


def draw_settings(draw: Draw, kind: str) -> LogSettings:
    """Draws the settings of a topic of this kind."""
    cleanup = "delete" if kind == "tiered" else kind
    return LogSettings(
        partitions=draw.choice((1, 1, 1, 2)),
        segment_bytes=draw.choice((300, 500, 1000)),
        segment_ms=draw.choice((2000, 10_000, 100_000)),
        retention_ms=draw.choice((UNLIMITED, 100, 500, 500, 1000, 2000)),
        retention_bytes=draw.choice((UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED, 0, 500, 2000)),
        local_retention_ms=draw.choice((AS_ALL, 0, 0, 500)),
        local_retention_bytes=draw.choice((AS_ALL, 0, 300)),
        delete_retention_ms=draw.choice((0, 1000, 5000)),
        cleanup=cleanup,
        tiered=kind == "tiered",
    )


def draw_action(draw: Draw, weights: Mapping[str, int], settings: LogSettings, n: int) -> Action:
    """Draws the n-th action. The weights say how frequent each action is."""
    f = chosen(draw.below(sum(weights.values())), weights)
    return placed(f, draw.below(settings.partitions), _arguments(f, draw, settings, n))


def placed(f: str, partition: int, args: Mapping[str, Any]) -> Action:
    """Returns an action named `f` on a partition. `partition` is ignored if actions of this name do not take one."""
    common = {"partition": partition} if partition and "partition" in ARGUMENTS[f] else {}
    return Action(f, {**common, **args})


def _in_turn(seed: int, weights: Mapping[str, int], settings: LogSettings, n: int) -> Action | None:
    """Returns the n-th action if it belongs to a scripted sequence (one of TURNS); None otherwise.

    A sequence can start only at a step whose number is a multiple of TURN_STEPS.
    """
    draw = Draw.of(seed, "log-turn", n // TURN_STEPS)
    possible = [turn for turn in TURNS if all(weights.get(f) for f, _ in turn)]
    if draw.below(3) or not possible:
        return None
    turn, at = draw.choice(possible), n % TURN_STEPS
    if at >= len(turn):
        return None
    f, drawn = turn[at]
    args = {name: value for name, value in drawn.items() if name != "age"}
    if f == "append":
        args["records"] = drawn_records(Draw.of(seed, "log-model", n), n, drawn["age"])
    return placed(f, draw.below(settings.partitions), args)


def chosen(number: int, weights: Mapping[str, int]) -> str:
    """Returns the name of an action, selected by a number from 0 to the sum of the weights minus 1."""
    for f, weight in weights.items():
        if number < weight:
            return f
        number -= weight
    raise ValueError("the number is not below the sum of the weights")


def _arguments(f: str, draw: Draw, settings: LogSettings, n: int) -> dict[str, Any]:
    if f == "append":
        return _batch(draw, n)
    if f == "retry":
        return {"producer": draw.below(4), "back": draw.choice((0, 0, 0, 1, 2, 3, 4, 5, 6))}
    if f == "gap":
        return {"producer": draw.below(2)}
    if f == "init":
        return {"producer": draw.below(4)}
    if f in ("zombie", "commit", "abort"):
        return {"producer": draw.between(2, 3)}
    if f == "advance":
        return {"at": "end" if draw.below(2) else position(draw, ("hw", "end"))}
    if f == "delete-records":
        return {"at": "second" if draw.below(3) else position(draw, ("start", "second", "hw"))}
    if f == "elect":
        return {"at": position(draw, ("hw", "end"))}
    if f == "read":
        size = draw.choice((1, 100, 400, 1000, 1000))
        return {
            "at": position(draw, _ANCHORS),
            "isolation": draw.choice(CHOICES["isolation"]),
            "max_bytes": size,
        }
    if f == "read-all":
        return {"isolation": draw.choice(CHOICES["isolation"])}
    if f == "list":
        what = draw.choice(("earliest", "latest", "earliest-local", "latest-tiered", "time", "time", "time"))
        aged = {"age": draw.between(0, 8000)} if what == "time" else {}
        return {"what": what, **aged, "isolation": draw.choice(CHOICES["isolation"])}
    if f == "tick":
        return {"ms": draw.choice((1, 100, 1000, 1000, 3000, 6000))}
    if f == "set":
        return _change(draw, settings)
    if f == "restart":
        return {"how": draw.choice(("clean", "clean", "kill", "power"))}
    return {}


def _batch(draw: Draw, n: int) -> dict[str, Any]:
    """Draws the arguments of an append: mostly a few recent records; sometimes old records, future ones, or records
    without keys.
    """
    records = drawn_records(draw, n, draw.choice(AGES))
    producer = draw.choice((-1, -1, -1, 0, 1, 2, 2, 3))
    args: dict[str, Any] = {} if producer < 0 else {"producer": producer}
    if producer > 1:
        args["txn"] = True
    args["records"] = records
    if (codec := draw.choice(CHOICES["codec"])) != "none":
        args["codec"] = codec
    if producer < 0 and draw.below(10) == 0:
        args["magic"] = draw.below(2)
    return args


def drawn_records(draw: Draw, n: int, age: int) -> list[list[Any]]:
    """Draws records [key, value, age]. Their ages in ms are between `age` and `age` + 500."""
    records: list[list[Any]] = []
    for at in range(draw.choice((1, 1, 2, 3, 5))):
        key = None if draw.below(20) == 0 else f"k{draw.below(KEYS)}"
        value = None if draw.below(6) == 0 else f"v{n}.{at}" + "x" * draw.choice((0, 0, 20))
        records.append([key, value, age + draw.below(500)])
    return records


def position(draw: Draw, anchors: tuple[str, ...]) -> str:
    if draw.below(3) == 0:
        return f"{draw.below(101)}%"
    off = draw.choice((0, 0, 0, 1, -1, 2, -2, -3))
    return f"{draw.choice(anchors)}{off:+}" if off else draw.choice(anchors)


def _change(draw: Draw, settings: LogSettings) -> dict[str, Any]:
    drawn = draw_settings(draw, draw.choice(("delete", "compact", "compact,delete")))
    names = ["retention_ms", "retention_bytes", "segment_bytes", "segment_ms"]
    names += ["local_retention_ms", "local_retention_bytes"] if settings.tiered else ["cleanup"]
    name = draw.choice(names)
    return {"name": name, "value": getattr(drawn, name)}
