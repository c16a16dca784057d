"""A file of properties for Kafka's Java client: how to connect, with its secrets.

One `key=value` a line; a line that begins with # is a comment; `${NAME}` is a variable of the environment.
Names: https://kafka.apache.org/documentation/#consumerconfigs
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.clients.connection import BYTES_MAX
from harness.model.errors import BadInput

# What Spark's source sets itself, and refuses or must not be told.
OWNED: Final = frozenset(
    ["bootstrap.servers", "group.id", "auto.offset.reset", "enable.auto.commit", "isolation.level",
     "key.deserializer", "value.deserializer", "interceptor.classes"]
)  # fmt: skip
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")


def load(path: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The properties in a file, variables filled in. Raises BadInput with file and line, and no value."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise BadInput(f"--client-config {path}: cannot be read ({why})") from None
    if len(text) > BYTES_MAX:
        raise BadInput(f"--client-config {path}: more than {BYTES_MAX} bytes")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"--client-config {path}:{number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise BadInput(f"{where}: write it as key=value")
        if name in OWNED:
            raise BadInput(f"{where}: {name} is set by the harness; leave it out")
        for variable in _VARIABLE.findall(value):
            if variable not in environment:
                raise BadInput(f"{where}: the environment has no {variable}: set it, and try again")
        found[name] = _VARIABLE.sub(lambda match: environment[match[1]], value)
    return found
