"""Reading histories: files -> raw ops as plain mappings, with the place of each for messages.

Takes write-ahead segments (`*.jsonl`, see harness.model.codec) and Jepsen's EDN (`*.edn`), plain or gzipped.
A torn last line is expected of a killed writer: it is left out, and the reader says so. Anything else that is
not a line of the format raises BadHistory, naming file and line.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import orjson

from harness.model import codec, edn
from harness.model.errors import BadHistory

MAX_LINE: Final = 256 << 20


@dataclass(slots=True)
class Notes:
    """What reading found that a verdict must mention."""

    truncated: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One raw op: a mapping with the fields of codec, and where it stands."""

    data: Mapping[str, Any]
    number: int
    file: str

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.number}"


def sources(path: Path) -> list[Path]:
    """The files of a history, in order: a run folder's segments, or the one file. Raises BadHistory."""
    if path.is_dir():
        folder = path / "history"
        if not folder.is_dir():
            raise BadHistory(f"{path}: no history/*.jsonl in it; give a run folder or a history file")
        return _segments(folder)
    if not path.is_file():
        raise BadHistory(f"{path}: no such file or folder; give a run folder or a history file")
    return [path]


def _segments(folder: Path) -> list[Path]:
    """The segments of a run, of which none may be missing. Raises BadHistory."""
    found = sorted(folder.glob("*.jsonl"))
    if not found:
        raise BadHistory(f"{folder}: no segment (*.jsonl) in it: nothing was recorded, so nothing is judged")
    for number, file in enumerate(found):
        if file.stem.isdecimal() and int(file.stem) != number:
            raise BadHistory(
                f"{folder}: the segment {number:05d}.jsonl is missing before {file.name}; put it back, or "
                "judge the segments that there are one by one"
            )
    return found


def is_edn(path: Path) -> bool:
    """By its name."""
    return ".edn" in path.suffixes[-2:]


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _raw(path: Path, last: bool, notes: Notes) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; a gzip stream cut short ends quietly in the last file, as a torn line does."""
    number = 0
    try:
        with _opened(path) as stream:
            while line := stream.readline(MAX_LINE):
                number += 1
                if len(line) == MAX_LINE:
                    raise BadHistory(f"{path}, line {number}: longer than {MAX_LINE >> 20} MiB")
                yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        if not last or isinstance(error, gzip.BadGzipFile):
            raise BadHistory(f"{path}, after line {number}: damaged gzip ({error})") from None
        notes.truncated = f"{path.name}: cut off after line {number}"
    except OSError as error:
        raise BadHistory(f"{path}: cannot be read ({error.strerror})") from None


def read(path: Path, notes: Notes) -> Iterator[Line]:
    """The raw ops of a history, file by file."""
    files = sources(path)
    for file in files:
        yield from _file(file, file == files[-1], notes)


def _file(file: Path, last: bool, notes: Notes) -> Iterator[Line]:
    decode = _from_edn if is_edn(file) else _from_json
    name = str(file)
    torn: BadHistory | None = None
    position = 0
    for number, line in _raw(file, last, notes):
        if not line.strip():
            continue
        try:
            data = decode(line, f"{name}, line {number}")
        except BadHistory as error:
            if line.endswith(b"\n"):
                raise  # a writer that is killed leaves a line without its end; this one was written so
            torn = error
            continue
        if "index" not in data:
            if _header(data, f"{name}, line {number}", notes):
                continue
            if is_edn(file):
                data = {**data, "index": position}
        position += 1
        yield Line(data, number, name)
    if torn is not None:
        if not last:
            raise torn
        notes.truncated = f"{file.name}: cut off in its last line, which is left out"


def _header(data: Mapping[str, Any], where: str, notes: Notes) -> bool:
    if "schema" not in data:
        return False
    if not isinstance(data["schema"], int) or data["schema"] > codec.SCHEMA:
        raise BadHistory(
            f"{where}: log schema {data['schema']}, but this version reads up to {codec.SCHEMA}; upgrade"
        )
    notes.run = str(data.get("run", "")) or notes.run
    return True


def _from_json(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadHistory(f"{where}: not a JSON line ({error})") from None
    if not isinstance(data, dict):
        raise BadHistory(f"{where}: not an op (a JSON object is expected)")
    return data


# --- Jepsen's EDN -------------------------------------------------------------------------------------

_FIELDS: Final = ("index", "process", "type", "f", "value", "error")
_EXTRA: Final = {"rebalance-log": "rebalance_log", "seek-to-beginning?": "seek_to_beginning"}


def _from_edn(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        form = edn.loads(line.decode(), where)
    except UnicodeDecodeError as error:
        raise BadHistory(f"{where}: not UTF-8 ({error.reason} at byte {error.start})") from None
    if isinstance(form, edn.Tagged):  # #jepsen.history.Op{...}
        form = form.value
    if not isinstance(form, dict):
        raise BadHistory(f"{where}: not an op (a map is expected)")
    data: dict[str, Any] = {name: form.get(name) for name in _FIELDS if name in form}
    data["time_ns"] = form.get("time", -1)
    for name in ("process", "type", "f"):
        if isinstance(data.get(name), str):
            data[name] = str(data[name])
    if "value" in data and data.get("f") in ("send", "poll", "txn"):
        data["value"] = _micro_ops(data["value"])
    elif isinstance(data.get("value"), edn.Bag | tuple):
        data["value"] = list(data["value"])
    data["extra"] = {
        _EXTRA.get(name, str(name)): _plain(value)
        for name, value in form.items()
        if name not in _FIELDS and name != "time"
    }
    return data


def _micro_ops(value: Any) -> Any:
    """[[:send k v] [:poll {k pairs}]] -> [["send", k, v], ["poll", [[k, pairs], ...]]]."""
    if not isinstance(value, list | tuple):
        return value
    mops: list[Any] = []
    for mop in value:
        if isinstance(mop, list | tuple) and len(mop) == 2 and mop[0] == "poll" and isinstance(mop[1], dict):
            mops.append(["poll", [[_unfrozen(key), pairs] for key, pairs in mop[1].items()]])
        else:
            mops.append(list(mop) if isinstance(mop, list | tuple) else mop)
    return mops


def _unfrozen(value: Any) -> Any:
    return value.value if isinstance(value, edn.Frozen) else value


def _plain(value: Any) -> Any:
    """Extras as plain data: keywords become strings, in maps with _ for - so that they read as ours."""
    if isinstance(value, dict):
        return {str(_unfrozen(key)): _plain(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    return value
