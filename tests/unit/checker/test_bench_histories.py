"""The generated histories of tests/bench are valid, and their tables match their log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checker.check import check_plain
from checker.tables import make_tables, read_tables, schema
from harness.model.check_options import CheckOptions
from tests.bench import histories
from tests.bench.histories import Shape

BUCKETS = 3
SHAPES = (Shape(3000, 16), Shape(3000, 16, txn=True), Shape(9000, 1, txn=True, fan=1), Shape(30_000, 64))


def _ops(folder: Path) -> pa.Table:
    parts = read_tables.ops_columns(folder, *schema.OPS.names)
    return pa.concat_tables([part.cast(schema.OPS) for part in parts])


def _rows(folder: Path) -> dict[str, Any]:
    """Every table, in an order that does not depend on parts."""
    found = {"ops": _ops(folder)}
    for kind, form in schema.BUCKETED.items():
        for bucket in range(BUCKETS):
            table = read_tables.bucket_columns(folder, kind, bucket, *form.names)
            by = [(name, "ascending") for name in ("op", "mop", "key", "offset", "value")]
            found[f"{kind} {bucket}"] = table.sort_by(by)
    return {**found, **{name: read_tables.load_small(folder, name) for name in schema.SMALL}}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_histories_are_valid(shape: Shape, tmp_path: Path) -> None:
    columns = histories.make(shape)
    histories.write_tables(columns, tmp_path / "made", BUCKETS, chunk=700)
    events = tmp_path / "made" / "events" / "harness.jsonl"
    events.parent.mkdir()
    events.write_text('{"time_ns":1,"event":"phase","detail":"final polls complete"}\n')
    histories.write_log(columns, tmp_path / "log", segment_bytes=200_000)
    make_tables.make(tmp_path / "log", tmp_path / "log" / "tables", BUCKETS)
    made, read = (make_tables.read_meta(tmp_path / name / "tables") for name in ("made", "log"))
    assert made is not None and read is not None
    assert {**made, "sources": [], "files": {}} == {**read, "sources": [], "files": {}}
    rows = _rows(tmp_path / "made" / "tables")
    for name, table in _rows(tmp_path / "log" / "tables").items():
        assert rows[name].equals(table), name
    assert sum(rows[f"polls {bucket}"].num_rows for bucket in range(BUCKETS)) > shape.ops // 3
    for options in (CheckOptions(require_final_polls=shape.fan > 1), CheckOptions(jepsen_compatible=True)):
        result = check_plain(tmp_path / "made", options)
        assert (result.valid, result.reasons, result.anomalies) == ("valid", (), ())
