"""Reads history files: yields raw ops as plain mappings, each with its file and line for messages.

Accepts write-ahead log segments (`*.jsonl`, see harness.model.op_json) and Jepsen's EDN (`*.edn`), plain or gzipped. A
writer that is killed may leave an incomplete last line, which is skipped and recorded in `Notes`. Any other invalid
line raises BadHistory with file and line.
"""

from __future__ import annotations

import gc
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EINVAL
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import orjson

from checker.tables import plain_lines
from checker.tables.plain_lines import Form, Stretch
from harness.model import op_json
from harness.model.edn import fast_path, ops, reader
from harness.model.errors_and_exit_codes import BadHistory

MAX_LINE: Final = 256 << 20
MAX_BLANK_LINES: Final = 1_000_000  # per file; logs have none
MAX_RATIO: Final = 100  # maximum compression ratio of gzip; that of logs is below 30
UNPACKED_FREELY: Final = 64 << 20
CHECKSUM_BLOCK: Final = 1 << 18
BLOCK: Final = 128 << 10
JOINED: Final = 1 << 20
COLLECT_EVERY: Final = 50_000


@dataclass(slots=True)
class Notes:
    """Facts about a history, filled in while its files are read.

    truncated  where the history was cut off, as a sentence for the verdict; None if it was not
    run        name of the run, from the header
    record     whether the ops in an EDN file are tagged as Clojure records (`#jepsen.history.Op{...}`)
    part       whether `harness shrink` selected the ops from a history; gaps in the indices are then no defect
    """

    truncated: str | None = None
    run: str | None = None
    record: bool = False
    part: bool = False


class Line(NamedTuple):
    """One raw op: a mapping with the fields that `harness.model.op_json` describes, and its place in the history."""

    data: Mapping[str, Any]
    number: int
    file: str

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.number}"


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Context manager that makes the garbage collector run less often.

    Garbage collection frees nothing while lines are read, but takes a tenth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], COLLECT_EVERY), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def sources(path: Path) -> list[Path]:
    """Returns the files of a history in order: a run folder's segments, or a single file. Raises BadHistory."""
    if path.is_dir():
        folder = path / "history"
        if not folder.is_dir():
            raise BadHistory(f"{path}: it has no history/*.jsonl; choose a run folder or a history file")
        return _segments(folder)
    if not path.exists():
        raise BadHistory(f"{path}: no such file or folder; choose a run folder or a history file")
    _regular(path)
    return [path]


def _regular(file: Path) -> None:
    """Raises BadHistory for a FIFO, socket or device, which cannot be read from beginning to end."""
    if not file.is_file():
        raise BadHistory(f"{file}: not a regular file; a history is read from regular files only")


def _segments(folder: Path) -> list[Path]:
    """Returns the segments of a run, in order. Raises BadHistory if a segment is missing."""
    found = sorted(folder.glob("*.jsonl"))
    if not found:
        raise BadHistory(f"{folder}: it has no segment (*.jsonl): nothing was recorded, so there is nothing to check")
    for file in found:
        _regular(file)
    require_all(folder, found)
    return found


def require_all(folder: Path, found: Sequence[Path]) -> None:
    """Raises BadHistory if `found`, the segments in a folder in order, lacks one between others."""
    for number, file in enumerate(found):
        if file.stem.isdecimal() and int(file.stem) != number:
            raise BadHistory(
                f"{folder}: the segment {number:05d}.jsonl is missing before {file.name}; restore it, or "
                "check the existing segments one by one"
            )


def checksum(file: Path) -> tuple[int, int]:
    """Returns (size in bytes, CRC-32) of a file's content. Raises OSError."""
    if not file.is_file() and file.exists():
        raise OSError(EINVAL, "not a regular file")
    size, crc, block = 0, 0, memoryview(bytearray(CHECKSUM_BLOCK))
    with file.open("rb", buffering=0) as stream:
        while length := stream.readinto(block):
            crc = zlib.crc32(block[:length], crc)
            size += length
    return size, crc


def identity(file: Path) -> list[Any]:
    """Returns [name, size, CRC-32] of a history file. Raises BadHistory.

    The metadata of the tables contains it, to find out later whether the file has changed.
    """
    try:
        return [file.name, *checksum(file)]
    except OSError as error:
        raise BadHistory(f"{file}: cannot be read ({error.strerror})") from None


def is_edn(path: Path) -> bool:
    """Returns whether the file is EDN, according to its name."""
    return ".edn" in path.suffixes[-2:]


def read(path: Path, notes: Notes, exact: bool = False) -> Iterator[Line]:
    """Yields the raw ops of a history, file by file.

    notes  is filled in with facts about the history
    exact  whether to keep the details of an EDN file that are needed to write the same EDN again (`edn.ops`)
    """
    yield from read_files(sources(path), True, notes, exact)


def read_files(files: Sequence[Path], last: bool, notes: Notes, exact: bool = False) -> Iterator[Line]:
    """Yields the raw ops of some files.

    last   whether the last one of `files` is the last file of its history; its last line may then be incomplete
    exact  see `read`
    """
    for file in files:
        reading = _Reading(file, last and file == files[-1], notes, exact)
        for number, block, whole in _blocks(file, reading.last, notes):
            yield from reading.lines(number, block, whole)


def read_stretches(files: Sequence[Path], last: bool, notes: Notes) -> Iterator[Line | Stretch]:
    """Yields the same as `read_files`, but many neighbouring lines of the usual form as one stretch."""
    for file in files:
        reading = _Reading(file, last and file == files[-1], notes, False)
        form = plain_lines.EDN if is_edn(file) else plain_lines.JSON
        for number, block, whole in _joined(_blocks(file, reading.last, notes)):
            end = 0
            for text, usual in plain_lines.split(block, form):
                if usual:
                    yield reading.stretch(number, text, form)
                else:
                    yield from reading.lines(number, text, whole)
                end += len(text)
                if end < len(block):  # counting takes long
                    number += text.count(b"\n")


# --- bytes ----------------------------------------------------------------------------------------------


def _pieces(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as opened:
        stream: IO[bytes] = opened  # type: ignore[assignment]
        while piece := stream.read1(BLOCK):  # type: ignore[attr-defined]
            yield piece


def _blocks(path: Path, last: bool, notes: Notes) -> Iterator[tuple[int, bytes, bool]]:
    """Yields the file in blocks: (number of the first line, complete lines, whether they end in a newline).

    A truncated gzip stream in the last file is treated like an incomplete last line.
    """
    number, ready, rest, size = 1, list[bytes](), list[bytes](), 0  # size: of `ready` and `rest` together
    unpacked = 0
    try:
        most = max(UNPACKED_FREELY, MAX_RATIO * path.stat().st_size)
        for piece in _pieces(path):
            size += len(piece)
            unpacked += len(piece)
            if unpacked > most:
                raise BadHistory(
                    f"{path}, after line {number}: decompresses to more than {MAX_RATIO} times its size, so "
                    "it is probably not a history. If it is, decompress it first and check the plain file"
                )
            if cut := piece.rfind(b"\n") + 1:
                ready += [*rest, piece[:cut]]
                rest = [piece[cut:]]
            else:
                rest.append(piece)
            if size >= BLOCK and ready:
                block = b"".join(ready)
                yield number, block, True
                number += block.count(b"\n")
                ready, size = [], size - len(block)
            if size > MAX_LINE and not ready:  # a single line that has not ended
                raise BadHistory(f"{path}, line {number}: longer than {MAX_LINE >> 20} MiB")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        done = number + sum(part.count(b"\n") for part in ready) - 1
        if not last or isinstance(error, gzip.BadGzipFile):
            raise BadHistory(f"{path}, after line {done}: damaged gzip ({error})") from None
        notes.truncated = f"{path.name}: cut off after line {done}"
    except OSError as error:
        raise BadHistory(f"{path}: cannot be read ({error.strerror})") from None
    if size:
        block = b"".join(ready + rest)
        yield number, block, block.endswith(b"\n")


def _joined(blocks: Iterator[tuple[int, bytes, bool]]) -> Iterator[tuple[int, bytes, bool]]:
    """Yields the blocks, joined to at least JOINED bytes: array operations are faster on more lines."""
    number, parts, size, whole = 1, list[bytes](), 0, True
    for begin, block, ended in blocks:
        number = begin if not parts else number
        parts.append(block)
        size, whole = size + len(block), ended
        if size >= JOINED:
            yield number, b"".join(parts), whole
            parts, size = [], 0
    if parts:
        yield number, b"".join(parts), whole


# --- lines ----------------------------------------------------------------------------------------------


class _Reading:
    """Reads the ops of one file. `last`: whether an incomplete last line is skipped instead of an error."""

    def __init__(self, file: Path, last: bool, notes: Notes, exact: bool) -> None:
        self.last = last
        self._file, self._notes, self._of_edn = file, notes, is_edn(file)
        self._decode = _Edn(notes, exact) if self._of_edn else _Json()
        self._position = self._blank = 0

    def lines(self, number: int, block: bytes, whole: bool) -> Iterator[Line]:
        """Yields the ops of a block, whose first line has this number.

        `whole`: whether its last line ends with a newline.
        """
        name = str(self._file)
        lines = block.split(b"\n")
        for at, ready in enumerate(self._decode.quick(block, lines), number):
            data: Mapping[str, Any] | None = ready
            if data is None:
                line = lines[at - number]
                if not line.strip() or (self._of_edn and line.lstrip().startswith(b";")):
                    self._blank += 1
                    if self._blank > MAX_BLANK_LINES:
                        raise BadHistory(
                            f"{name}, line {at}: more than {MAX_BLANK_LINES:,} blank lines in the file; "
                            "remove them, or use another file"
                        )
                    continue
                try:
                    data = self._decode.slow(line, f"{name}, line {at}")
                except BadHistory:
                    if whole or at < number + len(lines) - 1 or not self.last:
                        raise  # a killed writer leaves a torn last line, and this is not one
                    self._notes.truncated = f"{self._file.name}: cut off in its last line, which is skipped"
                    break
            if "index" not in data:
                if _header(data, f"{name}, line {at}", self._notes):
                    continue
                if self._of_edn:
                    data = {**data, "index": self._position}
            self._position += 1
            yield Line(data, at, name)

    def stretch(self, number: int, text: bytes, form: Form) -> Stretch:
        """Returns a text as one `Stretch`. All of its lines must have the usual form (see plain_lines)."""
        if self._of_edn:  # see `lines`
            self._position += text.count(b"\n")
        return Stretch(text, number, str(self._file), form, self._one)

    def _one(self, line: bytes, where: str) -> Mapping[str, Any]:
        ready = next(iter(self._decode.quick(line, [line])))
        return self._decode.slow(line, where) if ready is None else ready


def _header(data: Mapping[str, Any], where: str, notes: Notes) -> bool:
    if "schema" not in data:
        return False
    if not isinstance(data["schema"], int) or data["schema"] > op_json.SCHEMA:
        raise BadHistory(
            f"{where}: written with schema {data['schema']}; this version reads schemas up to {op_json.SCHEMA}; "
            "upgrade the harness"
        )
    notes.run = str(data.get("run", "")) or notes.run
    notes.part = notes.part or "shrunk_from" in data
    notes.record = bool(data.get("record", notes.record))
    return True


class _Json:
    """Decodes lines of the harness's own log."""

    def quick(self, block: bytes, lines: list[bytes]) -> Iterator[dict[str, Any] | None]:
        """Yields the data of each line, or None for a line that `slow` must decode."""
        return map(_object, lines)

    def slow(self, line: bytes, where: str) -> Mapping[str, Any]:
        """Returns the data of any line. Raises BadHistory, which says what is wrong with the line."""
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadHistory(f"{where}: not a JSON line ({error})") from None
        if not isinstance(data, dict):
            raise BadHistory(f"{where}: not an op (a JSON object is expected)")
        if _deep(data):
            raise BadHistory(f"{where}: nested deeper than {reader.MAX_DEPTH} levels")
        return data


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(data) is not dict or (line.count(b"[") + line.count(b"{") > reader.MAX_DEPTH and _deep(data)):
        return None
    return data


def _deep(data: Any) -> bool:
    """Returns whether data is nested more deeply than the EDN reader allows.

    The search goes level by level, not by recursion, so deeply nested data cannot exhaust the stack.
    """
    level = [data]
    for _ in range(reader.MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is list or type(inner) is dict
        ]
        if not level:
            return False
    return True


class _Edn:
    """Decodes lines of Jepsen's histories."""

    def __init__(self, notes: Notes, exact: bool) -> None:
        self._notes, self._exact, self._begun = notes, exact, False

    def quick(self, block: bytes, lines: list[bytes]) -> Iterator[dict[str, Any] | None]:
        """Yields the data of each line that has the usual form, or None for a line that `slow` must decode."""
        if not self._begun:
            self._begun, self._notes.record = True, block.startswith(fast_path.PREFIX)
        found = fast_path.quick(block)
        if self._exact and (b"#" in block) is not self._notes.record:
            tagged = self._notes.record
            return (data if line.startswith(b"#") is tagged else None for data, line in zip(found, lines, strict=True))
        return found

    def slow(self, line: bytes, where: str) -> Mapping[str, Any]:
        """Returns the data of any line. Raises BadHistory, which says what is wrong with the line."""
        try:
            return ops.data_of(fast_path.loads(line.decode(), where), self._exact, self._notes.record)
        except UnicodeDecodeError as error:
            raise BadHistory(f"{where}: not UTF-8 ({error.reason} at byte {error.start + 1})") from None
        except ValueError as error:
            raise BadHistory(f"{where}: {error}") from None
