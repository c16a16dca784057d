"""Builds the client programs of examples/clients, and asks each for its library, version and capabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness import yaml_data
from harness.clients.exec import examples
from harness.clients.exec.adapter import greet
from harness.model.errors_and_exit_codes import BadInput, Missing
from harness.run import build_client

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Program:
    """A client program that has been built.

    client  the value of the field `client` in plans that use the program

    The library, its version and its capabilities are the program's answer to `hello`.
    """

    name: str
    client: str
    library: str
    version: str
    capabilities: tuple[str, ...]


def names(text: str) -> list[str]:
    """Returns the names in a comma-separated list of client programs; the names of all client programs if it is empty.

    Raises BadInput for an unknown name.
    """
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    for name in chosen:
        if name not in examples.NAMES:
            hint = yaml_data.did_you_mean(name, list(examples.NAMES))
            raise BadInput(f"--case {name}: no such library; {hint}choose from {', '.join(examples.NAMES)}")
    return chosen or list(examples.NAMES)


def prepare(chosen: Sequence[str], user: str, say: Say) -> tuple[dict[str, Program], dict[str, str]]:
    """Builds and starts the chosen programs.

    Returns two mappings: name -> program that can be used, and name -> why a program cannot be used.

    user  name of the user that the programs run as, if this process runs as root
    """
    ready, failed = {}, {}
    for name in chosen:
        try:
            ready[name] = _prepared(name, user, say)
        except (BadInput, Missing) as error:
            failed[name] = str(error)
            say(f"{name} does not take part: {error}")
    return ready, failed


def _prepared(name: str, user: str, say: Say) -> Program:
    example = examples.find(name)
    if example is None:
        raise BadInput(f"{examples.FOLDER} has no program {name}")
    build_client.build(example, say)
    answer = greet(example.client, (), user)
    return Program(name, example.client, answer["library"], answer["version"], tuple(answer["capabilities"]))
