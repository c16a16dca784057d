"""Converts histories between Jepsen's EDN and the log of a run (JSON lines), and from either to Parquet.

Conversion is streaming: at most a block of lines (for Parquet, a chunk of rows) is in memory. An output file gets its
final name only when it is complete. `harness.model.edn.ops` describes how JSON lines represent the types of values that
only EDN has.
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import orjson

from checker.tables import make_tables, parquet_folder
from checker.tables.progress import Counted, Progress
from checker.tables.read_history import Notes, rarely_collecting, read, sources
from harness.model import op_json
from harness.model.edn import fast_path
from harness.model.errors_and_exit_codes import BadHistory

SEGMENT_BYTES: Final = 64 << 20
_ORDER: Final = ("index", "time_ns", "process", "type", "f", "value", "error", "extra", "edn")


def to_log(path: Path, folder: Path, name: str, progress: Progress) -> tuple[int, Notes]:
    """Converts a history to the format of a run's log: one or more files of JSON lines (segments) in `folder`.

    `name` is the name of the run, which is written to the first line of every segment. Returns the number of lines,
    and the notes that were made while the history was read. Raises BadHistory with file and line if the content cannot
    be read, and Missing if the folder cannot be written.
    """
    notes, counted = Notes(), Counted(progress)
    with make_tables.writing(folder), rarely_collecting():
        folder.mkdir(parents=True, exist_ok=True)
        lines = counted(read(path, notes, exact=True))
        first = next(lines, None)  # after the first line, `notes` says whether ops are tagged as records
        segment, more = 0, first is not None
        while more or segment == 0:
            with (folder / f"{segment:05d}.jsonl").open("wb") as stream:
                record = {"record": True} if notes.record else {}
                written = stream.write(op_json.header(name, segment, 0, 0, **record))
                if segment == 0 and first is not None:
                    written += stream.write(_encoded(first.data))
                more = False
                for line in lines:
                    written += stream.write(_encoded(line.data))
                    if written > SEGMENT_BYTES:
                        more = True
                        break
            segment += 1
    return counted.lines, notes


def _encoded(data: Mapping[str, Any]) -> bytes:
    ordered = {name: data[name] for name in _ORDER if name in data}
    if len(ordered) != len(data):
        ordered.update(data)
    return orjson.dumps(ordered, option=orjson.OPT_APPEND_NEWLINE)


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """Yields a temporary path next to `out`. It is renamed to `out` on success and removed on failure."""
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(out)
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


@contextmanager
def _stream(out: Path) -> Iterator[IO[bytes]]:
    with make_tables.writing(out), _whole(out) as part, part.open("wb") as raw:
        if out.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, raw, 0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield raw


def to_edn(path: Path, out: Path, progress: Progress) -> int:
    """Converts a history to an EDN file with one op map per line.

    Returns the number of lines. Raises BadHistory, Missing.
    """
    notes, counted = Notes(), Counted(progress)
    with _stream(out) as stream, rarely_collecting():
        for line in counted(read(path, notes, exact=True)):
            try:
                text = fast_path.text_of(line.data, notes.record)
            except (ValueError, TypeError) as error:
                raise BadHistory(f"{line.where}: cannot be represented in EDN ({error})") from None
            stream.write(text.encode() + b"\n")
    return counted.lines


def to_jsonl(path: Path, out: Path, progress: Progress) -> int:
    """Converts a history to one file of JSON lines. Returns the number of lines.

    If `path` is a run folder, the segments of its log are concatenated unchanged. A single file is converted to the
    same lines that `to_log` writes. Raises BadHistory, Missing.
    """
    notes, counted = Notes(), Counted(progress)
    files = sources(path)
    with _stream(out) as stream:
        if path.is_dir():
            return sum(_copied(file, stream) for file in files)
        lines = counted(read(path, notes, exact=True))
        first = next(lines, None)
        record = {"record": True} if notes.record else {}
        stream.write(op_json.header(notes.run or path.name, 0, 0, 0, **record))
        if first is not None:
            stream.write(_encoded(first.data))
        for line in lines:
            stream.write(_encoded(line.data))
    return counted.lines


def _copied(file: Path, stream: IO[bytes]) -> int:
    """Copies a segment to a stream. Returns the number of its lines, not counting the header."""
    lines = -1
    with file.open("rb") as source:
        while block := source.read(1 << 20):
            stream.write(block)
            lines += block.count(b"\n")
    return max(lines, 0)


def to_parquet(path: Path, out: Path, progress: Progress) -> int:
    """Converts a history to a Parquet folder (`checker.tables.parquet_folder`). Returns the number of its lines.

    Raises BadHistory, Missing.
    """
    with make_tables.writing(out), _whole(out) as part:
        return parquet_folder.write(path, part, progress)


FORMATS: Final[Mapping[str, Callable[[Path, Path, Progress], int]]] = {
    "edn": to_edn,
    "jsonl": to_jsonl,
    "parquet": to_parquet,
}
