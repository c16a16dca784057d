"""Builds the client programs of examples/clients when their build output is missing or older than their sources."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from harness.clients.exec import examples
from harness.clients.exec.examples import Example
from harness.cluster.distribution import combined_output, download_cache
from harness.model.errors_and_exit_codes import BadInput, Missing

BUILD_S: Final = 1800.0
BUILT: Final = ("build", "node_modules", "target")  # folders of build output
SHARED: Final = "*-lines"  # folders beside the programs, with code that several of them use


def build_all(clients: Iterable[str], say: Callable[[str], None]) -> None:
    """Builds those of the plan's clients that are programs of examples/clients. Raises BadInput, Missing."""
    for client in dict.fromkeys(clients):
        example = examples.of(client)
        if example is not None:
            build(example, say)


def build(example: Example, say: Callable[[str], None]) -> None:
    """Builds a program, unless it has been built already and its sources are unchanged.

    Raises Missing if its compiler is not installed or the build fails. In the second case the message contains the
    build's output.
    """
    if _fresh(example):
        return
    tool = shlex.split(example.build)[0]
    if shutil.which(tool) is None:
        raise Missing(
            f"--client {example.name} is written in {example.language}, and `{tool}`, which builds it, is not "
            f"installed: install it, or build the program elsewhere and use its command as exec:COMMAND"
        )
    mark = hashlib.sha256(str(example.folder).encode()).hexdigest()[:12]
    lock = download_cache.root() / "clients" / f"{example.name}-{mark}.lock"
    with download_cache.locked(lock, say, f"building {example.name}"):
        if not _fresh(example):
            say(f"building {example.name} ({example.language})")
            _build(example)


def _build(example: Example) -> None:
    environment = None
    if example.version:
        shutil.rmtree(example.folder, ignore_errors=True)
        shutil.copytree(example.sources, example.folder, ignore=shutil.ignore_patterns(*BUILT))
        environment = {**os.environ, "VERSION": example.version}
    try:
        done = combined_output.run(example.build, BUILD_S, cwd=example.folder, env=environment)
    except subprocess.TimeoutExpired:
        raise Missing(f"{example.folder}: `{example.build}` took longer than {BUILD_S:.0f} s, and was ended") from None
    if done.returncode:
        raise Missing(f"{done.stdout.rstrip()}\n{example.folder}: `{example.build}` failed, see above")
    if not example.output.exists():
        raise BadInput(f"{example.folder / examples.DESCRIPTION}: `{example.build}` made no {example.output.name}")
    stamp = _stamp(example)
    stamp.parent.mkdir(exist_ok=True)
    stamp.touch()


def _stamp(example: Example) -> Path:
    """Returns the path of an empty file that each successful build touches.

    The build's own output would not show when the last build succeeded: a compiler may leave it unchanged, or write a
    part of it and then fail.
    """
    return example.folder / "build" / ".built"


def _fresh(example: Example) -> bool:
    stamp = _stamp(example)
    if not stamp.exists() or not example.output.exists():
        return False
    built = stamp.stat().st_mtime
    folders = [example.sources, *example.sources.parent.glob(SHARED)]
    return all(path.stat().st_mtime <= built for folder in folders for path in _sources(folder))


def _sources(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and path.name not in BUILT:
            yield from _sources(path)
        elif path.is_file() and path.name != examples.DESCRIPTION:
            yield path
