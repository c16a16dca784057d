"""Writes the Parquet files in results/ of a run folder: all witnesses, and the time series for the plots.

    results/witnesses/<anomaly>.parquet   one row per witness: op (the witness's first op), witness (JSON)
    results/unseen.parquet                time_ns, key, unseen
    results/realtime_lag.parquet          time_ns, process, key, lag_ns

Tasks write one part per bucket and anomaly to results/.parts. `finish` joins the parts of an anomaly into one file,
with one part in memory at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from checker.kernels.witness import OP_FIELDS
from checker.tables import make_tables, read_tables, remote_run
from checker.tables.buckets_of_a_history import Part, Source

PARTS: Final = "results/.parts"
FORM: Final = pa.schema([("op", pa.int64()), ("witness", pa.string())])


def texts_of(part: Part) -> list[str]:
    """Returns the keys and values that are not plain integers, as JSON texts in the order of their codes."""
    return list(part.tables.texts) if part.tables is not None else read_tables.texts(Path(part.folder))


def clear(run: Path) -> None:
    """Removes the witnesses of an earlier check from the run folder."""
    for folder in (run / "results" / "witnesses", run / PARTS):
        shutil.rmtree(folder, ignore_errors=True)


def _first_op(witness: Mapping[str, Any]) -> int | None:
    for name in ("op", "reader", "writer", "ops"):
        if name in OP_FIELDS and witness.get(name) is not None:
            ops = witness[name]
            return int(ops[0] if isinstance(ops, list) else ops)
    return None


def write_part(run: Path, name: str, bucket: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes all witnesses (`rows`) of one anomaly in one bucket to a part, which `finish` joins with the others."""
    folder = run / PARTS / name
    texts = [orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS).decode() for row in rows]
    table = pa.table(
        [pa.array([_first_op(row) for row in rows], pa.int64()), pa.array(texts, pa.string())], schema=FORM
    )
    with make_tables.writing(folder), remote_run.written(folder) as place:
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, place / f"{bucket:05d}{remote_run.attempt()}.parquet")


def finish(run: Path) -> None:
    """Joins the parts of each anomaly into one file."""
    parts = run / PARTS
    target = run / "results" / "witnesses"
    with make_tables.writing(target):
        target.mkdir(parents=True, exist_ok=True)
        for folder in sorted(parts.iterdir()) if parts.is_dir() else ():
            with pq.ParquetWriter(target / f"{folder.name}.parquet", FORM) as writer:
                for file in sorted(folder.glob("*.parquet")):
                    writer.write_table(pq.ParquetFile(file).read())
    shutil.rmtree(parts, ignore_errors=True)


def _named(table: pa.Table, original: Mapping[int, Any]) -> pa.Table:
    """Returns the table with key codes replaced with the texts of the original keys."""
    place = table.schema.get_field_index("key")
    texts = [str(original.get(key, key)) for key in table.column("key").to_pylist()]
    return table.set_column(place, "key", pa.array(texts, pa.string()))


def _worst_lag(lag: pa.Table) -> dict[str, Any] | None:
    if lag.num_rows == 0:
        return None
    ordered = lag.sort_by([("lag_ns", "descending"), ("time_ns", "ascending"), ("process", "ascending")])
    row: dict[str, Any] = ordered.slice(0, 1).to_pylist()[0]
    return row


def series(
    source: Source,
    unseen: Sequence[pa.Table | None],
    lag: Sequence[pa.Table | None],
    original: Mapping[int, Any],
) -> dict[str, Any]:
    """Joins the time series of all buckets, and writes them to the run folder if the source has one.

    unseen    for each bucket: the number of unseen values over time
    lag       for each bucket: the realtime lag over time
    original  code -> key or value, for keys and values that are not plain integers

    Returns {"worst_realtime_lag": the row with the largest lag, or None}.
    """
    lags = pa.concat_tables([table for table in lag if table is not None])
    worst_lag = _worst_lag(lags)
    if worst_lag is not None:
        worst_lag["key"] = original.get(worst_lag["key"], worst_lag["key"])
    if source.run is not None:
        folder = source.run / "results"
        unseens = pa.concat_tables([table for table in unseen if table is not None])
        named = _named(unseens, original).select(["time_ns", "key", "unseen"]).sort_by("time_ns")
        with make_tables.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(named, folder / "unseen.parquet")
            pq.write_table(_named(lags, original).sort_by("time_ns"), folder / "realtime_lag.parquet")
    return {"worst_realtime_lag": worst_lag}
