"""Converts a history to tables: from write-ahead log segments or Jepsen EDN to Parquet, split into buckets by key.

`make` streams: it collects up to CHUNK_ROWS ops and records in memory, then writes them as one part to each bucket.
`collect` keeps everything in memory, for small histories and tests. `ready` returns whether the tables of a folder
match its history. checker.tables.schema describes the tables; the metadata is in `tables/_schema.json`:

    schema, sources [[name, bytes, CRC-32]], buckets, lines, ops, counts {f: {type: n}}, last_ok_op, last_ok_ns,
    max_ns, final_processes {process: type of its last final op}, truncated (a sentence or null), run,
    doubts (defects of the history that still allow a verdict, one sentence each),
    missing ([index before the first gap of missing lines, index after the last gap], or null),
    files {name: bytes} (of the tables themselves)

Tables are derived data: if they are missing, damaged or incomplete, they are made again from the history.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from checker.tables import schema
from checker.tables.coding import Coder
from checker.tables.columns import Small
from checker.tables.plain_lines import Stretch
from checker.tables.progress import Counted
from checker.tables.read_history import Line, Notes, identity, rarely_collecting, read_stretches, sources
from checker.tables.table_builder import Builder
from harness.model import op_json
from harness.model.errors_and_exit_codes import BadHistory, Missing
from harness.model.op import Op

CHUNK_ROWS: Final = 2_000_000
BUCKET_BYTES: Final = 48 << 20
MAX_BUCKETS: Final = 256
META: Final = "_schema.json"
DICTIONARY: Final = "_dictionary.json"
META_FIELDS: Final = frozenset(
    {
        "schema",
        "sources",
        "buckets",
        "lines",
        "ops",
        "counts",
        "last_ok_op",
        "last_ok_ns",
        "max_ns",
        "final_processes",
        "truncated",
        "doubts",
        "run",
        "files",
    }
)


class DamagedTables(BadHistory):
    """The tables cannot be read, or have changed since they were written."""


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Context manager that raises DamagedTables if the tables in the folder cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        text = "".join(letter if letter.isprintable() else " " for letter in str(error))[:200].strip()
        raise DamagedTables(
            f"{folder}: the tables are damaged ({text}); remove this folder and run the check again"
        ) from None


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Context manager that raises Missing if a file in the folder cannot be written.

    This happens, for example, if the disk is full.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the progress output has gone
    except OSError as error:
        raise Missing(
            f"{folder}: cannot be written ({error.strerror or error}); free disk space, fix the permissions, or copy "
            "the run folder elsewhere"
        ) from None


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a whole history in memory, as one bucket."""

    ops: pa.Table
    sends: pa.Table
    polls: pa.Table
    small: Mapping[str, pa.Table]
    meta: Mapping[str, Any]
    texts: tuple[str, ...]


def _meta(builder: Builder, notes: Notes, identities: list[list[Any]], buckets: int) -> dict[str, Any]:
    return {
        "schema": schema.SCHEMA,
        "sources": identities,
        "buckets": buckets,
        "lines": builder.lines,
        "ops": sum(sum(kinds.values()) for kinds in builder.counts.values()),
        "counts": {f: dict(kinds) for f, kinds in builder.counts.items()},
        "last_ok_op": builder.last_ok_op,
        "last_ok_ns": builder.last_ok_ns,
        "max_ns": builder.max_ns,
        "final_processes": {str(process): kind for process, kind in builder.final_processes.items()},
        "truncated": notes.truncated,
        "doubts": list(builder.doubts.values()),
        "missing": None if notes.part else builder.missing,
        "run": notes.run,
    }


def collect(path: Path) -> Tables:
    """Returns the tables of a small history, in memory. Raises BadHistory."""
    notes = Notes()
    return _in_memory(read_stretches(sources(path), True, notes), notes)


def of_ops(ops: Iterable[Op], part: bool = False) -> Tables:
    """Returns the tables of ops that are already in memory. Raises BadHistory.

    ops   the ops in the order of their indices
    part  whether the ops were selected from a history; gaps between their indices are then no defect
    """
    lines = (Line(op_json.to_data(op), number, "ops") for number, op in enumerate(ops, 1))
    return _in_memory(lines, Notes(part=part))


def _in_memory(lines: Iterable[Line | Stretch], notes: Notes) -> Tables:
    builder = Builder(Coder())
    for line in lines:
        builder.take(line)
    builder.finish()
    made = builder.tables()
    small = {name: made[name] for name in schema.BESIDE}
    meta = _meta(builder, notes, [], 1)
    return Tables(made["ops"], made["sends"], made["polls"], small, meta, tuple(builder.coder.texts))


def small_of(tables: Mapping[str, pa.Table], meta: Mapping[str, Any]) -> Small:
    """Selects from `tables` those that kernels get as `Small`, which are all except ops, sends and polls."""
    return Small(**{name: tables[name] for name in schema.BESIDE}, meta=meta)


def buckets_for(files: list[Path]) -> int:
    """Returns into how many buckets to split the history in these files; 1 if one task can handle all of it."""
    return buckets_of(size_of(files))


def size_of(files: Iterable[Path]) -> int:
    """Returns the total size of the files in bytes. For gzipped files, the size of the content is estimated."""
    return sum(file.stat().st_size * (8 if file.suffix == ".gz" else 1) for file in files)


def buckets_of(size: int) -> int:
    """Returns into how many buckets to split a history of this size in bytes."""
    return int(min(MAX_BUCKETS, max(1, -(-size // BUCKET_BYTES))))


class Writer:
    """Writes the tables of a history to a folder, in parts: several Parquet files per table and bucket.

    `prefix` is the beginning of the parts' file names. Sorted by name, the parts are in the order of their ops.
    """

    def __init__(self, folder: Path, buckets: int, prefix: str = "") -> None:
        self.folder, self.buckets, self.prefix, self.part = folder, buckets, prefix, 0
        self.files: dict[str, int] = {}
        self.small: dict[str, list[pa.Table]] = {name: [] for name in schema.SMALL}
        for bucket in range(buckets):
            for name in schema.SPREAD:
                (folder / name / f"{bucket:05d}").mkdir(parents=True, exist_ok=True)
        (folder / "ops").mkdir(exist_ok=True)

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        name = f"{self.prefix}{self.part:05d}.parquet"
        self._write(tables["ops"], f"ops/{name}", use_dictionary=["process", "type", "f", "error"])
        for kind in schema.SPREAD:
            table = tables[kind]
            for bucket, rows in enumerate(self._spread(table)):
                if rows.num_rows:
                    self._write(rows, f"{kind}/{bucket:05d}/{name}", use_dictionary=["key", "process", "type"])
        for kind in schema.SMALL:
            self.small[kind].append(tables[kind])
        self.part += 1

    def _spread(self, table: pa.Table) -> list[pa.Table]:
        if self.buckets == 1:
            return [table]
        bucket = (table.column("key").to_numpy() % self.buckets).astype(np.uint16)  # numpy sorts short integers faster
        by = np.argsort(bucket, kind="stable")
        cuts = np.searchsorted(bucket[by], np.arange(self.buckets + 1))
        spread = table.take(pa.array(by))
        return [spread.slice(low, high - low) for low, high in pairwise(cuts)]

    def small_tables(self) -> dict[str, pa.Table]:
        """Returns the tables that are not split into buckets, with the rows of all parts written so far."""
        return {kind: pa.concat_tables([form.empty_table(), *self.small[kind]]) for kind, form in schema.SMALL.items()}

    def finish(self, meta: Mapping[str, Any], texts: list[str]) -> None:
        for kind, table in self.small_tables().items():
            self._write(table, f"{kind}.parquet")
        (self.folder / DICTIONARY).write_bytes(orjson.dumps(texts))
        self._note(DICTIONARY)
        # Written last: its presence means that the tables are complete.
        (self.folder / META).write_bytes(orjson.dumps({**meta, "files": self.files}))

    def _write(self, table: pa.Table, name: str, **options: Any) -> None:
        pq.write_table(table, self.folder / name, write_page_checksum=True, **options)
        self._note(name)

    def _note(self, name: str) -> None:
        self.files[name] = (self.folder / name).stat().st_size


def make(
    path: Path, folder: Path, buckets: int | None = None, progress: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Makes the tables of a history in `folder`, replacing its content, and returns their metadata.

    Raises BadHistory, Missing.
    """
    files = sources(path)
    count = buckets or buckets_for(files)
    with writing(folder):
        clear(folder)
        return _make(path, folder, files, count, progress)


def clear(folder: Path) -> None:
    """Replaces whatever is at `folder` with an empty folder."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)
    folder.mkdir(parents=True)


def _make(path: Path, folder: Path, files: list[Path], count: int, progress: Callable[[str], None]) -> dict[str, Any]:
    writer, notes, builder = Writer(folder, count), Notes(), Builder(Coder())
    identities = [
        identity(file) for file in files
    ]  # before reading: a history that changes meanwhile no longer matches
    with rarely_collecting():
        counted = Counted(progress, "tables: ")
        for line in read_stretches(files, True, notes):
            counted.add(builder.take(line))
            if builder.rows >= CHUNK_ROWS:
                writer.write(builder.tables())
    builder.finish()
    writer.write(builder.tables())
    meta = _meta(builder, notes, identities, count)
    writer.finish(meta, builder.coder.texts)
    return {**meta, "files": writer.files}


def read_meta(folder: Path, complete: Callable[[Any], bool] | None = None) -> dict[str, Any] | None:
    """Returns the metadata of the tables in `folder`; None if the folder does not have complete tables.

    complete  whether the tables have all these files (name -> size); by default, whether the folder has them

    Raises BadHistory if the tables have a newer schema than this version knows.
    """
    file = folder / META
    if not file.is_file():
        return None
    try:
        meta: dict[str, Any] = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    if not isinstance(meta, dict) or type(meta.get("schema")) is not int:
        return None
    if meta["schema"] > schema.SCHEMA:
        raise BadHistory(
            f"{file}: written with schema {meta['schema']}; this version reads schemas up to {schema.SCHEMA}; upgrade "
            f"the harness, or remove {folder}: the next check makes it again"
        )
    if not meta.keys() >= META_FIELDS:
        return None
    whole = _complete(folder, meta["files"]) if complete is None else complete(meta["files"])
    return meta if whole else None


def _complete(folder: Path, files: Any) -> bool:
    """Returns whether every file of the tables exists and still has the size that was recorded when it was written."""
    try:
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, AttributeError, TypeError):
        return False


def ready(path: Path, folder: Path, buckets: int | None = None) -> dict[str, Any] | None:
    """Returns the metadata of the tables in `folder`, or None if they have to be made again.

    They have to be made again if they are incomplete, have another schema or another number of buckets than `buckets`
    (if given), or were not made from exactly this history. Raises BadHistory.
    """
    meta = read_meta(folder)
    if meta is None or meta["schema"] != schema.SCHEMA or (buckets and meta["buckets"] != buckets):
        return None
    return meta if same_content(sources(path), meta["sources"]) else None


def same_content(files: Sequence[Path], identities: Any) -> bool:
    """Returns whether the files have the names, sizes and CRC-32s in `identities`. Raises BadHistory."""
    try:
        sizes = [[file.name, file.stat().st_size] for file in files]
        if sizes != [[name, size] for name, size, _ in identities]:
            return False
    except (OSError, TypeError, ValueError):
        return False
    return bool([identity(file) for file in files] == identities)
