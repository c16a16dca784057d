"""The client programs in examples/clients. Their folder names are valid values of `--client`.

The file `client.yaml` in each folder has the commands that build and start the program. A checkout of the project has
these folders, an installed package does not.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Example:
    """A client program in examples/clients.

    build    shell command that builds the program, executed in its folder
    output   file or folder that exists once the program is built
    client   "exec:" and the command that starts the program
    fails    name of a case of `harness client check` that the library is known to fail -> why it fails, in a sentence
    """

    name: str
    folder: Path
    library: str
    language: str
    build: str
    output: Path
    client: str
    fails: Mapping[str, str]


def find(name: str) -> Example | None:
    """Returns the program with this name, or None if no program has it.

    Raises BadInput if the program exists, but the installed package does not contain its sources.
    """
    if "/" in name or name.startswith("."):
        return None
    folder = FOLDER / name
    if (folder / DESCRIPTION).exists():
        return read(folder)
    if name in NAMES:
        raise BadInput(
            f"{name} is a client program of examples/clients, which is in a checkout of the project and not in an "
            f"installed package: get its sources, build it, and give {PREFIX}COMMAND"
        )
    return None


def read(folder: Path) -> Example:
    """Returns the program in a folder. Raises BadInput if its client.yaml is invalid."""
    path = folder / DESCRIPTION
    data = load(path, "a client program").data
    fails = data.get("fails") or {}
    missing = [name for name in TEXTS if not isinstance(data.get(name), str)]
    if missing:
        raise BadInput(f"{path}: {missing[0]} is missing, or is not text")
    if not isinstance(fails, dict) or not all(isinstance(text, str) for pair in fails.items() for text in pair):
        raise BadInput(f"{path}: `fails` maps names of cases to sentences")
    words = [word.replace("$FOLDER", str(folder)) for word in shlex.split(data["command"])]
    return Example(
        folder.name,
        folder,
        data["library"],
        data["language"],
        data["build"],
        folder / data["output"],
        PREFIX + shlex.join(words),
        fails,
    )
