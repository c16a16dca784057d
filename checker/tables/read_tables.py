"""Reads the tables of a folder: whole buckets, or some of their columns. Called by the tasks that judge the buckets.

A folder may be at a URI: see `checker.tables.remote_run`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from checker.tables import remote_run, schema
from checker.tables.columns import Data, Small
from checker.tables.make_tables import DICTIONARY, META, reading, small_of


def _table(file: Path) -> pa.Table:
    return pq.ParquetFile(remote_run.local(file), page_checksum_verification=True).read()


def load(folder: Path, bucket: int, meta: Mapping[str, Any]) -> tuple[Data, Small]:
    """Returns the rows of one bucket, and the other tables that kernels need. Raises DamagedTables."""
    with reading(folder):
        sends, polls = (bucket_columns(folder, name, bucket, *schema.KERNEL[name]) for name in schema.BUCKETED)
        small = {name: load_small(folder, name) for name in schema.SMALL}
        for name in schema.SPREAD.keys() - schema.BUCKETED.keys():
            small[name] = bucket_columns(folder, name, bucket, *schema.SPREAD[name].names)
    return Data.of(sends, polls), small_of(small, meta)


def bucket_columns(folder: Path, kind: str, bucket: int, *names: str) -> pa.Table:
    """Returns the columns `names` of one bucket of a table. Raises DamagedTables.

    kind  the name of a table that is split into buckets
    """
    form = pa.schema([schema.SPREAD[kind].field(name) for name in names])
    with reading(folder):
        found = [
            pq.ParquetFile(file, page_checksum_verification=True).read(columns=list(names))
            for file in remote_run.local_files(folder / kind / f"{bucket:05d}")
        ]
        return pa.concat_tables([form.empty_table(), *found]).cast(form)


def stamp(folder: Path) -> tuple[str, int, int]:
    """Returns a value that changes when the tables in `folder` are made again. Raises DamagedTables."""
    if (remote := remote_run.stamp(folder)) is not None:
        return str(folder), remote, 0
    with reading(folder):
        state = (folder / META).stat()
    return str(folder), state.st_mtime_ns, state.st_size


def load_small(folder: Path, name: str) -> pa.Table:
    """Returns a table that is not split into buckets, by its name. Raises DamagedTables.

    Tables of share groups are empty if the folder was made by a version that had none.
    """
    file = folder / f"{name}.parquet"
    if name in schema.OF_SHARE_GROUPS and not remote_run.exists(file):
        return schema.SMALL[name].empty_table()
    with reading(folder):
        return _table(file).cast(schema.SMALL[name])


def ops_between(folder: Path, low: int, high: int, *names: str) -> Iterator[pa.Table]:
    """Yields the columns `names` of the ops with ids from low to high inclusive, file by file.

    `names` must include `index`. The columns `type` and `f` are dictionary-encoded. Raises DamagedTables.
    """
    with reading(folder):
        for file in remote_run.local_files(folder / "ops"):
            opened = pq.ParquetFile(file, page_checksum_verification=True, read_dictionary=["type", "f"])
            groups = [group for group in range(opened.num_row_groups) if _overlaps(opened, group, low, high)]
            if not groups:
                continue
            table = opened.read_row_groups(groups, columns=list(names))
            index = table.column("index").to_numpy()
            inside = (index >= low) & (index <= high)
            yield table if bool(inside.all()) else table.filter(pa.array(inside))


def ops_columns(folder: Path, *names: str) -> Iterator[pa.Table]:
    """Yields the columns `names` of the table of ops, file by file. Raises DamagedTables.

    The columns `type` and `f` are dictionary-encoded.
    """
    with reading(folder):
        for file in remote_run.local_files(folder / "ops"):
            opened = pq.ParquetFile(file, page_checksum_verification=True, read_dictionary=["type", "f"])
            yield opened.read(columns=list(names))


def _overlaps(file: pq.ParquetFile, group: int, low: int, high: int) -> bool:
    """Returns whether a row group of a Parquet file may contain ids from low to high."""
    column = file.metadata.row_group(group).column(file.schema_arrow.get_field_index("index"))
    statistics = column.statistics
    return statistics is None or not statistics.has_min_max or (statistics.min <= high and statistics.max >= low)


def texts(folder: Path) -> list[str]:
    """Returns the keys and values that are not plain integers, as JSON texts in the order of their codes.

    Raises DamagedTables.
    """
    with reading(folder):
        found: list[str] = orjson.loads(remote_run.local(folder / DICTIONARY).read_bytes())
    return found
