"""Client programs are built when their sources are newer than the last build that succeeded."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.clients.exec import examples
from harness.clients.exec.examples import Example
from harness.model.errors_and_exit_codes import BadInput, HarnessError, Missing
from harness.run import build_client

BUILD = "sh build.sh"
SCRIPT = "mkdir -p build && echo built >> build/log && touch build/program"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(examples, "FOLDER", tmp_path)
    folder = tmp_path / "mine"
    (folder / "source").mkdir(parents=True)
    (tmp_path / "go-lines").mkdir()
    for path in (folder / "source" / "main", tmp_path / "go-lines" / "lines", folder / "build.sh"):
        path.write_text(SCRIPT)
        aged(path, 3600)
    (folder / "client.yaml").write_text(
        f"library: mine\nlanguage: Shell\nbuild: {BUILD}\noutput: build/program\n"
        "command: $FOLDER/build/program --x 'a b'\n"
    )
    found = examples.find("mine")
    assert found is not None
    return found


def aged(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def built(example: Example) -> int:
    """Builds, and returns how often it was built so far."""
    build_client.build(example, lambda text: None)
    return (example.folder / "build" / "log").read_text().count("built")


def test_a_name_stands_for_the_command(example: Example, tmp_path: Path) -> None:
    text, found = build_client.resolved("confluent, mine,mine")
    command = f"exec:{tmp_path}/mine/build/program --x 'a b'"
    assert text == f"confluent,{command},{command}" and [each.name for each in found] == ["mine"]


def test_it_is_built_once_for_each_change(example: Example) -> None:
    assert [built(example), built(example)] == [1, 1]
    (example.folder / "source" / "main").write_text("changed")
    aged(example.folder / "source" / "main", -60)
    assert built(example) == 2
    aged(example.folder / "source" / "main", 3600)
    assert built(example) == 2
    aged(example.folder.parent / "go-lines" / "lines", -60)
    assert built(example) == 3
    aged(example.folder.parent / "go-lines" / "lines", 3600)
    example.output.unlink()
    assert built(example) == 4


def test_a_failed_build_shows_what_it_printed_and_is_repeated(example: Example) -> None:
    (example.folder / "build.sh").write_text("mkdir -p build; touch build/program; echo error: no such thing; exit 3")
    for _ in range(2):
        with pytest.raises(Missing, match=r"error: no such thing\n.*`sh build.sh` failed"):
            build_client.build(example, lambda text: None)
    (example.folder / "build.sh").write_text(SCRIPT)
    assert built(example) == 1


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        ("no-such-compiler -o x", Missing, "--client mine is written in Shell, and `no-such-compiler`"),
        ("echo", BadInput, "`echo` made no program"),
    ],
)
def test_a_build_that_cannot_succeed(example: Example, build: str, error: type[HarnessError], message: str) -> None:
    path = example.folder / "client.yaml"
    path.write_text(path.read_text().replace(BUILD, build))
    with pytest.raises(error, match=message):
        build_client.build(examples.read(example.folder), lambda text: None)
