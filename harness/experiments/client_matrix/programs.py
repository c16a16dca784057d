"""Builds the client programs of examples/clients, and asks each for its library, version and capabilities."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import yaml_data
from harness.clients.exec.adapter import greet
from harness.clients.exec.command import PREFIX
from harness.model.errors_and_exit_codes import BadInput

Say = Callable[[str], None]
FOLDER: Final = Path(__file__).resolve().parents[3] / "examples" / "clients"
FILE: Final = "client.yaml"
BUILD_S: Final = 1800.0
OUTPUTS: Final = ("build", "node_modules", "target")
COMPILERS: Final[Mapping[str, str]] = {
    "Go": "go",
    "Rust": "cargo",
    "JavaScript": "npm",
    "Java": "mvn",
    "Python": "python3",
}


@dataclass(frozen=True, slots=True)
class Program:
    """A client program that is built. client: as in `--client`; the rest is its answer to `hello`."""

    name: str
    client: str
    library: str
    version: str
    capabilities: tuple[str, ...]


def names(text: str, folder: Path = FOLDER) -> list[str]:
    """The client programs in a comma-separated list of folders; all of them if it is empty. Raises BadInput."""
    found = sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))
    if not found:
        raise BadInput(f"{folder} has no client programs: run client-matrix from a checkout of the project")
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    for name in chosen:
        if name not in found:
            raise BadInput(f"--case {name}: {yaml_data.did_you_mean(name, found)}the libraries are {', '.join(found)}")
    return chosen or found


def prepare(
    chosen: Sequence[str], user: str, say: Say, folder: Path = FOLDER
) -> tuple[dict[str, Program], dict[str, str]]:
    """(the programs that can run, and for the others the reason), by name.

    user  name of the user that the programs run as, if this process runs as root
    """
    ready, failed = {}, {}
    for name in chosen:
        try:
            ready[name] = _prepared(folder / name, user, say)
        except BadInput as error:
            failed[name] = str(error)
            say(f"{name} does not take part: {error}")
    return ready, failed


def _prepared(folder: Path, user: str, say: Say) -> Program:
    facts: Mapping[str, Any] = yaml_data.load(folder / FILE, "a client program").data
    if not _up_to_date(folder):
        say(f"building {folder.name}: {facts['build']}")
        _build(folder, facts)
    script = f"cd {shlex.quote(str(folder))} && exec {facts['command']}"
    client = f"{PREFIX}sh -c {shlex.quote(script)}"
    answer = greet(client, (), user)
    return Program(folder.name, client, answer["library"], answer["version"], tuple(answer["capabilities"]))


def _up_to_date(folder: Path) -> bool:
    """Whether an output of the build is newer than all sources, including those that programs share."""
    outputs = [folder / name for name in OUTPUTS if (folder / name).exists()]
    shared = [path for path in folder.parent.iterdir() if path.is_dir() and not (path / FILE).exists()]
    sources = [
        path
        for root in (folder, *shared)
        for path in root.rglob("*")
        if path.is_file() and not set(path.relative_to(root).parts) & set(OUTPUTS)
    ]
    built = max((path.stat().st_mtime for path in outputs), default=0.0)
    return built > max(path.stat().st_mtime for path in sources)


def _build(folder: Path, facts: Mapping[str, Any]) -> None:
    """Runs the build command. Raises BadInput with the last lines of its output."""
    try:
        done = subprocess.run(
            ["sh", "-c", facts["build"]], cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise BadInput(f"the build did not end within {BUILD_S:.0f} s: {facts['build']}") from None
    if done.returncode:
        last = " ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-3:])
        compiler = COMPILERS.get(facts["language"], "")
        hint = f"; is {compiler} installed?" if done.returncode == 127 else ""
        raise BadInput(f"the build failed ({facts['build']}): {last[:500]}{hint}")
