"""The client programs in examples/clients. Their folder names are valid values of `--client`.

The file `client.yaml` in each folder has the commands that build and start the program. A checkout of the project has
these folders, an installed package does not.

NAME@VERSION is the program with another version of its library. It is built in a copy of its folder, which is beside it
and has this name, so that relative paths in its sources remain valid.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.clients.exec.command import PREFIX
from harness.model.errors_and_exit_codes import BadInput
from harness.yaml_data import load

FOLDER: Final = Path(__file__).resolve().parents[3] / "examples" / "clients"
DESCRIPTION: Final = "client.yaml"
NAMES: Final = (
    "confluent-kafka-go",
    "franz-go",
    "kafka-go",
    "kafka-java",
    "kafka-python",
    "kafkajs",
    "platformatic-kafka",
    "rdkafka",
    "rskafka",
    "sarama",
)
TEXTS: Final = ("library", "language", "build", "output", "command")
VERSIONED: Final = "build_version"  # optional: the command that builds the program with version $VERSION of its library
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+-]{0,40}")


@dataclass(frozen=True, slots=True)
class Example:
    """A client program in examples/clients.

    name     NAME or NAME@VERSION
    folder   where it is built
    sources  the folder with its sources; the same folder, unless there is a version
    build    shell command that builds the program, executed in its folder
    output   file or folder that exists once the program is built
    client   "exec:" and the command that starts the program
    fails    name of a case of `harness client check` that the library is known to fail -> why it fails, in a sentence
    """

    name: str
    folder: Path
    sources: Path
    library: str
    language: str
    build: str
    output: Path
    client: str
    fails: Mapping[str, str]

    @property
    def version(self) -> str:
        """The version of the library that the name asks for; empty: the version in the sources."""
        return self.name.partition("@")[2]


def find(name: str) -> Example | None:
    """Returns the program NAME or NAME@VERSION, or None if no program has this name.

    Raises BadInput if the program exists, but the installed package does not contain its sources, or if the program
    cannot be built with the version.
    """
    program, at, version = name.partition("@")
    if "/" in program or program.startswith("."):
        return None
    if (FOLDER / program / DESCRIPTION).exists():
        if at and not _VERSION.fullmatch(version):
            raise BadInput(f"--client {name}: write a version after the @, such as {program}@1.2.3")
        return read(FOLDER / program, version)
    if program in NAMES:
        raise BadInput(
            f"{program} is a client program of examples/clients, which is in a checkout of the project and not in an "
            f"installed package: get its sources, build it, and use {PREFIX}COMMAND"
        )
    return None


def of(client: str) -> Example | None:
    """Returns the program that a plan names "exec:COMMAND", or None if its command is not that of such a program."""
    prefix = f"{FOLDER}/"
    try:
        words = shlex.split(client.removeprefix(PREFIX))
    except ValueError:  # an unclosed quotation mark: see command.argv
        return None
    for word in words:
        if word.startswith(prefix):
            found = find(word.removeprefix(prefix).partition("/")[0])
            return found if found is not None and found.client == client else None
    return None


def is_foreign(client: str) -> bool:
    """Returns whether a client of a plan is a program that is not part of the project."""
    return client.startswith(PREFIX) and of(client) is None


def read(sources: Path, version: str = "") -> Example:
    """Returns the program in a folder, with a version of its library. Raises BadInput if client.yaml is invalid."""
    path = sources / DESCRIPTION
    data = load(path, "a client program").data
    fails = data.get("fails") or {}
    missing = [name for name in TEXTS if not isinstance(data.get(name), str)]
    if missing:
        raise BadInput(f"{path}: {missing[0]} is missing, or is not text")
    if not isinstance(fails, dict) or not all(isinstance(text, str) for pair in fails.items() for text in pair):
        raise BadInput(f"{path}: `fails` maps names of cases to sentences")
    if version and not isinstance(data.get(VERSIONED), str):
        raise BadInput(f"{path}: `{VERSIONED}` is missing, so the program cannot be built with another version")
    folder = sources.with_name(f"{sources.name}@{version}") if version else sources
    words = [word.replace("$FOLDER", str(folder)) for word in shlex.split(data["command"])]
    return Example(
        folder.name,
        folder,
        sources,
        data["library"],
        data["language"],
        data[VERSIONED] if version else data["build"],
        folder / data["output"],
        PREFIX + shlex.join(words),
        fails,
    )
