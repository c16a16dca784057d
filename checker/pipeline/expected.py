"""Computes, in Spark tasks, how many outputs each input record must have. This depends on the pipeline's transform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa


def with_expected(inputs: Any, transforms: Mapping[str, str | int]) -> Any:
    """Adds a column `want` to the input records: how many outputs each of them must have.

    inputs      has the columns run, id and key
    transforms  run -> its transform, or how many outputs every record must have
    """
    names = dict(transforms)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from harness.model.transforms import expected_count

        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("run", "id", "key"))
            rows = ((names[run], id_, key) for run, id_, key in zip(*columns, strict=True))
            want = [each if isinstance(each, int) else expected_count(each, id_, key) for each, id_, key in rows]
            yield batch.append_column("want", pa.array(want, pa.int64()))

    form = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in inputs.schema.fields)
    return inputs.mapInArrow(task, f"{form}, want bigint")
