"""The page about your own application: its code is that of the example, and its commands have the stated results.

A comment before a command states the expected result, as in the tutorial (tests.e2e.test_tutorial).
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.harness_command import run
from tests.e2e.test_tutorial import Step, steps

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/start/your-application.md"
EXAMPLES = ROOT / "examples" / "apps" / "python"


def blocks() -> list[str]:
    """The indented blocks of the page, without their indentation."""
    text = (ROOT / PAGE).read_text()
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", text, re.M)
    return ["\n".join(line.removeprefix("    ") for line in block.splitlines()) for block in found]


def example(first_line: str) -> str:
    (block,) = [block for block in blocks() if block.startswith(first_line)]
    return block


def lines(text: str) -> list[str]:
    """The lines without indentation and comments."""
    return [line.partition("  #")[0].strip() for line in text.splitlines() if not line.startswith("#") and line.strip()]


def test_the_description_is_that_of_the_example() -> None:
    assert lines(example("command:")) == lines((EXAMPLES / "loses.yaml").read_text())


@pytest.mark.parametrize(
    ("first_line", "file"),
    [
        ("consumer.commit(", "loses.py"),
        ("producer.begin_transaction()", "exactly_once.py"),
        ("output: {id: {json: order}}", "counts.yaml"),
    ],
)
def test_the_code_is_that_of_the_examples(first_line: str, file: str) -> None:
    of_file = lines((EXAMPLES / file).read_text())
    for line in lines(example(first_line)):
        assert line in of_file


def test_every_run_of_the_page_has_a_stated_result() -> None:
    commands = [block.splitlines()[0] for block in blocks() if block.startswith("harness run")]
    assert [step.command for step in steps((PAGE,))] == commands
    assert len(commands) == 4
    for command in commands:
        assert (ROOT / command.split()[command.split().index("--app") + 1]).is_file()


@pytest.mark.cluster
@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", steps((PAGE,)), ids=lambda step: step.command.split()[5].split("/")[-1])
def test_the_page_keeps_its_word(step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    user = ("--client-user", "root") if os.geteuid() == 0 else ()  # nobody may not be able to read the sources
    ran = run(tmp_path, *shlex.split(step.command)[2:], *user, timeout_s=600, spark_master="local[2]")
    assert ran.code == step.code, ran.out + ran.err
    assert step.shows <= ran.anomalies
    assert not step.never & ran.anomalies
