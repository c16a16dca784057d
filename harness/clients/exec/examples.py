"""The client programs of examples/clients, which `--client` accepts by the names of their folders.

`client.yaml` describes one: the commands that build and start it. It is in a checkout of the project, not in an
installed package.
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
    """A client program that the project has the sources of.

    build    shell command that builds it, executed in its folder
    output   file or folder that exists when it is built
    client   "exec:" with the command that starts it
    fails    cases of `harness client check` that its library is known to fail -> why, in a sentence
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
    """Returns the program with this name; None if there is none. Raises BadInput if its sources are not here."""
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
    """Returns the program in a folder. Raises BadInput for a wrong client.yaml."""
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
