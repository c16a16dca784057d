"""Histories -> tables: from write-ahead segments or Jepsen EDN to Parquet, spread over buckets by key.

`make` streams: at most CHUNK_ROWS ops and records are held, then a part is written to each bucket. `collect`
keeps everything in memory, for small histories and tests. `ready` says whether the tables of a folder are
those of its history as it is now. The tables are described in checker.tables.schema; meta.json stands in
`tables/_schema.json`:

    schema, sources [[name, bytes, CRC-32]], buckets, lines, ops, counts {f: {type: n}}, last_ok_op, last_ok_ns,
    max_ns, final_processes {process: type of its last final op}, truncated (a sentence or null), run,
    doubts (what it should not have, each a sentence),
    missing ([index before the first lines that are missing, index after the last], or null),
    files {name: bytes} (of the tables themselves)

Tables are derived: where they are missing, damaged or half written, they are made again from the history.
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
from checker.tables.progress import Counted
from checker.tables.read_history import Line, Notes, identity, rarely_collecting, read, sources
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
    """Tables that cannot be read, or are not those that were written."""


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Raises DamagedTables for what goes wrong while tables are read."""
    try:
        yield
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        text = "".join(letter if letter.isprintable() else " " for letter in str(error))[:200].strip()
        raise DamagedTables(f"{folder}: the tables are damaged ({text}); remove the folder and check again") from None


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raises Missing when the disk does not take what is written below a folder."""
    try:
        yield
    except BrokenPipeError:
        raise  # nobody reads the progress any more
    except OSError as error:
        raise Missing(
            f"{folder}: cannot be written ({error.strerror or error}); make room or allow it, or copy the "
            "run folder to where it can be"
        ) from None


@dataclass(frozen=True, slots=True)
class Tables:
    """A whole history in memory: one bucket."""

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
    """A small history, in memory. Raises BadHistory."""
    notes = Notes()
    return _in_memory(read(path, notes), notes)


def of_ops(ops: Iterable[Op], part: bool = False) -> Tables:
    """Ops in index order that are already in memory. Raises BadHistory.

    part  they were chosen from a history, so those in between are not missing
    """
    lines = (Line(op_json.to_data(op), number, "ops") for number, op in enumerate(ops, 1))
    return _in_memory(lines, Notes(part=part))


def _in_memory(lines: Iterable[Line], notes: Notes) -> Tables:
    builder = Builder(Coder())
    for line in lines:
        builder.add(line)
    builder.finish()
    made = builder.tables()
    small = {name: made[name] for name in schema.BESIDE}
    meta = _meta(builder, notes, [], 1)
    return Tables(made["ops"], made["sends"], made["polls"], small, meta, tuple(builder.coder.texts))


def small_of(tables: Mapping[str, pa.Table], meta: Mapping[str, Any]) -> Small:
    """The part that kernels need."""
    return Small(**{name: tables[name] for name in schema.BESIDE}, meta=meta)


def buckets_for(files: list[Path]) -> int:
    """How many buckets a history of this size is spread over; one task does it all for small ones."""
    return buckets_of(size_of(files))


def size_of(files: Iterable[Path]) -> int:
    """How many bytes of text there are, about."""
    return sum(file.stat().st_size * (8 if file.suffix == ".gz" else 1) for file in files)


def buckets_of(size: int) -> int:
    """How many buckets a log of so many bytes is spread over."""
    return int(min(MAX_BUCKETS, max(1, -(-size // BUCKET_BYTES))))


class Writer:
    """Writes parts of tables below a folder. prefix: of the parts' names, which sort as their ops do."""

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
        self._write(tables["ops"], f"ops/{name}")
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
        bucket = table.column("key").to_numpy() % self.buckets
        by = np.argsort(bucket, kind="stable")
        cuts = np.searchsorted(bucket[by], np.arange(self.buckets + 1))
        spread = table.take(pa.array(by))
        return [spread.slice(low, high - low) for low, high in pairwise(cuts)]

    def small_tables(self) -> dict[str, pa.Table]:
        """What was given of the tables that are not spread over buckets."""
        return {kind: pa.concat_tables([form.empty_table(), *self.small[kind]]) for kind, form in schema.SMALL.items()}

    def finish(self, meta: Mapping[str, Any], texts: list[str]) -> None:
        for kind, table in self.small_tables().items():
            self._write(table, f"{kind}.parquet")
        (self.folder / DICTIONARY).write_bytes(orjson.dumps(texts))
        self._note(DICTIONARY)
        # Last: its presence says that all is there.
        (self.folder / META).write_bytes(orjson.dumps({**meta, "files": self.files}))

    def _write(self, table: pa.Table, name: str, **options: Any) -> None:
        pq.write_table(table, self.folder / name, write_page_checksum=True, **options)
        self._note(name)

    def _note(self, name: str) -> None:
        self.files[name] = (self.folder / name).stat().st_size


def make(
    path: Path, folder: Path, buckets: int | None = None, progress: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Make the tables of a history below `folder`, replacing what is there. Raises BadHistory, Missing."""
    files = sources(path)
    count = buckets or buckets_for(files)
    with writing(folder):
        clear(folder)
        return _make(path, folder, files, count, progress)


def clear(folder: Path) -> None:
    """An empty folder in the place of whatever is there."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)
    folder.mkdir(parents=True)


def _make(path: Path, folder: Path, files: list[Path], count: int, progress: Callable[[str], None]) -> dict[str, Any]:
    writer, notes, builder = Writer(folder, count), Notes(), Builder(Coder())
    identities = [identity(file) for file in files]  # before it is read: what changes meanwhile is read again
    with rarely_collecting():
        for line in Counted(progress, "tables: ")(read(path, notes)):
            builder.add(line)
            if builder.rows >= CHUNK_ROWS:
                writer.write(builder.tables())
    builder.finish()
    writer.write(builder.tables())
    meta = _meta(builder, notes, identities, count)
    writer.finish(meta, builder.coder.texts)
    return {**meta, "files": writer.files}


def read_meta(folder: Path) -> dict[str, Any] | None:
    """What ingestion counted; None when there are no whole tables. Raises BadHistory for a newer schema."""
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
            f"{file}: tables of schema {meta['schema']}, this version reads up to {schema.SCHEMA}; upgrade, "
            f"or remove {folder}, which the next check makes again"
        )
    return meta if meta.keys() >= META_FIELDS and _complete(folder, meta["files"]) else None


def _complete(folder: Path, files: Any) -> bool:
    """Whether each file of the tables is there, of the size that it was written with."""
    try:
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, AttributeError, TypeError):
        return False


def ready(path: Path, folder: Path, buckets: int | None = None) -> dict[str, Any] | None:
    """The meta of tables that were made from this very history; None when they must be made."""
    meta = read_meta(folder)
    if meta is None or meta["schema"] != schema.SCHEMA or (buckets and meta["buckets"] != buckets):
        return None
    return meta if same_content(sources(path), meta["sources"]) else None


def same_content(files: Sequence[Path], identities: Any) -> bool:
    """Whether files are those, by name, size and CRC-32, that `identities` lists. Raises BadHistory."""
    try:
        sizes = [[file.name, file.stat().st_size] for file in files]
        if sizes != [[name, size] for name, size, _ in identities]:
            return False
    except (OSError, TypeError, ValueError):
        return False
    return bool([identity(file) for file in files] == identities)
