"""Instances with an in-memory log: each mode keeps its guarantees, each bug shows."""

from __future__ import annotations

import pytest

from harness.model.randomness import Draw
from harness.model.transforms import TRANSFORMS, expected_count
from harness.pipeline_app import mistakes
from harness.pipeline_app.ports import Failed, Mark, Options
from tests.unit.pipeline_app.world import World, run

SEEDS = range(5)


def _judged(options: Options, seed: int) -> tuple[World, set[str]]:
    world, found = run(options, seed)
    wrong = set()
    for id in range(world.next_id):
        expected = expected_count(options.transform, id, id % world.partitions)
        if found[id] < expected:
            wrong.add("missing-output")
        if found[id] > expected:
            wrong.add("duplicate-output")
    assert world.next_id > 500
    return world, wrong


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_exactly_once(transform: str) -> None:
    options = Options(transform=transform, abort_p=0.1)
    for seed in SEEDS:
        world, wrong = _judged(options, seed)
        assert not wrong, f"seed {seed}"
        if transform != "aggregate":
            continue
        for key in range(world.partitions):
            counted = [n for _, made, n in world.out if made == key]
            assert counted == list(range(1, len(counted) + 1)), f"seed {seed} key {key}"


@pytest.mark.parametrize("name", mistakes.MISTAKES)
def test_each_mistake_shows(name: str) -> None:
    options, shows = Options(mistake=name, abort_p=0.05), mistakes.MISTAKES[name].shows
    found = [shows in _judged(options, seed)[1] for seed in SEEDS]
    # The last two need another instance: one that is running, or one that took over from a paused one.
    assert all(found) or (name in (mistakes.SHARED_ID, mistakes.NOT_FENCED) and sum(found) >= 3), found


@pytest.mark.parametrize(
    ("mode", "may"),
    [("at-least-once", "duplicate-output"), ("at-most-once", "missing-output")],
)
def test_weaker_modes(mode: str, may: str) -> None:
    """What the mode guarantees holds, and the anomaly that it permits occurs."""
    wrong = [_judged(Options(mode=mode), seed)[1] for seed in SEEDS]
    assert set().union(*wrong) == {may}


@pytest.mark.parametrize(
    ("name", "stage"),
    [(mistakes.BUFFER_DROPPED, "stream"), (mistakes.STALE_REQUESTS, "stream"), (mistakes.NO_REWIND, "flush")],
)
def test_the_self_check_says_at_which_stage(name: str, stage: str) -> None:
    world, _ = run(Options(mistake=name, abort_p=0.05), seed=1)
    lost = [one for member in world.members.values() for one in member.instance.lost()]
    assert {one["stage"] for one in lost} == {stage}
    world, _ = run(Options(abort_p=0.1), seed=1)
    assert not any(member.instance.lost() for member in world.members.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_flush_interval_no_record_waits_for_the_next_poll(seed: int) -> None:
    world, _ = run(Options(mode="at-least-once", flush_s=0), seed)
    assert "buffered" not in {event["event"] for event in world.events}
    assert "buffered" in {event["event"] for event in run(Options(mode="at-least-once"), seed)[0].events}


def test_metadata_of_a_committed_offset_that_is_not_ours_is_told_if_it_is_needed() -> None:
    """Without counts to restore, it may come from the library of another member."""
    marks = {("t", 0): Mark(3, "not ours"), ("t", 1): None}
    counting, other = (
        World(Options(transform=transform), partitions=2, slots=1, draw=Draw.of(1, "world", 0)).join(0).instance
        for transform in ("aggregate", "identity")
    )
    with pytest.raises(Failed, match=r"has not written.*t-0.*not ours"):
        counting.assigned(marks)
    assert other.assigned(marks) == {("t", 0): 3, ("t", 1): 0}
