"""Makes the tables of a run's log: converts its segments in parallel, or one by one while the run continues.

The tables have the same rows as those that `make_tables.make` makes in one process. If a segment cannot be converted
independently (see checker.tables.segment_tables), `make_tables.make` converts the whole log and reports the cause.
`roll` converts a segment as soon as the run has finished writing this segment. All pieces must use the same dictionary
for keys and values that are not plain integers. If a piece used different codes, it is converted again with the
complete dictionary.

    python -m checker.tables.join_segments SEGMENT TABLES      convert one segment, in a separate process
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow.parquet as pq

from checker.tables import make_tables, remote_run, schema
from checker.tables.read_history import sources
from checker.tables.remote_run import RemoteRun, spread
from checker.tables.segment_tables import FOLDER, RECORD, Piece, State, convert, scan
from harness.model.errors_and_exit_codes import BadHistory, HarnessError

PIECE_BYTES: Final = 200 << 20
ROLL_BUCKETS: Final = 32


# --- during a run ---------------------------------------------------------------------------------------


def roll(segment: Path, tables: Path) -> None:
    """Converts a segment that the run has finished writing, if all earlier segments have been converted.

    If an earlier segment has not been converted, `roll` does nothing; the check then converts both segments. Raises
    BadHistory, Missing.
    """
    rolled = _rolled(sources(segment.parent.parent), tables, by_size)
    number = int(segment.stem)
    if len(rolled) != number:
        return
    before, texts = State(), ()
    if rolled:
        before, texts = _state_after(rolled), tuple(rolled[-1]["texts"])
    found = scan([str(segment)])
    if found is None:
        return
    record = convert(Piece((str(segment),), False, before, texts), tables, ROLL_BUCKETS)
    after = before.then(found)
    with_after = {**record, "after": [dict(after.open), after.last_index, after.last_ns]}
    with make_tables.writing(tables):
        (tables / FOLDER / segment.stem / RECORD).write_bytes(orjson.dumps(with_after))


def _state_after(rolled: Sequence[Mapping[str, Any]]) -> State:
    return State(*rolled[-1]["after"])


def by_size(files: Sequence[Path], identities: Sequence[Sequence[Any]]) -> bool:
    """Returns whether the files have the names and sizes in `identities` (see `identity` in `read_history`).

    Comparing the content as well would take longer; this is done only when the pieces are joined.
    """
    return [[file.name, file.stat().st_size] for file in files] == [[name, size] for name, size, _ in identities]


def _rolled(
    files: Sequence[Path],
    tables: Path,
    same: Callable[[Sequence[Path], Sequence[Sequence[Any]]], bool] = make_tables.same_content,
) -> list[dict[str, Any]]:
    """Returns the record.json of each segment that `roll` converted, in order.

    The list ends before the first segment whose tables are missing or incomplete, or whose file has changed since the
    conversion according to the function `same`.
    """
    found: list[dict[str, Any]] = []
    for file in files:
        with suppress(OSError, orjson.JSONDecodeError, TypeError, ValueError, KeyError, AttributeError):
            record = orjson.loads((tables / FOLDER / file.stem / RECORD).read_bytes())
            fits = record["schema"] == schema.SCHEMA and record["buckets"] == ROLL_BUCKETS
            whole = all((tables / name).stat().st_size == size for name, size in record["files"].items())
            if fits and whole and "after" in record and same([file], record["sources"]):
                found.append(record)
                continue
        break
    return found


# --- a whole log ------------------------------------------------------------------------------------------


def make(
    path: Path,
    folder: Path,
    buckets: int | None,
    progress: Callable[[str], None],
    spark: Any = None,
) -> dict[str, Any]:
    """Makes the same tables as `make_tables.make`, but does not convert again what was converted during the run.

    If `spark` is given, the other segments are converted in parallel. Raises BadHistory, Missing.
    """
    files = sources(path)
    logs = len(files) > 1 and all(file.suffix == ".jsonl" for file in files)
    rolled = _rolled(files[:-1], folder) if logs and buckets in (None, ROLL_BUCKETS) else []
    if logs and (spark is not None or rolled):
        with suppress(BadHistory):
            meta = in_pieces(files, folder, buckets, rolled, progress, spark)
            if meta is not None:
                return meta
    return make_tables.make(path, folder, buckets, progress)


def _groups(files: Sequence[tuple[str, int]]) -> Iterator[tuple[str, ...]]:
    """Yields groups of neighbouring segments, each about PIECE_BYTES in size. `files` has their paths and sizes."""
    group: list[str] = []
    size = 0
    for file, file_size in files:
        group.append(file)
        size += file_size
        if size >= PIECE_BYTES:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)


def _pieces(
    groups: Sequence[tuple[str, ...]], rolled: Sequence[dict[str, Any]], spark: Any, remote: RemoteRun | None
) -> list[Piece] | None:
    """Returns the pieces that are still to be converted, each with the state of the log before it.

    Returns None if a state cannot be determined.
    """
    changes = spread(spark, remote, scan, groups[:-1])
    state = _state_after(rolled) if rolled else State()
    texts = tuple(rolled[-1]["texts"]) if rolled else ()
    pieces = []
    for group, change in zip(groups, [*changes, State()], strict=True):
        if change is None:
            return None
        pieces.append(Piece(group, group is groups[-1], state, texts))
        state = state.then(change)
    return pieces


def in_pieces(
    files: Sequence[Path],
    folder: Path,
    buckets: int | None,
    rolled: Sequence[dict[str, Any]],
    progress: Callable[[str], None],
    spark: Any,
) -> dict[str, Any] | None:
    """Makes the same tables as `make_tables.make`, and returns their metadata.

    rolled  the record.json of each segment that was converted during the run

    Returns None if the segments cannot be converted independently. Raises BadHistory, Missing.
    """
    count = ROLL_BUCKETS if rolled else buckets or make_tables.buckets_for([*files])
    with make_tables.writing(folder):
        _clear(folder, rolled)
    groups = [*_groups([(str(file), file.stat().st_size) for file in files[len(rolled) :]])]
    records = _converted(groups, folder, count, rolled, progress, spark)
    if records is None:
        return None
    with make_tables.writing(folder):
        return _join(folder, folder, count, records)


def make_remote(run: RemoteRun, folder: Path, buckets: int | None, progress: Callable[[str], None], spark: Any) -> bool:
    """Makes the tables of a run in an object store, with tasks that read from the store and write to it.

    Small tables and metadata are written to `folder`, which is local. Returns whether it was done, which it was not if
    the segments cannot be converted independently. Raises BadHistory, BadInput, Missing.
    """
    sizes = [(str(path), run.files[f"history/{path.name}"].size) for path in run.paths("history")]
    count = buckets or make_tables.buckets_of(sum(size for _, size in sizes))
    with make_tables.writing(folder):
        make_tables.clear(folder)
    records = _converted([*_groups(sizes)], run.tables, count, [], progress, spark, run)
    if records is None:
        return False
    with make_tables.writing(folder):
        _join(folder, run.tables, count, records)
    return True


def _converted(
    groups: Sequence[tuple[str, ...]],
    folder: Path,
    count: int,
    rolled: Sequence[dict[str, Any]],
    progress: Callable[[str], None],
    spark: Any,
    remote: RemoteRun | None = None,
) -> list[dict[str, Any]] | None:
    """Converts groups of segments to tables in `folder`. Returns the records of all pieces, in order.

    Returns None if the segments cannot be converted independently. Raises BadHistory, Missing.
    """
    pieces = _pieces(groups, rolled, spark, remote)
    if pieces is None:
        return None
    segments = len(rolled) + sum(map(len, groups))
    progress(f"tables: {segments} segments of the log in {len(pieces)} pieces")
    records = [*rolled, *spread(spark, remote, partial(convert, folder=folder, buckets=count), pieces)]
    if any("index" in record["doubts"] for record in records):  # later pieces may depend on what is missing
        return None
    texts = [*dict.fromkeys(text for record in records for text in record["texts"])]
    if any(record["texts"] != texts[: len(record["texts"])] for record in records[: len(rolled)]):
        return None
    again = [
        Piece(piece.files, piece.last, piece.before, tuple(texts))
        for piece, record in zip(pieces, records[len(rolled) :], strict=True)
        if record["texts"] != texts[: len(record["texts"])]
    ]
    for record in spread(spark, remote, partial(convert, folder=folder, buckets=count), again):
        place = next(n for n, old in enumerate(records) if old["sources"][0][0] == record["sources"][0][0])
        records[place] = record
    return records


def _clear(folder: Path, rolled: Sequence[Mapping[str, Any]]) -> None:
    """Removes everything from a folder except the tables of segments converted during the run."""
    if not rolled:
        make_tables.clear(folder)
        return
    (folder / make_tables.META).unlink(missing_ok=True)
    rolled_files = {folder / name for record in rolled for name in record["files"]}
    names = {Path(record["sources"][0][0]).stem for record in rolled}
    for file in folder.rglob("*.parquet"):
        if file not in rolled_files and file.parent.name not in names:
            file.unlink()


def _join(folder: Path, converted: Path, buckets: int, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Joins the small tables and the metadata of all pieces, and writes them to `folder`. Returns the metadata.

    converted  the folder, which may be a URI, with the small tables of each piece
    """
    texts = [*dict.fromkeys(text for record in records for text in record["texts"])]
    writer = make_tables.Writer(folder, buckets)
    for record in records:
        own = converted / FOLDER / str(record.get("part", Path(record["sources"][0][0]).stem))
        for kind, form in schema.SMALL.items():
            file = own / f"{kind}.parquet"
            if kind not in schema.OF_SHARE_GROUPS or remote_run.exists(file):
                writer.small[kind].append(pq.ParquetFile(remote_run.local(file)).read().cast(form))
        writer.files.update(record["files"])
    counts: dict[str, Counter[str]] = {}
    for record in records:
        for f, kinds in record["counts"].items():
            counts.setdefault(f, Counter()).update(kinds)
    doubts: dict[str, str] = {}
    for record in records:
        doubts = {**record["doubts"], **doubts}  # the first of each kind
    last_op, last_ns = next((r["last_ok"] for r in reversed(records) if r["last_ok"][0] >= 0), (-1, -1))
    finals = {process: kind for record in records for process, kind in record["final_processes"]}
    meta = {
        "schema": schema.SCHEMA,
        "sources": [each for record in records for each in record["sources"]],
        "buckets": buckets,
        "lines": sum(record["lines"] for record in records),
        "ops": sum(sum(kinds.values()) for kinds in counts.values()),
        "counts": {f: dict(kinds) for f, kinds in counts.items()},
        "last_ok_op": last_op,
        "last_ok_ns": last_ns,
        "max_ns": max(record["max_ns"] for record in records),
        "final_processes": {str(process): kind for process, kind in finals.items()},
        "truncated": records[-1]["truncated"],
        "doubts": list(doubts.values()),
        "missing": None,
        "run": _last(record["run"] for record in records),
    }
    writer.finish(meta, texts)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    return {**meta, "files": writer.files}


def _last(values: Iterable[str | None]) -> str | None:
    found = [value for value in values if value]
    return found[-1] if found else None


def main() -> None:
    """Converts one segment; for the arguments, see the module docstring.

    Errors are ignored: the check will convert the segment again, and report the cause.
    """
    segment, tables = sys.argv[1:]
    with suppress(HarnessError):
        roll(Path(segment), Path(tables))


if __name__ == "__main__":
    main()
