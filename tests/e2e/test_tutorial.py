"""The chapters of the tutorial: every command with a stated result has that result.

A comment before a command states the expected result; it is not visible on the page:
`<!-- exit 1, shows lost-write, never duplicate -->`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.harness_command import Ran, harness, run
from tests.e2e.shrunk_run import quickly_shown_by_few, shown_by_few

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ("docs/start/tutorial.md",)
PROMISE = re.compile(r"^<!-- exit (\d)((?:, (?:shows|never) [\w-]+)*) -->\n\n    (harness run .*)$", re.M)

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(400)]


@dataclass(frozen=True)
class Step:
    """A command, and the result that a chapter states for it."""

    chapter: str
    command: str
    code: int
    shows: frozenset[str]
    never: frozenset[str]


def steps(chapters: Sequence[str] = CHAPTERS) -> list[Step]:
    found = []
    for chapter in chapters:
        for code, words, command in PROMISE.findall((ROOT / chapter).read_text()):
            shows = frozenset(re.findall(r"shows ([\w-]+)", words))
            found.append(Step(chapter, command, int(code), shows, frozenset(re.findall(r"never ([\w-]+)", words))))
    return found


def the_brokers_tell_why_a_record_was_lost(ran: Ran) -> None:
    explained = harness("explain", str(ran.folder), "lost-write", "--json")
    assert explained.returncode == 0, explained.stderr
    explanation = json.loads(explained.stdout)
    assert any(fault["fault"] == "isolate:leader" for fault in explanation["faults"])
    key = explanation["witness"]["key"]
    partition = f"{ran.folder.name}-{key // 4}-{key % 4}"
    logs = explanation["logs"]
    assert any(partition in line["text"] and "runcating" in line["text"] for line in logs), logs
    assert all(0 <= line["time_ns"] <= 120e9 for line in logs)
    assert (ran.folder / "orders" / f"key-{key}.html").is_file()
    assert ran.result["promised"] is False
    shown_by_few(ran.folder, "lost-write", 6)


def a_late_end_of_a_transaction_is_found(ran: Ran) -> None:
    """KAFKA-17754, with the current client and broker; the plan is that of the experiment."""
    cleared = [op["value"] for op in ran.nemesis if op["f"] == "wire-clear" and "rules" in (op["value"] or {})]
    assert any(value["took_effect"] and value["rules"][0]["released"] > 0 for value in cleared), cleared
    quickly_shown_by_few(ran.folder, "torn-transaction", 8)


# Further checks of a chapter's run.
FURTHER: dict[str, Callable[[Ran], None]] = {
    "harness run --nemesis leader-isolate --acks 1 --time-limit 40": the_brokers_tell_why_a_record_was_lost,
    "harness run --txn --acks all --abort-p 0.3 --nemesis wire:late-endtxn --nemesis-first 2 --time-limit 20": (
        a_late_end_of_a_transaction_is_found
    ),
}


def test_every_chapter_promises_something() -> None:
    assert {step.chapter for step in steps()} == set(CHAPTERS)
    assert len(steps()) == 6
    assert set(FURTHER) < {step.command for step in steps()}


@pytest.mark.parametrize("step", steps(), ids=lambda step: step.command)
def test_a_chapter_keeps_its_word(step: Step, tmp_path: Path) -> None:
    ran = run(tmp_path, *shlex.split(step.command)[2:])
    assert ran.code == step.code, ran.out + ran.err
    assert step.shows <= ran.anomalies
    assert not step.never & ran.anomalies
    if step.command in FURTHER:
        FURTHER[step.command](ran)
