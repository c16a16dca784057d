"""Reading a run's tables and series, for reports: what is missing or broken is a sentence, not a crash.

The tables are those of checker.schema: tables/ops/*.parquet, tables/nemesis.parquet, results/*.parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.report.faults import Event, Span, spans

BATCH_ROWS: Final = 1 << 20
OPS_COLUMNS: Final = ("f", "type", "invoke_ns", "complete_ns", "final")

UNREADABLE: Final = (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, ValueError)


class NoData(Exception):
    """There is nothing to draw; the message says why. Not a user's error: the plot shows it."""


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a table that is a folder, by name."""
    return sorted(folder.glob("*.parquet")) if folder.is_dir() else []


def read(path: Path, columns: Sequence[str]) -> pa.Table:
    """Some columns of one Parquet file. Raises NoData."""
    if not path.is_file():
        raise NoData(f"no {path.parent.name}/{path.name}")
    try:
        return pq.ParquetFile(path).read(columns=list(columns)).select(list(columns))
    except UNREADABLE as error:
        raise NoData(f"{path.parent.name}/{path.name} cannot be read ({_short(error)})") from None


def _short(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:80]


def ops_batches(run: Path) -> Iterator[pa.RecordBatch]:
    """Batches of tables/ops with OPS_COLUMNS; `f` and `type` are dictionary-coded. Raises NoData."""
    files = parquet_files(run / "tables" / "ops")
    if not files:
        raise NoData("no tables/ops; run `harness check` on the run first")
    for file in files:
        try:
            reader = pq.ParquetFile(file, read_dictionary=["f", "type"])
            yield from reader.iter_batches(BATCH_ROWS, columns=list(OPS_COLUMNS))
        except UNREADABLE as error:
            raise NoData(f"tables/ops/{file.name} cannot be read ({_short(error)})") from None


def last_ns(run: Path) -> int:
    """The last time in the table of ops, from the files' statistics; 0 when there is none."""
    last = 0
    for file in parquet_files(run / "tables" / "ops"):
        try:
            reader = pq.ParquetFile(file)
            found = _column_max(reader, ("invoke_ns", "complete_ns"))
        except UNREADABLE:
            continue  # reading the rows will say what is wrong
        last = max(last, found)
    return last


def _column_max(reader: pq.ParquetFile, names: Sequence[str]) -> int:
    best, missing = 0, False
    for group in range(reader.metadata.num_row_groups):
        row_group = reader.metadata.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            if column.path_in_schema in names:
                if column.statistics is not None and column.statistics.has_min_max:
                    best = max(best, int(column.statistics.max))
                elif row_group.num_rows:
                    missing = True
    if missing:
        for batch in reader.iter_batches(BATCH_ROWS, columns=list(names)):
            best = max([best, *(int(pc.max(column).as_py() or 0) for column in batch.columns)])
    return best


def events(run: Path) -> list[Event]:
    """The nemesis's ops in time order; none when the table is missing or broken."""
    try:
        rows = read(run / "tables" / "nemesis.parquet", ("time_ns", "f", "value", "fault", "span", "phase"))
    except NoData:
        return []
    return [
        Event(row["time_ns"], row["f"], _decoded(row["value"]), row["fault"], row["span"], row["phase"])
        for row in rows.sort_by("time_ns").to_pylist()
    ]


def _decoded(text: str | None) -> Any:
    try:
        return orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return text


def fault_spans(run: Path) -> list[Span]:
    """Spans of the run's faults."""
    return spans(events(run))


def ints(column: pa.ChunkedArray | pa.Array, none: int = -1) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An integer column as numpy, with `none` for null."""
    filled = pc.fill_null(column, none) if column.null_count else column
    result: np.ndarray[Any, np.dtype[np.int64]] = filled.to_numpy(zero_copy_only=False).astype(
        np.int64, copy=False
    )
    return result
