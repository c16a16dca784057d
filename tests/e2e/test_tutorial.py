"""The tutorial's chapters: every command that is followed by a result gives that result.

A comment before a command says what must come of it, in words that readers of the page do not see:
`<!-- exit 1, shows lost-write, never duplicate -->`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.harness_command import run

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ("docs/tutorial-1.md", "docs/tutorial-2.md")
PROMISE = re.compile(r"^<!-- exit (\d)((?:, (?:shows|never) [\w-]+)*) -->\n\n    (harness run .*)$", re.M)

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@dataclass(frozen=True)
class Step:
    """A command, and what a chapter promises of it."""

    chapter: str
    command: str
    code: int
    shows: frozenset[str]
    never: frozenset[str]


def steps() -> list[Step]:
    found = []
    for chapter in CHAPTERS:
        for code, words, command in PROMISE.findall((ROOT / chapter).read_text()):
            shows = frozenset(re.findall(r"shows ([\w-]+)", words))
            found.append(Step(chapter, command, int(code), shows, frozenset(re.findall(r"never ([\w-]+)", words))))
    return found


def test_every_chapter_promises_something() -> None:
    assert {step.chapter for step in steps()} == set(CHAPTERS)
    assert len(steps()) == 6


@pytest.mark.parametrize("step", steps(), ids=lambda step: step.command)
def test_a_chapter_keeps_its_word(step: Step, tmp_path: Path) -> None:
    ran = run(tmp_path, *shlex.split(step.command)[2:])
    assert ran.code == step.code, ran.out + ran.err
    assert step.shows <= ran.anomalies
    assert not step.never & ran.anomalies
