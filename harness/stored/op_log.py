"""Reads a history: single operations by index, or all lines in order.

An operation is found by binary search, which is fast even with ten million operations. The result is None if there is
no such operation, if the history is not ordered by index, or if lines are damaged.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import BinaryIO, Final, cast

import orjson

from harness.model import op_json
from harness.model.errors_and_exit_codes import BadHistory, BadInput
from harness.model.op import Op
from harness.stored import line_search

INDEX: Final = re.compile(rb'^\{"index":(\d+),')


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a history.

    run      name of the run
    wall_ns  wall-clock time at which the run's clock was 0, in nanoseconds since 1970
    """

    run: str
    wall_ns: int


def segments(run: Path) -> list[Path]:
    """Returns the files of a run folder's history in order; for a history file, the file itself.

    Raises BadInput if one of them is not a regular file. (Reading from a FIFO, for example, might never end.)
    """
    found = [run] if run.is_file() else sorted((run / "history").glob("*.jsonl"))
    for path in found:
        if not path.is_file():
            raise BadInput(f"{path}: not a regular file; a history can only be read from regular files")
    return found


def opened(path: Path) -> BinaryIO:
    """Opens a file of lines, gzipped or not. Raises BadInput if it cannot be opened."""
    try:
        return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None


def each(run: Path) -> Iterator[tuple[Path, int, bytes]]:
    """Yields (file, line number, line) for each line of a history. Raises BadInput if a file cannot be read."""
    for path in segments(run):
        with opened(path) as file:
            try:
                for number, line in enumerate(file, 1):
                    yield path, number, line
            except EOFError:  # a truncated gzip stream: keep what could be read
                return
            except (OSError, zlib.error) as error:
                raise BadInput(f"{path}: cannot be read ({error})") from None


def index_of(line: bytes) -> int | None:
    """Returns the index of the operation in a line; None for a line without an operation, such as the header."""
    found = INDEX.match(line)
    if found:
        return int(found.group(1))
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    index = data.get("index") if isinstance(data, dict) else None
    return index if type(index) is int else None


class OpLog:
    """The operations of a run folder or a history file.

    `at(index)` returns the operation with this index; None if it cannot be found.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._segments = segments(run)
        self.at = lru_cache(maxsize=1024)(self._at)

    @cached_property
    def header(self) -> Header | None:
        """The header of the history; None if it is missing or invalid."""
        try:
            with self._segments[0].open("rb") as file:
                data = orjson.loads(file.readline(1 << 16))
            return Header(str(data["run"]), int(data["wall_ns"]))
        except (OSError, IndexError, KeyError, TypeError, ValueError):
            return None

    @cached_property
    def _firsts(self) -> list[int]:
        """For each file of the history, the index of its first operation; -1 if it has none."""
        firsts = []
        for path in self._segments:
            with path.open("rb") as file:
                found = (index_of(file.readline(line_search.LINE_MAX)) for _ in range(2))
                firsts.append(next((index for index in found if index is not None), -1))
        return firsts

    def _at(self, index: int) -> Op | None:
        try:
            paths = [path for path, first in zip(self._segments, self._firsts, strict=True) if 0 <= first <= index]
            if not paths:
                return None
            with paths[-1].open("rb") as file:
                if not line_search.seek(file, index_of, index):
                    return None
                op = op_json.decode(file.readline(line_search.LINE_MAX))
        except (OSError, BadHistory):
            return None
        return op if op.index == index else None
