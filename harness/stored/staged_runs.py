"""Copies runs from an object store to a local folder, where every command reads them, and writes results back.

A command that is given `s3://bucket/runs/ID` works on a temporary copy of the files that it needs. Each file's size and
CRC-32 must be those of the run's manifest, so a damaged or half-uploaded run is an error, never a smaller history. The
copy is removed when the process ends. Messages name the URI in place of the copy: see `with_uris`.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from checker.tables import remote_run
from checker.tables.remote_run import TABLES, Entry, RemoteRun
from checker.tables.storage import UPLOAD, Store, in_parallel, open_store
from harness.model.errors_and_exit_codes import BadInput, HarnessError
from harness.stored import uploaded_run
from harness.stored.uploaded_run import DERIVED, Manifest, manifest_of

LATEST: Final = "latest"
DRAWN: Final = ("plots/", "orders/", "report.html")
BULKY: Final = ("history/", "tables/", "logs/", "cluster/", "data/")
READ_BY_TASKS: Final = ("history/", "tables/")
DRAWN_FROM_BYTES: Final = 2 << 30  # a cluster's driver draws no plots and no page of larger history and tables
ATTEMPTS: Final = 3  # to read a run whose manifest changes meanwhile

Wanted = Callable[[str], bool]


@dataclass(frozen=True)
class Staged:
    """A local copy of a run in an object store.

    manifest  the run's manifest; None if it has none
    files     name -> (size, time) of each file when it was copied
    """

    store: Store
    manifest: Manifest | None
    files: Mapping[str, tuple[int, int]]


_staged: dict[Path, Staged] = {}
_uris: dict[str, str] = {}  # temporary folder -> URI


def everything(name: str) -> bool:
    """Selects all files."""
    return True


def judged(name: str) -> bool:
    """Selects what a check reads: all files except those that it draws again."""
    return not name.startswith(DRAWN)


def beside_tasks(name: str) -> bool:
    """Selects what the driver of a check reads if tasks on a cluster read the history and the tables.

    These are all files that a check reads, except the history and the tables; the metadata of the tables is included.
    """
    return judged(name) and (name == "tables/_schema.json" or not name.startswith(READ_BY_TASKS))


def shown(name: str) -> bool:
    """Selects what the description of a result is made from: all files except plots and logs."""
    return not name.startswith(("plots/", "orders/", "logs/", "cluster/"))


def pages(name: str) -> bool:
    """Selects the files that a browser shows: all files except the bulky ones."""
    return not name.startswith(BULKY)


def listed(name: str) -> bool:
    """Selects the files that a list of runs needs."""
    return name in ("plan.yaml", "results.json")


def with_uris(text: str) -> str:
    """Returns a message in which temporary copies are named by their URIs."""
    for folder, uri in _uris.items():
        text = text.replace(folder, uri)
    return text


def _temporary(uri: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="harness-staged-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _uris[str(folder)] = uri
    return folder


def stage(uri: str, wanted: Wanted = everything) -> Path:
    """Returns a local copy of the run at a URI.

    Raises BadInput if there is no run at the URI or if the run is damaged, and Missing if the store cannot be used.
    """
    above, _, name = uri.rpartition("/")
    return _copied(open_store(uri), _temporary(above) / name, wanted)


def stage_named(runs: str, name: str, wanted: Wanted = everything) -> Path:
    """Returns a local copy of one of the runs at the URI `runs`: the run that a user names.

    name  an id, `latest`, or an unambiguous prefix of an id
    """
    store = open_store(runs)
    ids = store.folders()
    if not ids:
        raise BadInput(f"{runs}: there are no runs; upload one: harness upload latest {runs}")
    found = (
        [ids[-1]]
        if name == LATEST
        else [one for one in ids if one == name] or [one for one in ids if one.startswith(name)]
    )
    if len(found) == 1:
        return _copied(store.below(found[0]), _temporary(runs) / found[0], wanted)
    if found:
        raise BadInput(f"{name}: {len(found)} runs at {runs} begin with this, such as {found[0]}; use a longer prefix")
    raise BadInput(f"{name}: no run at {runs} begins with this; `harness list --runs {runs}` shows the runs there")


def stage_all(runs: str, wanted: Wanted) -> Path:
    """Returns a local folder of runs with some files of every run at a URI."""
    store, folder = open_store(runs), _temporary(runs)

    def one(name: str) -> None:
        if wanted is listed:  # without listing each run
            for file in ("plan.yaml", "results.json"):
                if (content := store.below(name).read(file)) is not None:
                    (folder / name).mkdir(exist_ok=True)
                    (folder / name / file).write_bytes(content)
            return
        _copied(store.below(name), folder / name, wanted)

    in_parallel(one, store.folders())
    return folder


def _copied(store: Store, folder: Path, wanted: Wanted) -> Path:
    manifest = manifest_of(store)
    for attempt in range(ATTEMPTS):
        wrong = _copy(store, folder, manifest, wanted)
        again = manifest_of(store)
        if wrong is None:
            break
        if again == manifest or attempt == ATTEMPTS - 1:
            raise BadInput(f"{store.uri}/{wrong}; upload the run again: harness upload RUN {store.uri}")
        manifest = again
    files = {name: _state(folder / name) for name in uploaded_run.files_of(folder)}
    _staged[folder] = Staged(store, manifest, files)
    (folder / "history").mkdir(exist_ok=True)  # some files of a run are a run
    if manifest is not None and not manifest.complete:
        if wanted in (judged, beside_tasks) and not any(name.startswith("history/") for name in manifest.files):
            raise BadInput(
                f"{store.uri}: no segment of the history has been uploaded yet; when the run has ended: "
                f"harness upload RUN {store.uri}"
            )
        (folder / UPLOAD).write_bytes(orjson.dumps({"complete": False}))
    return folder


def _copy(store: Store, folder: Path, manifest: Manifest | None, wanted: Wanted) -> str | None:
    """Copies the wanted files. Returns what is wrong with a file that cannot be made again; None if nothing is."""
    sizes = store.sizes()
    if "plan.yaml" not in sizes and not any(name.startswith("history/") for name in sizes):
        raise BadInput(
            f"{store.uri}: there is no run (neither plan.yaml nor history/); `harness list --runs URI` "
            "shows the runs at a URI"
        )
    entries = {name: (size, None) for name, size in sizes.items()} if manifest is None else manifest.files
    names = [name for name in entries if wanted(name)]

    def one(name: str) -> str | None:
        problem = _problem(store, folder / name, name, entries[name], sizes.get(name))
        if problem is None:
            return None
        (folder / name).unlink(missing_ok=True)
        return None if name.startswith(DERIVED) else f"{name}: {problem}, so the upload is incomplete or was changed"

    return next((wrong for wrong in in_parallel(one, names) if wrong is not None), None)


def _problem(store: Store, file: Path, name: str, entry: tuple[int, int | None], size: int | None) -> str | None:
    """Copies a file. Returns what is wrong if it is not the one in the manifest; None if it is.

    entry  (bytes, CRC-32) of the file in the manifest
    size   its size in the store; None if it is missing there
    """
    if size is None:
        return "it is missing"
    if size != entry[0]:
        return "its size is wrong"
    copied, crc = store.download(name, file)
    return None if copied == size and entry[1] in (None, crc) else "its content is wrong: remove it first"


def _state(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_size, status.st_mtime_ns


def is_copy(path: Path) -> bool:
    """Returns whether a path is a temporary copy of a run at a URI."""
    return path in _staged


@contextmanager
def for_tasks(folders: Sequence[Path]) -> Iterator[dict[Path, RemoteRun]]:
    """Yields folder -> the run in the store, which tasks on a cluster read and write. Skips folders that are no copies.

    At the end, removes the objects that tasks wrote and `publish` did not make visible. Raises BadInput if a run is
    damaged.
    """
    runs = {folder: _for_tasks(_staged[folder]) for folder in folders if folder in _staged}
    try:
        yield runs
    finally:
        for folder, run in runs.items():
            manifest = _staged[folder].manifest
            with suppress(HarnessError):  # nobody sees these objects; `harness upload` removes them, too
                run.clean({} if manifest is None else manifest.files)


def _for_tasks(found: Staged) -> RemoteRun:
    uri = found.store.uri
    if found.manifest is None:
        raise BadInput(
            f"{uri}: it has no {UPLOAD}, which a check on a cluster needs; upload the run with `harness upload RUN "
            f"{uri}`, or use --spark-master local[N]"
        )
    sizes, files = found.store.sizes(), {}
    for name, (size, crc) in found.manifest.files.items():
        if sizes.get(name) == size:
            files[name] = Entry(size, crc, name)
        elif not name.startswith(DERIVED):
            problem = "its size is wrong" if name in sizes else "it is missing"
            raise BadInput(
                f"{uri}/{name}: {problem}, so the upload is incomplete or was changed; upload the run again: "
                f"harness upload RUN {uri}"
            )
    return RemoteRun(uri, files)


def fetch_for_pages(folder: Path, run: RemoteRun) -> bool:
    """Copies the history and the tables of a run that tasks have checked, so that this process can draw plots and the
    page from them.

    Returns False, and copies nothing, if they are larger than DRAWN_FROM_BYTES. Raises BadInput, Missing.
    """
    names = [name for name in run.files if name.startswith(READ_BY_TASKS)]
    if sum(run.files[name].size for name in names) > DRAWN_FROM_BYTES:
        return False
    with remote_run.using(run, folder):
        in_parallel(lambda name: remote_run.local(Path(run.uri) / name), names)
    return True


def publish(folder: Path, run: RemoteRun | None = None) -> str | None:
    """Writes what has changed in a copy of a run back to its store. Results become visible together, or not at all.

    run  the run that tasks on a cluster read and wrote; None if the check used no cluster

    Does nothing if the folder is not a copy, or if the upload of its run is incomplete. Returns a sentence that says
    what was done, or that the upload is incomplete; None if there was nothing to do. Raises Missing.
    """
    found = _staged.get(folder)
    if found is None:
        return None
    if found.manifest is not None and not found.manifest.complete:
        return (
            f"{found.store.uri}: the upload is incomplete, so the result is not stored there; "
            f"complete it first: harness upload RUN {found.store.uri}"
        )
    now = {name: _state(folder / name) for name in uploaded_run.files_of(folder)}
    changed = [name for name, state in now.items() if name.startswith(DERIVED) and found.files.get(name) != state]
    gone = [name for name in found.files if name.startswith(DERIVED) and name not in now]
    made: dict[str, tuple[int, int]] = {}
    if run is not None and found.manifest is not None:
        made = {name: (entry.size, entry.crc or 0) for name, entry in run.made(TABLES).items()}
        old = found.manifest.files
        changed = [name for name in changed if name not in made and not _is(folder / name, old.get(name))]
        gone = [name for name in {*gone, *old} if name.startswith(DERIVED) and _outdated(name, run, now)]
    if not changed and not gone and not made:
        return None
    if found.manifest is None:
        for name in sorted(changed, key=lambda name: (name in uploaded_run.LAST, name)):
            found.store.upload(folder / name, name, now[name][0])
        found.store.remove(gone)
        manifest = None
    else:
        manifest = uploaded_run.commit(folder, found.store, found.manifest, changed, gone, meanwhile=True, present=made)
    _staged[folder] = Staged(found.store, manifest, now)
    return f"{found.store.uri}: {len(changed) + len(made)} files of the result written"


def _is(file: Path, entry: tuple[int, int] | None) -> bool:
    """Returns whether a file has the size and CRC-32 of an entry of the manifest."""
    return entry is not None and file.stat().st_size == entry[0] and uploaded_run.crc_of(file) == entry[1]


def _outdated(name: str, run: RemoteRun, now: Mapping[str, object]) -> bool:
    """Returns whether a file in the manifest no longer belongs to the tables and results."""
    if name.startswith(f"{TABLES}/"):
        return name not in run.files
    return name not in now and not name.startswith(DRAWN)
