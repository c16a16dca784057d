"""Parses the subset of the compose format that docker-compose.yml needs. Pure: text and variables in, services out.

An unknown field is an error, so that nothing in the file is silently ignored.
Source: https://docs.docker.com/reference/compose-file/interpolation/ and .../services/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from harness.model.errors_and_exit_codes import BadInput, Missing

FILE: Final = Path(__file__).with_name("docker-compose.yml")  # a link to the top-level file, so that wheels contain it
_FIELDS: Final = frozenset({"image", "hostname", "ports", "environment", "command"})
_REFERENCE: Final = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-?])(?P<rest>[^}]*))?\})"
)
_PORT: Final = re.compile(r"(?P<address>[\d.]+):(?P<outer>\d+):(?P<inner>\d+)")


@dataclass(frozen=True, slots=True)
class Port:
    """A port `inner` of a container, published at `address`:`outer` of this machine."""

    address: str
    outer: int
    inner: int


@dataclass(frozen=True, slots=True)
class Service:
    """A container to run. If `command` is empty, the image's own command is run."""

    name: str
    image: str
    hostname: str
    environment: Mapping[str, str]
    ports: tuple[Port, ...]
    command: tuple[str, ...] = ()


def load(variables: Mapping[str, str], path: Path = FILE) -> tuple[Service, ...]:
    """Returns the services of a compose file. Raises Missing if there is no such file, BadInput if it has errors."""
    try:
        text = path.read_text()
    except OSError as error:
        raise Missing(
            f"{path}, which describes the brokers of --cluster docker, cannot be read "
            f"({error.strerror}): run from a checkout of the project, installed with `make setup`"
        ) from None
    return parse(text, variables, str(path))


def parse(text: str, variables: Mapping[str, str], where: str) -> tuple[Service, ...]:
    """Returns the services that the text of a compose file describes.

    Raises BadInput with messages that start with `where`, the file's name.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        raise BadInput(f"{place}: not YAML ({getattr(error, 'problem', error)})") from None
    services = data.get("services") if isinstance(data, dict) else None
    if not isinstance(services, dict) or not services:
        raise BadInput(f"{where}: no services")
    return tuple(_service(name, row, variables, where) for name, row in services.items())


def with_environment(service: Service, more: Mapping[str, str]) -> Service:
    """Returns the service with additional environment variables, which override its own."""
    return replace(service, environment={**service.environment, **more})


def interpolate(text: str, variables: Mapping[str, str], where: str) -> str:
    """Returns `text` with $V, ${V}, ${V:-default}, ${V-default}, ${V:?why}, ${V?why}, $$ replaced. Raises BadInput."""

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name, how = match["name"] or match["bare"], match["how"] or ""
        found = variables.get(name)
        absent = not found if how.startswith(":") else found is None
        if absent and how.endswith("-"):
            return interpolate(match["rest"], variables, where)
        if absent and how.endswith("?"):
            raise BadInput(f"{where}: {name} must be set: {match['rest']}")
        return found or ""

    return _REFERENCE.sub(value, text)


def _service(name: str, row: Any, variables: Mapping[str, str], where: str) -> Service:
    place = f"{where}: service {name}"
    if not isinstance(row, dict) or not row.get("image"):
        raise BadInput(f"{place}: no image")
    unknown = sorted(set(row) - _FIELDS)
    if unknown:
        raise BadInput(f"{place}: unsupported fields: {', '.join(unknown)}; supported: {', '.join(sorted(_FIELDS))}")

    def text(value: Any) -> str:
        return interpolate(str(value), variables, place)

    settings = row.get("environment") or {}
    if not isinstance(settings, dict):
        raise BadInput(f"{place}: environment: write it as a mapping")
    return Service(
        name,
        text(row["image"]),
        text(row.get("hostname", name)),
        {str(key): text(value) for key, value in settings.items()},
        tuple(_port(text(one), place) for one in row.get("ports") or ()),
        tuple(text(word) for word in row.get("command") or ()),
    )


def _port(text: str, place: str) -> Port:
    found = _PORT.fullmatch(text)
    if not found:
        raise BadInput(f"{place}: port {text}: write it as ADDRESS:PORT:PORT")
    return Port(found["address"], int(found["outer"]), int(found["inner"]))
