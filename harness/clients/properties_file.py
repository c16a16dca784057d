"""A file of client properties, as `--client-config` takes it.

One `key=value` a line; a line that begins with # is a comment; `${NAME}` is a variable of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.model.errors_and_exit_codes import BadInput

BYTES_MAX: Final = 1 << 20
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")


def load(path: Path, environment: Mapping[str, str], check: Callable[[str, str], None]) -> dict[str, str]:
    """The properties in a file, variables filled in.

    `check(name, where)` refuses a name by raising. Raises BadInput with file and line, and no value.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(_text(path).splitlines(), start=1):
        where = f"--client-config {path}:{number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise BadInput(f"{where}: write it as key=value")
        if name in found:
            raise BadInput(f"{where}: {name} stands twice")
        check(name, where)
        found[name] = _filled(value, where, environment)
    return found


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(f"--client-config {path}: cannot be read ({error.strerror})") from None
    if len(raw) > BYTES_MAX:
        raise BadInput(f"--client-config {path}: {len(raw)} bytes; at most {BYTES_MAX}")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadInput(f"--client-config {path}: not UTF-8 text: write key=value, one a line") from None


def _filled(value: str, where: str, environment: Mapping[str, str]) -> str:
    def variable(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise BadInput(f"{where}: the environment has no {match[1]}: set it, and try again")
        return environment[match[1]]

    return _VARIABLE.sub(variable, value)
