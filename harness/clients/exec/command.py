"""Parses the command of a client program in `--client exec:COMMAND`."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Final

from harness.model.errors_and_exit_codes import BadInput

PREFIX: Final = "exec:"


def argv(client: str) -> list[str]:
    """Returns the words of the command in `exec:COMMAND`, split as a shell does. The program is an absolute path.

    Raises BadInput if the command is empty, has an unclosed quotation mark, or names no executable file.
    """
    text = client.removeprefix(PREFIX)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"--client {client}: the command cannot be split into words: {error}") from None
    if not words:
        raise BadInput(f"--client {client}: write the command after `{PREFIX}`, such as {PREFIX}./my-client")
    program = shutil.which(words[0])
    if program is None:
        where = Path(words[0]).absolute() if "/" in words[0] else "PATH"
        raise BadInput(f"--client {client}: {words[0]} is not an executable file ({where}): build it, or give its path")
    return [str(Path(program).absolute()), *words[1:]]
