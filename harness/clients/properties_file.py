"""Reads a file of client properties, such as that of `--client-config`.

Each line is either `key=value` or a comment that starts with #. `${NAME}` is replaced by the value of the environment
variable NAME.
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
    """Returns property -> value from a file, with environment variables replaced.

    Raises BadInput for an invalid file. The message names the file and the line, but never contains a value.

    check  called as `check(name, where)`; raises BadInput for a property that is not allowed
    """
    found: dict[str, str] = {}
    for number, line in enumerate(_text(path).splitlines(), start=1):
        where = f"--client-config {path}:{number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name:
            raise BadInput(f"{where}: not of the form key=value")
        if name in found:
            raise BadInput(f"{where}: {name} is given twice")
        check(name, where)
        found[name] = _filled(value, where, environment)
    return found


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(f"--client-config {path}: cannot be read ({error.strerror})") from None
    if len(raw) > BYTES_MAX:
        raise BadInput(f"--client-config {path}: the file has {len(raw)} bytes; at most {BYTES_MAX} are allowed")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadInput(f"--client-config {path}: not UTF-8 text; write one key=value per line") from None


def _filled(value: str, where: str, environment: Mapping[str, str]) -> str:
    def variable(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise BadInput(f"{where}: the environment variable {match[1]} is not set; set it, and try again")
        return environment[match[1]]

    return _VARIABLE.sub(variable, value)
