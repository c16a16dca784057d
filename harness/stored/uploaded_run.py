"""A run in an object store: its manifest, uploading a run folder, and writing back what a check made.

    <run>/upload.json   {"schema", "run", "complete", "files": {name: [bytes, CRC-32]}}

Readers see the files that the manifest lists, and nothing else. The manifest is a single object, so a change of several
files becomes visible at once: files that will change are removed from the manifest first, and are listed again when all
of them have been written. An upload that ended early leaves a manifest with `complete` false, and the next upload
continues from there. A run that other tools copied to a store has no manifest; its readers see all files.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson

from checker.tables.storage import BLOCK, PART, UPLOAD, Store, in_parallel
from harness.history_writer import OWNER
from harness.model.errors_and_exit_codes import BadInput, Missing

SCHEMA: Final = 1
BATCH_BYTES: Final = 64 << 20
BATCH_FILES: Final = 32
# Names of folders with unfinished work, or beginnings of such names.
UNFINISHED: Final = (".segments", ".parts", ".scratch-")
WORKING: Final = "cluster"  # the brokers' working files: gigabytes in a killed run, and secrets of secured clusters
# What a check makes: if one of these files is missing or has changed, the next check makes it again.
DERIVED: Final = ("tables/", "results/", "plots/", "orders/", "results.json", "report.html")
# Results, which a reader must see only together with everything that they refer to, are uploaded last.
LAST: Final = ("tables/_schema.json", "results.json")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Manifest:
    """The manifest of a run in a store.

    complete  whether `files` are all files of the run
    files     name -> (size in bytes, CRC-32)
    """

    run: str
    complete: bool
    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def without(self, names: Sequence[str]) -> Manifest:
        """Returns the manifest without some files."""
        return replace(self, files={name: seen for name, seen in self.files.items() if name not in {*names}})


@dataclass(frozen=True)
class Uploaded:
    """What an upload did.

    files      number of files that were copied
    bytes      number of bytes that were copied
    unchanged  number of files that were in the store already
    """

    files: int
    bytes: int
    unchanged: int


def manifest_of(store: Store) -> Manifest | None:
    """Returns the manifest of a run in a store; None if it has none. Raises BadInput, Missing."""
    content = store.read(UPLOAD)
    if content is None:
        return None
    where = f"{store.uri}/{UPLOAD}"
    try:
        data = orjson.loads(content)
        if int(data["schema"]) > SCHEMA:
            raise BadInput(
                f"{where}: written with schema {data['schema']}; this version reads schemas up to {SCHEMA}; "
                "upgrade the harness"
            )
        files = {str(name): (int(size), int(crc)) for name, (size, crc) in data["files"].items()}
        if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in files):
            raise ValueError("a name leads out of the folder")
        return Manifest(str(data["run"]), data["complete"] is True, files)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{where}: damaged ({error}); remove it and upload the run again") from None


def write_manifest(store: Store, manifest: Manifest) -> None:
    """Writes the manifest. From then on, readers see these files. Raises Missing."""
    data: dict[str, Any] = {"schema": SCHEMA, "run": manifest.run, "complete": manifest.complete}
    store.write(UPLOAD, orjson.dumps({**data, "files": manifest.files}))


def files_of(folder: Path) -> dict[str, int]:
    """Returns name -> size of each file of a run folder that an upload copies to a store."""
    found = {}
    for parent, folders, names in os.walk(folder):
        hidden = (*UNFINISHED, WORKING) if parent == str(folder) else UNFINISHED
        folders[:] = [name for name in folders if not name.startswith(hidden)]
        for name in names:
            file = Path(parent, name)
            regular = file.is_file() and not file.is_symlink() and file.suffix != PART
            if regular and file != folder / OWNER and file != folder / UPLOAD:
                found[file.relative_to(folder).as_posix()] = file.stat().st_size
    return found


def upload(folder: Path, store: Store, say: Say) -> Uploaded:
    """Makes the store's copy of a run the same as its folder. Copies only what differs, so it may be repeated.

    Raises BadInput if the store has another run there, and Missing.
    """
    old = manifest_of(store) or Manifest(folder.name, False)
    if old.run != folder.name:
        raise BadInput(f"{store.uri}: this is run {old.run}, not {folder.name}; choose another URI")
    files, stored = files_of(folder), store.sizes()
    changed = [name for name, size in files.items() if not _same(folder, name, size, old, stored)]
    gone = [name for name in stored if name not in files and name != UPLOAD]
    if old.complete and not changed and not gone:
        return Uploaded(0, 0, len(files))
    again = old.complete and all(name.startswith(DERIVED) for name in (*changed, *gone))
    commit(folder, store, old, changed, gone, say, meanwhile=again)
    return Uploaded(len(changed), sum(files[name] for name in changed), len(files) - len(changed))


def commit(
    folder: Path,
    store: Store,
    old: Manifest,
    changed: Sequence[str],
    gone: Sequence[str],
    say: Say = lambda text: None,
    complete: bool = True,
    meanwhile: bool = False,
    present: Mapping[str, tuple[int, int]] | None = None,
) -> Manifest:
    """Uploads the files in `changed`, removes those in `gone`, and makes both visible by a new manifest.

    old        the manifest that the store has now
    complete   whether the run is complete afterwards
    meanwhile  whether the run counts as complete during the upload: a check can make the changed files again
    present    further files that are in the store already, and become visible with the others
    """
    manifest = replace(old.without([*changed, *gone]), complete=meanwhile)
    write_manifest(store, manifest)
    store.remove(gone)
    done, size = 0, 0
    for batch in _batches(folder, sorted(changed, key=lambda name: (name in LAST, name))):
        entries = in_parallel(lambda name: _copied(folder, store, name), batch)
        manifest = replace(manifest, files={**manifest.files, **dict(zip(batch, entries, strict=True))})
        done, size = done + len(batch), size + sum(length for length, _ in entries)
        if done < len(changed):
            write_manifest(store, manifest)  # an upload that ends here continues from here
            say(f"uploaded {done} of {len(changed)} files, {size:,} bytes")
    manifest = replace(manifest, complete=complete, files={**manifest.files, **(present or {})})
    write_manifest(store, manifest)
    return manifest


def _batches(folder: Path, names: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for name in names:
        batch.append(name)
        size += (folder / name).stat().st_size
        if size >= BATCH_BYTES or len(batch) >= BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _copied(folder: Path, store: Store, name: str) -> tuple[int, int]:
    file = folder / name
    try:
        size = file.stat().st_size
        return size, store.upload(file, name, size)
    except FileNotFoundError:
        raise Missing(f"{file}: it was removed during the upload; upload the run again") from None


def _same(folder: Path, name: str, size: int, manifest: Manifest, stored: Mapping[str, int]) -> bool:
    entry = manifest.files.get(name)
    return entry is not None and stored.get(name) == size == entry[0] and crc_of(folder / name) == entry[1]


def crc_of(file: Path) -> int:
    """Returns the CRC-32 of a file."""
    crc = 0
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            crc = zlib.crc32(block, crc)
    return crc
