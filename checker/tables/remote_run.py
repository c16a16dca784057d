"""A run in an object store that is checked without a common file system: tasks read from the store and write to it.

Tasks get paths that are URIs, such as `Path("s3://bucket/runs/ID/tables")`. `local` copies what a task needs from there
to a folder of its executor, and compares size and CRC-32 of each file. `written` uploads what a task made.

A task may be executed twice, because an executor was lost or is slow. So every attempt writes under names of its own
(`attempt`), and only the names that the accepted attempt returned enter the list of files (`RemoteRun.files`), which
the tasks of the next job get. At the end of the check, the manifest of the run makes them visible to others, all at
once.

Without Spark, the tasks run in this process, and everything works in the same way.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

from checker.spark.map_tasks import spread as spread_tasks
from checker.tables.make_tables import DamagedTables
from checker.tables.storage import Store, in_parallel, open_store, uri_of
from harness.model.errors_and_exit_codes import BadInput, HarnessError

TABLES: Final = "tables"
_COPYING: Final = ".parts-copied"  # folder for unfinished copies and locks
_WORK: Final = ".work"  # folder in the run for copies that only the tasks of one check read

Item = TypeVar("Item")
T = TypeVar("T")


class Entry(NamedTuple):
    """A file of a run: its size in bytes, its CRC-32 (None: unknown), and its object's name, relative to the run."""

    size: int
    crc: int | None
    object: str


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run at a URI.

    files  the files that tasks may read, by name
    token  a random text in the names of all objects that this check makes
    """

    uri: str
    files: dict[str, Entry]
    token: str = field(default_factory=lambda: uuid4().hex[:12])

    @property
    def tables(self) -> Path:
        """The URI of the tables, as a path."""
        return Path(self.uri) / TABLES

    def below(self, folder: str) -> list[str]:
        """Returns the names of the files in a folder, sorted."""
        return sorted(name for name in self.files if name.startswith(f"{folder}/"))

    def paths(self, folder: str) -> list[Path]:
        """Returns the URIs of the files in a folder, sorted, as paths."""
        return [Path(self.uri) / name for name in self.below(folder)]

    def share(self, folder: Path, names: Sequence[str]) -> None:
        """Uploads files of the driver's copy of the run, for the tasks of this check only. Raises Missing."""
        store = _store(self.uri)

        def one(name: str) -> Entry:
            file, target = folder / name, f"{_WORK}/{self.token}/{name}"
            size = file.stat().st_size
            return Entry(size, store.upload(file, target, size), target)

        self.files.update(zip(names, in_parallel(one, names), strict=True))

    def made(self, folder: str) -> dict[str, Entry]:
        """Returns the files in a folder that tasks of this check made for others, which are at their final names."""
        found = ((name, self.files[name]) for name in self.below(folder) if "/." not in name)
        return {name: entry for name, entry in found if self.token in name and entry.object == name}

    def clean(self, kept: Mapping[str, object]) -> None:
        """Removes the objects in the store that this check made, except those named in `kept`. Raises Missing."""
        store = _store(self.uri)
        store.remove([name for name in store.sizes() if self.token in name and name not in kept])


@dataclass(slots=True)
class _Here:
    """What this process works on: a run, the folder for copies, and the files that the current attempt made."""

    run: RemoteRun
    folder: Path
    attempt: str = ""
    made: dict[str, Entry] = field(default_factory=dict)


_here: list[_Here] = []  # at most one


@lru_cache(maxsize=4)
def _store(uri: str) -> Store:
    return open_store(uri)


@contextmanager
def using(run: RemoteRun, folder: Path) -> Iterator[None]:
    """Makes a run readable in this process. `folder` gets the copies of files."""
    before = [*_here]
    _here[:] = [_Here(run, folder)]
    try:
        yield
    finally:
        _here[:] = before


def attempt() -> str:
    """Returns a text for the names of the files that the current attempt at a task writes; empty for a local run."""
    return _here[0].attempt if _here else ""


def stamp(folder: Path) -> int | None:
    """Returns a number that differs between checks, for a URI; None for a local path."""
    return int(_here[0].run.token, 16) if uri_of(folder) is not None else None


def local(path: Path) -> Path:
    """Returns a local copy of a file at a URI; a local path itself.

    Raises DamagedTables if a file of the tables is not the one in the list of the run's files, BadInput for another
    file, and Missing if the store cannot be used.
    """
    uri = uri_of(path)
    return path if uri is None else _copied(_here[0], _name(uri))


def exists(path: Path) -> bool:
    """Returns whether there is a file at a path, or in the list of the run's files if it is a URI."""
    uri = uri_of(path)
    return path.exists() if uri is None else _name(uri) in _here[0].run.files


def local_files(folder: Path, pattern: str = "*.parquet") -> list[Path]:
    """Returns local copies of the files in a folder whose names match, sorted by name. Raises the errors of `local`."""
    uri = uri_of(folder)
    if uri is None:
        return sorted(folder.glob(pattern))
    here = _here[0]
    names = [name for name in here.run.below(_name(uri)) if PurePosixPath(name).match(pattern)]
    return in_parallel(partial(_copied, here), names)


def _name(uri: str) -> str:
    """Returns the name of a file, relative to the run."""
    return uri.removeprefix(_here[0].run.uri).strip("/")


def _copied(here: _Here, name: str) -> Path:
    """Returns the path of the copy of a file, and copies it unless this executor has it already."""
    entry = here.run.files.get(name)
    if entry is None:
        raise _changed(here.run.uri, name, "it is missing")
    target = here.folder / name
    if _same(target, entry):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    working = here.folder / _COPYING
    working.mkdir(exist_ok=True)
    unique = name.replace("/", "+")
    with (working / f"{unique}.lock").open("w") as lock:  # tasks of one executor share the folder
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _same(target, entry):
            part = working / unique
            size, crc = _store(here.run.uri).download(entry.object, part)
            if size != entry.size or entry.crc not in (None, crc):
                part.unlink()
                raise _changed(here.run.uri, name, "its content is wrong")
            part.replace(target)
    return target


def _same(file: Path, entry: Entry) -> bool:
    return file.is_file() and file.stat().st_size == entry.size


def _changed(uri: str, name: str, problem: str) -> HarnessError:
    if name.startswith(f"{TABLES}/"):
        return DamagedTables(f"{uri}/{name}: {problem}; run the check again")
    return BadInput(
        f"{uri}/{name}: {problem}, so the upload is incomplete or was changed; upload the run again: "
        f"harness upload RUN {uri}"
    )


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yields the folder to write to instead of `path`. For a URI, its files are uploaded at the end.

    The names of the files must contain `attempt()`. Raises Missing if the store cannot be used.
    """
    uri = uri_of(path)
    if uri is None:
        yield path
        return
    here = _here[0]
    here.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".parts-", dir=here.folder))
    try:
        yield folder
        below = _name(uri)
        files = [file for file in folder.rglob("*") if file.is_file()]
        names = [f"{below}/{file.relative_to(folder).as_posix()}" for file in files]
        store = _store(here.run.uri)

        def one(pair: tuple[Path, str]) -> Entry:
            file, name = pair
            size = file.stat().st_size
            return Entry(size, store.upload(file, name, size), name)

        here.made.update(zip(names, in_parallel(one, [*zip(files, names, strict=True)]), strict=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def spread(spark: object, run: RemoteRun | None, task: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """Runs a task on every item, like `checker.spark.map_tasks.spread`; its paths may be those of a run at a URI.

    The files that the tasks made are readable afterwards.
    """
    if run is None:
        return spread_tasks(spark, task, items)
    answers = spread_tasks(spark, partial(_attempt, run=run, task=task), items)
    for _, made in answers:
        run.files.update(made)
    return [answer for answer, _ in answers]


def _attempt(item: Item, run: RemoteRun, task: Callable[[Item], T]) -> tuple[T, dict[str, Entry]]:
    """Runs a task. Returns its answer and the files that it made."""
    here_already = bool(_here) and _here[0].run.token == run.token
    folder = _here[0].folder if here_already else _executor_folder(run.token)
    with using(run, folder):
        here = _here[0]
        here.attempt = f"-{run.token}-{uuid4().hex[:8]}"
        try:
            return task(item), here.made
        except HarnessError as error:
            raise type(error)(str(error).replace(str(folder), run.uri)) from None


def _executor_folder(token: str) -> Path:
    """Returns the folder for copies in the executor's own temporary folder, which Spark removes with the executor."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return Path(folders[0] or tempfile.gettempdir()) / f"harness-{token}"
