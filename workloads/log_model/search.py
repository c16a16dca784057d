"""Searches the topics drawn from a seed for a divergence, and measures how quickly bugs are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from harness.sim.log_model.action_types import Action
from harness.sim.log_model.actions_as_text import program
from harness.sim.log_model.records import LogSettings
from workloads.log_model.draw_actions import WEIGHTS, topics
from workloads.log_model.session import Divergence, Open, run, simulated
from workloads.log_model.shrink import Shrunk, shrink


@dataclass(frozen=True, slots=True)
class Found:
    """A divergence, and the shortest program found that shows it.

    The divergence is at step number `step` (from 1) of the actions drawn from `seed`.
    """

    seed: int
    step: int
    divergence: Divergence
    shrunk: Shrunk


@dataclass(frozen=True, slots=True)
class Detection:
    """How quickly a bug was found.

    seeds    the number of seeds tried
    steps    the step at which the bug was found, for each seed that found it
    lengths  the length of the shrunk program, for each seed that found the bug
    """

    bug: str
    seeds: int
    steps: tuple[int, ...]
    lengths: tuple[int, ...]


def replay(opened: Open, settings: LogSettings, actions: Sequence[Action]) -> Divergence | None:
    """Applies the actions to a fresh topic of the log under test and to the model.

    Returns the first divergence, or None.
    """
    return run(settings, actions, opened)


def search(seed: int, steps: int, opened: Open, weights: Mapping[str, int] = WEIGHTS) -> Found | None:
    """Draws topics from a seed, `steps` actions in all, and compares the log under test with the model.

    Returns the first divergence, with the shrunk program; None if there is none.
    """
    done = 0
    for topic in topics(seed, steps, weights):
        if (divergence := run(topic.settings, topic.actions, opened)) is not None:
            shrunk = shrink(partial(replay, opened), topic.settings, topic.actions)
            assert shrunk is not None, "replaying the list must show the divergence again"
            return Found(seed, done + divergence.at + 1, divergence, shrunk)
        done += len(topic.actions)
    return None


def detections(bugs: Sequence[str], seeds: Sequence[int], steps: int) -> Iterator[Detection]:
    """Searches for each bug with each seed, `steps` actions per seed. Yields how quickly each bug is found."""
    for bug in bugs:
        opened = simulated(frozenset({bug}))
        shrunk_runs = [one for seed in seeds if (one := search(seed, steps, opened)) is not None]
        lengths = tuple(len(one.shrunk.actions) for one in shrunk_runs)
        yield Detection(bug, len(seeds), tuple(one.step for one in shrunk_runs), lengths)


def text(found: Found, bugs: Sequence[str]) -> str:
    """Returns the shrunk program as text, with comments that name the seed, the divergence, and the
    bugs that are enabled.
    """
    last = found.shrunk.found
    lines = [f"# seed {found.seed}, step {found.step}: {last.what}", f"# {last.seen}"]
    if bugs:
        lines.append(f"# bugs: {','.join(bugs)}")
    return "\n".join([*lines, program(found.shrunk.settings, found.shrunk.actions)])
