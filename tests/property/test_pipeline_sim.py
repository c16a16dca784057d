"""Simulated runs of the pipeline: the state machine finds nothing in correct ones, and finds bugs that show.

tests/spark/test_pipeline.py compares the outputs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from checker.pipeline.offset_machine import Event, findings
from harness.pipeline_app.mistakes import MISTAKES, NOT_FENCED, SHARED_ID
from harness.pipeline_app.ports import Options, Partition
from harness.sim.pipeline.run import files, simulate
from harness.sim.pipeline.world import World


def event(line: dict[str, Any]) -> Event:
    first = line.get("first", line.get("offset"))
    numbers = first, line.get("last"), line.get("count"), line.get("gaps", 0)
    return Event(
        line["time_ns"],
        str(line["instance"]),
        line["incarnation"],
        line["generation"],
        line["event"],
        *numbers,
    )


def by_partition(world: World) -> dict[Partition, list[Event]]:
    """Events as checker.pipeline.events returns them: an event of a whole instance is repeated for each partition."""
    found: dict[Partition, list[Event]] = defaultdict(list)
    for lines in world.events.values():
        whole, mine = [], set()
        for line in lines:
            own = [tuple(at) for at in line.get("partitions", [])]
            own += [(line["topic"], line["partition"])] if "topic" in line else []
            for at in own:
                found[at].append(event(line))
            mine.update(own)
            whole += [] if own or "partitions" in line else [event(line)]
        for at in mine:
            found[at] += whole
    return {at: sorted(events, key=lambda one: one.time_ns) for at, events in found.items()}


def anomalies(options: Options, seed: int, eager: bool = True, turns: int = 200) -> list[tuple[str, str]]:
    world = simulate(options, seed, turns, eager)
    kinds = frozenset(line["event"] for lines in world.events.values() for line in lines)
    ahead = options.mode in ("at-most-once", "auto-commit")
    return [
        (one.anomaly, one.text)
        for at, events in by_partition(world).items()
        for one in findings(events, kinds, 0, ahead)
        if not one.verify or any(one.first <= offset < one.until for offset, _, _ in world.inputs[at])
    ]


@pytest.mark.repeat(3, 100)
@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once", "at-most-once", "auto-commit"])
def test_nothing_is_flagged_in_honest_runs(mode: str, repetition: int) -> None:
    for eager in (True, False):
        assert anomalies(Options(mode=mode, abort_p=0.05), repetition, eager) == []


@pytest.mark.repeat(1, 10)
@pytest.mark.parametrize("mistake", sorted(MISTAKES.keys() - {SHARED_ID}))
def test_each_mistake_that_shows_is_found(mistake: str, repetition: int) -> None:
    turns = 600 if mistake == NOT_FENCED else 200
    assert anomalies(Options(mistake=mistake, abort_p=0.05), repetition, turns=turns)


def test_a_seed_is_one_run() -> None:
    one, two, other = (files(simulate(Options(), seed, turns=50)) for seed in (1, 1, 2))
    assert one == two != other
    assert {"pipeline/pipeline.json", "pipeline/read-0.jsonl", "events/instance-0.jsonl"} <= one.keys()
