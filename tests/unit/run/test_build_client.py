"""Client programs are built when their sources are newer than the last build that succeeded."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.clients.exec import examples
from harness.clients.exec.examples import Example
from harness.model.errors_and_exit_codes import BadInput, HarnessError, Missing
from harness.plan import make_plan
from harness.run import allowed_commands, build_client

BUILD = "sh build.sh"
SCRIPT = "mkdir -p build && echo built >> build/log && touch build/program"


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder whose path must be quoted in a command."""
    folder = tmp_path / "a b"
    folder.mkdir()
    return folder


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
    plan = make_plan.make({"client": ["confluent", "mine", "mine"]})
    command = f"exec:'{tmp_path}/mine/build/program' --x 'a b'"
    assert plan.client == ("confluent", command, command)
    build_client.build_all(plan.client, lambda text: None)
    assert (example.folder / "build" / "log").read_text() == "built\n"


def test_the_projects_own_programs_need_no_permission(example: Example) -> None:
    others = (f"exec:'{example.folder}/other'", f"{example.client} --y", "exec:true", "exec:un'closed")
    plan = make_plan.make({"client": ["confluent", "mine", *others]})
    assert allowed_commands.commands_of(plan) == list(others)


def test_another_version_is_built_in_a_copy(example: Example, tmp_path: Path) -> None:
    path = example.folder / "client.yaml"
    assert built(example) == 1
    with pytest.raises(BadInput, match=r"client\.yaml: `build_version` is missing"):
        examples.find("mine@1.2.3")
    path.write_text(path.read_text() + "build_version: echo $VERSION > version && sh build.sh\n")
    found = examples.find("mine@1.2.3")
    assert found is not None and found.client == f"exec:'{tmp_path}/mine@1.2.3/build/program' --x 'a b'"
    assert [built(found), built(found)] == [1, 1]
    assert (tmp_path / "mine@1.2.3" / "version").read_text() == "1.2.3\n" and not (example.folder / "version").exists()
    assert examples.of(found.client) == found
    aged(example.folder / "source" / "main", -60)
    assert built(found) == 1  # a new copy
    for wrong in ("mine@", "mine@../x", "mine@$(id)", "mine@latest"):
        with pytest.raises(BadInput, match=r"write a version after the @, such as mine@1\.2\.3"):
            examples.find(wrong)
    assert examples.find("other@1.2.3") is None


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
